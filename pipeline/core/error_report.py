"""The file ``<artifact>/logs/error.json``: the error that ended the work on a stage.

The process that started the work reads it, and ``headrace status`` and ``logs`` do.

{"kind": "RetryableError", "where": "weights", "wrong": "rank 1 was killed", "remedy": "run again"}
"""

import contextlib
import sys
from collections.abc import Iterator
from pathlib import Path

from headrace.pipeline.core.errors import (
    ArtifactError,
    ConfigError,
    HeadraceError,
    RetryableError,
    StoppedError,
    TaskError,
)
from headrace.pipeline.core.json_files import read_sealed, write_sealed

FILE = "logs/error.json"
"""The path of the file below the artifact's folder."""

KINDS = {kind.__name__: kind for kind in (ArtifactError, ConfigError, RetryableError, StoppedError, TaskError)}


def write(folder: Path, error: HeadraceError) -> None:
    """Writes ``error`` below the artifact's ``folder``, in place of an earlier one. On a full disk it prints a line."""
    report = {"kind": type(error).__name__, "where": error.where, "wrong": error.problem, "remedy": error.remedy}
    try:
        write_sealed(folder / FILE, report)
    except OSError as problem:
        print(f"headrace: {folder / FILE} could not be written ({problem.strerror})", file=sys.stderr, flush=True)


@contextlib.contextmanager
def kept(folder: Path) -> Iterator[None]:
    """Writes the error that ends the block below the artifact's ``folder``, for ``headrace status``."""
    try:
        yield
    except HeadraceError as error:
        write(folder, error)
        raise


def read(folder: Path) -> HeadraceError | None:
    """Returns the error below ``folder``, if any. For a damaged report, returns the error about the damage."""
    if not (folder / FILE).is_file():
        return None
    try:
        report = read_sealed(folder / FILE)
    except ArtifactError as error:
        return error
    return KINDS.get(report["kind"], TaskError)(report["where"], report["wrong"], report["remedy"])


def clear(folder: Path) -> None:
    """Removes the error of an earlier start."""
    (folder / FILE).unlink(missing_ok=True)

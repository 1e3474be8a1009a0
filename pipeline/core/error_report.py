"""The error that ended a job or a rank, left in a file for whoever started it: ``<artifact>/logs/error.json``.

{"kind": "RetryableError", "where": "weights", "wrong": "rank 1 was killed", "remedy": "run again"}
"""

import sys
from pathlib import Path

from headrace.pipeline.core.artifact import read_sealed, write_sealed
from headrace.pipeline.core.errors import ArtifactError, ConfigError, HeadraceError, RetryableError, TaskError

PLACE = "logs/error.json"
"""Below the artifact's folder."""

KINDS = {kind.__name__: kind for kind in (ArtifactError, ConfigError, RetryableError, TaskError)}


def leave(folder: Path, error: HeadraceError) -> None:
    """Leave ``error`` in the artifact's ``folder``, in the place of an earlier one; on a full disk, only say so."""
    report = {"kind": type(error).__name__, "where": error.where, "wrong": error.wrong, "remedy": error.remedy}
    try:
        write_sealed(folder / PLACE, report)
    except OSError as problem:
        print(f"headrace: {folder / PLACE} could not be written ({problem.strerror})", file=sys.stderr, flush=True)


def find(folder: Path) -> HeadraceError | None:
    """What was left in ``folder``, if anything; of a report that is damaged, that it is."""
    if not (folder / PLACE).is_file():
        return None
    try:
        report = read_sealed(folder / PLACE)
    except ArtifactError as error:
        return error
    return KINDS.get(report["kind"], TaskError)(report["where"], report["wrong"], report["remedy"])


def clear(folder: Path) -> None:
    """Forget what was left before."""
    (folder / PLACE).unlink(missing_ok=True)

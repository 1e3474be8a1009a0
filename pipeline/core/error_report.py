"""The error that ended a job or a rank, left in a file for whoever started it: ``<artifact>/logs/error.json``.

{"kind": "RetryableError", "where": "weights", "wrong": "rank 1 was killed", "remedy": "run again"}
"""

from pathlib import Path

from pipeline.core.artifact import read_json, write_json
from pipeline.core.errors import ArtifactError, ConfigError, HeadraceError, RetryableError, TaskError

PLACE = "logs/error.json"
"""Below the artifact's folder."""

KINDS = {kind.__name__: kind for kind in (ArtifactError, ConfigError, RetryableError, TaskError)}


def leave(folder: Path, error: HeadraceError) -> None:
    """Leave ``error`` in the artifact's ``folder``, in the place of an earlier one."""
    report = {"kind": type(error).__name__, "where": error.where, "wrong": error.wrong, "remedy": error.remedy}
    write_json(folder / PLACE, report)


def find(folder: Path) -> HeadraceError | None:
    """What was left in ``folder``, if anything."""
    if not (folder / PLACE).is_file():
        return None
    report = read_json(folder / PLACE)
    return KINDS.get(report["kind"], TaskError)(report["where"], report["wrong"], report["remedy"])


def clear(folder: Path) -> None:
    """Forget what was left before."""
    (folder / PLACE).unlink(missing_ok=True)

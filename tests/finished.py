"""Finished artifacts of files that a test wrote."""

import shutil
from pathlib import Path

from headrace.pipeline.core.artifact import Artifact, TaskOutput, finish


def finished(folder: Path) -> Artifact:
    """Makes the files in ``folder`` a finished artifact."""
    write_part(folder, "made")
    return finish(folder, {"stage": folder.parent.name}, {"made": 1})


def write_part(folder: Path, phase: str) -> None:
    """Writes the part record of the only task of ``phase``, with all files in ``folder``."""
    out = TaskOutput(folder, phase, 0)
    for path in [path for path in sorted(folder.rglob("*")) if path.is_file()]:
        with out.file(path.relative_to(folder).as_posix()) as copy:
            shutil.copyfile(path, copy)
    out.done({})

"""Scratch files that tasks of one phase hand to tasks of a later phase. They are verified before use.

    task 3 of phase exact                                     a task of a later phase
    TaskOutput.scratch("copies", "npy")                       handed(out, "exact/copies", 3, "npy")
      ├─> scratch/exact/copies/00003.npy ───────────────────────────────┐
      └─> parts/exact-00003.json: its size and hash, sealed ── compared ┴─> the path, or an error that names the file

When a file is damaged, the part record of its writer is removed, so the next run repeats that task. Tasks are
deterministic, so results that were made from the file before the damage stay correct. Scratch files are not flushed to
the disk (fsync): losses after a power failure are found here.
"""

import contextlib
from collections.abc import Iterable
from pathlib import Path

from headrace.pipeline.core.artifact import TaskOutput, is_whole, part_path, shard_name
from headrace.pipeline.core.errors import RetryableError
from headrace.pipeline.core.file_records import HandedFile
from headrace.pipeline.core.json_files import read_sealed


def handed(out: TaskOutput, source: str, task: int, suffix: str) -> Path:
    """Returns the scratch file that ``task`` of an earlier phase wrote, after verification.

    Args:
        out: the output of a task of the same artifact.
        source: ``<phase>/<kind>``.
        task: the number of the task in that phase.
        suffix: the suffix of the file.

    Raises:
        RetryableError: see ``damaged``.
    """
    path = unverified(out, source, task, suffix)
    record = _records(part_path(out.folder, _phase(source), task)).get(shard_name(source, task, suffix))
    if record is None or not _has_size(path, record) or HandedFile.of(path) != record:
        raise damaged(out, source, task, suffix)
    return path


def unverified(out: TaskOutput, source: str, task: int, suffix: str) -> Path:
    """Returns the path of a scratch file, for callers that read a part of it and verify that part themselves."""
    return out.folder / "scratch" / shard_name(source, task, suffix)


def damaged(out: TaskOutput, source: str, task: int, suffix: str) -> RetryableError:
    """Returns the error for a damaged or missing scratch file. The next run repeats the task that wrote it.

    The part record of that task is removed, and those of all tasks of its phase with files of the wrong size: a power
    failure damages many files at once. A finished artifact, which has no scratch files, keeps its records.
    """
    path, phase = unverified(out, source, task, suffix), _phase(source)
    if is_whole(out.folder):
        return RetryableError(str(path), "is gone, as another command finished the artifact", "run again")
    repeat(out, phase, [task])
    for part in out.folder.glob(f"parts/{phase}-[0-9]*.json"):
        files = {out.folder / "scratch" / name: record for name, record in _records(part).items()}
        if not all(_has_size(file, record) for file, record in files.items()):
            part.unlink(missing_ok=True)
    return RetryableError(str(path), "is damaged or missing", f"run again: task {task} of phase {phase!r} is repeated")


def repeat(out: TaskOutput, phase: str, tasks: Iterable[int]) -> None:
    """Removes the part records of ``tasks`` of ``phase``, so that the next run repeats them.

    A finished artifact, which has no scratch files, keeps its records.
    """
    if not is_whole(out.folder):
        for task in tasks:
            part_path(out.folder, phase, task).unlink(missing_ok=True)


def _phase(source: str) -> str:
    return source.partition("/")[0]


def _records(part: Path) -> dict[str, HandedFile]:
    """Returns the scratch files in a part record, by name; none when there is no record."""
    with contextlib.suppress(FileNotFoundError):  # another process found damage and removed it
        return {name: HandedFile(**record) for name, record in read_sealed(part).get("handed", {}).items()}
    return {}


def _has_size(path: Path, record: HandedFile) -> bool:
    return path.is_file() and path.stat().st_size == record.bytes

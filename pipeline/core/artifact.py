"""An artifact: the folder that a stage writes. Its manifest is written last, by rename, and makes it whole.

    <root>/<stage>/<address>/
        manifest.json           stage, version, settings, inputs, counts, every file with size and SHA-256
        parts/<phase>-00007.json    one per finished task: its counts, files and handed scratch files
        scratch/<phase>/        files for later phases; removed when the artifact is whole
        logs/                   not part of the result
        ...                     the result, in files that carry their task's number

The content does not depend on the time, the machine or the number of workers. So two runs of one description are equal
byte for byte, except for ``logs/``.

Tasks of one phase hand scratch files to tasks of a later phase, which verify them before use:

    task 3 of phase exact                                     a task of a later phase
    TaskOutput.scratch("copies", "npy")                       handed(out, "exact/copies", 3, "npy")
      ├─> scratch/exact/copies/00003.npy ───────────────────────────────┐
      └─> parts/exact-00003.json: its size and hash, sealed ── compared ┴─> the path, or an error that names the file

When a file is damaged, the part record of its writer is removed, so the next run repeats that task. Tasks are
deterministic, so results that were made from the file before the damage stay correct. Scratch files are not flushed to
the disk (fsync): losses after a power failure are found here.
"""

import contextlib
import dataclasses
import os
import re
import shutil
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from headrace.pipeline.core import claim
from headrace.pipeline.core.artifact_files import (
    CHECKSUMS,
    FileRecord,
    HandedFile,
    make,
    refuse_outside,
    sha256_of,
    sync,
)
from headrace.pipeline.core.claim import UNFINISHED, Owner, temporary_path
from headrace.pipeline.core.errors import ArtifactError, RetryableError, TaskError
from headrace.pipeline.core.json_files import read_sealed, write_sealed

FORMAT = 4
"""The rules of addresses, manifests, run.json and stage.json. Formats 1 to 3 belong to versions before 0.1.0: format 3
had no stage ``texts``."""
_FORMAT_LINE = re.compile(rb'^ "format": (\d+),?$', re.MULTILINE)
"""The line with the format at the top level of a manifest, as ``write_json`` writes it."""


def check_format(path: Path | str, values: Mapping[str, Any]) -> None:
    """Refuses ``values``, which were read from ``path``, when another version wrote them in another format.

    Raises:
        ArtifactError: with the format that they have.
    """
    written_format = values.get("format", "2 or lower")  # a run.json of format 2 does not have the number
    if written_format != FORMAT:
        remedy = "start a new root (root=FOLDER), or use the version of headrace that wrote it"
        raise ArtifactError(
            str(path), f"has format {written_format}; this version of headrace reads format {FORMAT}", remedy
        )


def has_older_format(folder: Path) -> bool:
    """Whether ``folder`` is a finished artifact of an older format, as far as this user can read it. This is fast."""
    with contextlib.suppress(OSError):  # it is unfinished, it belongs to another user, or it was removed meanwhile
        format_line = _FORMAT_LINE.search((folder / "manifest.json").read_bytes())
        return format_line is not None and int(format_line[1]) < FORMAT
    return False


class TaskOutput:
    """The output of one task of a phase. A file gets its final name only when it is whole."""

    def __init__(self, folder: Path, phase: str, task: int) -> None:
        self.folder, self.phase, self.task = folder, phase, task
        self._files: dict[str, FileRecord] = {}
        self._handed: dict[str, HandedFile] = {}

    @property
    def part(self) -> Path:
        return part_path(self.folder, self.phase, self.task)

    @contextlib.contextmanager
    def file(self, name: str) -> Iterator[Path]:
        """Gives a path to write the result file ``name`` to. At the end of the block it is checksummed and renamed."""
        with self._whole(name) as temporary:
            yield temporary
            sync(temporary)
            self._files[name] = FileRecord.of(temporary)

    def shard(self, kind: str, suffix: str) -> contextlib.AbstractContextManager[Path]:
        """Gives a path for this task's shard of ``kind``, ``<kind>/00007.<suffix>``, like ``file``."""
        return self.file(shard_name(kind, self.task, suffix))

    @contextlib.contextmanager
    def scratch(self, kind: str, suffix: str) -> Iterator[Path]:
        """Gives a path for this task's scratch file of ``kind``, for later phases."""
        name = shard_name(f"{self.phase}/{kind}", self.task, suffix)
        with self._whole(f"scratch/{name}") as temporary:
            yield temporary
            self._handed[name] = HandedFile.of(temporary)

    def own_scratch(self, name: str) -> Path:
        """Returns a path below ``scratch/`` for files that only this task uses."""
        return self.folder / "scratch" / name

    def done(self, counts: Mapping[str, int]) -> None:
        """Flushes the result files to the disk, then writes the part record: the task is finished."""
        for parent in sorted({(self.folder / name).parent for name in self._files}):
            sync(parent)
        files = {name: dataclasses.asdict(record) for name, record in self._files.items()}
        handed = {name: dataclasses.asdict(record) for name, record in self._handed.items()}
        write_sealed(self.part, {"counts": dict(counts), "files": files, "handed": handed})

    @contextlib.contextmanager
    def _whole(self, name: str) -> Iterator[Path]:
        final = self.folder / name
        make(final.parent)
        temporary = temporary_path(final)
        try:
            yield temporary
            temporary.replace(final)
        finally:
            temporary.unlink(missing_ok=True)


def shard_name(kind: str, number: int, suffix: str) -> str:
    return f"{kind}/{number:05d}.{suffix}"


def part_path(folder: Path, phase: str, task: int) -> Path:
    return folder / "parts" / f"{phase}-{task:05d}.json"


def is_whole(folder: Path) -> bool:
    """Whether the artifact in ``folder`` is finished."""
    return (folder / "manifest.json").is_file()


class Artifact:
    """A finished artifact, opened for reading."""

    def __init__(self, folder: Path) -> None:
        """Opens ``folder``.

        Raises:
            ArtifactError: when it has no manifest (it was never finished), a damaged one, or one of another format.
        """
        if not is_whole(folder):
            raise ArtifactError(str(folder), "is not a finished artifact (no manifest.json)", "run its stage first")
        self.folder = folder
        self.manifest = read_sealed(folder / "manifest.json")
        check_format(folder, self.manifest)
        refuse_outside(folder / "manifest.json", [*self.manifest["files"], *self.manifest.get("inputs", {}).values()])

    @property
    def shard_count(self) -> int:
        """The number of shards: the tasks of the stage's last phase (``phases`` in the manifest is sorted by name)."""
        return int(self.manifest["shards"])

    @property
    def counts(self) -> Counter[str]:
        return Counter(self.manifest["counts"])

    @property
    def identity(self) -> dict[str, Any]:
        """The manifest without the settings for readers: a later version may write more of them at one address."""
        return identity_of(self.manifest)

    @property
    def settings(self) -> dict[str, Any]:
        return dict(self.manifest["settings"])

    def path(self, name: str) -> Path:
        """Returns the path of the file ``name``. Its size is checked, and its checksum once per process.

        Raises:
            ArtifactError: when the manifest does not list it, or the file is damaged or missing.
        """
        if name not in self.manifest["files"]:
            raise ArtifactError(str(self.folder), f"has no file {name!r}", "check the name against manifest.json")
        path = self.folder / name
        record = FileRecord(**self.manifest["files"][name])
        if not path.is_file() or path.stat().st_size != record.bytes or sha256_of(path, record.bytes) != record.sha256:
            raise ArtifactError(str(path), "is damaged or missing", f"remove {self.folder} and run again")
        return path

    def take_as_whole(self, name: str) -> None:
        """Spares ``path`` the checksum of the file ``name``, because another process has just compared it."""
        record = FileRecord(**self.manifest["files"][name])
        CHECKSUMS[self.folder / name, record.bytes] = record.sha256

    def shards(self, kind: str) -> list[Path]:
        """Returns the files of ``kind`` in the order of their numbers, each verified."""
        return [self.path(name) for name in sorted(self.manifest["files"]) if name.startswith(f"{kind}/")]

    def verified_folder(self, name: str) -> Path:
        """Returns the path of the folder ``name``, after all its files were verified as ``path`` does.

        Raises:
            ArtifactError: when the manifest lists no file in it, or one is damaged or missing.
        """
        if not self.shards(name):
            raise ArtifactError(str(self.folder), f"has no folder {name!r}", "check the name against manifest.json")
        return self.folder / name

    def shard(self, kind: str, number: int, suffix: str) -> Path:
        """Returns shard ``number`` of ``kind``, verified."""
        return self.path(shard_name(kind, number, suffix))


def identity_of(manifest: Mapping[str, Any]) -> dict[str, Any]:
    """Returns ``Artifact.identity`` of ``manifest``."""
    return {name: value for name, value in manifest.items() if name != "settings"}


def missing_tasks(folder: Path, phase: str, tasks: int) -> list[int]:
    """Returns the tasks of ``phase`` without a part record."""
    parts = folder / "parts"
    present = {entry.name for entry in os.scandir(parts)} if parts.is_dir() else set()
    return [task for task in range(tasks) if part_path(folder, phase, task).name not in present]


Balance = tuple[str, int, int]
"""An equation that counts must satisfy: as text (``records_in = kept + dropped``), and the values of both sides."""


def finish(
    folder: Path,
    description: Mapping[str, Any],
    phases: Mapping[str, int],
    balances: Callable[[Counter[str]], Iterable[Balance]] = lambda counts: (),
) -> Artifact:
    """Sums the parts of all ``phases`` (name → number of tasks), removes temporary files, and writes the manifest.

    The equations that ``balances`` returns for the summed counts must hold: no record may be lost.

    Several processes may call it at the same time when all parts exist: all write the same bytes. After a kill before
    the manifest, it can be called again.

    Raises:
        TaskError: while the part of a task is missing.
        ArtifactError: when a part is damaged, or the two sides of an equation differ.
    """
    counts: Counter[str] = Counter()
    files: dict[str, Any] = {}
    for phase, tasks in phases.items():
        if missing := missing_tasks(folder, phase, tasks):
            problem = f"{len(missing)} of {tasks} tasks of {phase!r} are missing ({missing[:5]} …)"
            raise TaskError(str(folder), problem, "run again")
        for task in range(tasks):
            part = read_sealed(part_path(folder, phase, task))
            counts.update(part["counts"])
            files.update(part["files"])
    for equation, left, right in balances(counts):
        if left != right:
            problem = f"the counts do not add up: {equation} would be {left} = {right}"
            raise ArtifactError(str(folder), problem, "records were lost: remove this folder and run again")
    manifest = {"format": FORMAT, **description, "phases": dict(phases), "shards": list(phases.values())[-1]}
    manifest |= {"counts": dict(counts), "files": files}
    clear_work(folder)
    whole = folder / "manifest.json"
    while not whole.is_file():
        with contextlib.suppress(FileNotFoundError):  # another process removed the temporary file
            write_sealed(whole, manifest)
    return Artifact(folder)


def clear_work(folder: Path) -> None:
    """Removes scratch files, claims and the unfinished files of killed tasks. Files of running processes stay."""
    shutil.rmtree(folder / "scratch", ignore_errors=True)
    elsewhere = claim.owners(folder / "parts")
    claim.clear(folder / "parts")
    for parent, _, names in os.walk(folder):  # unlike glob, it tolerates folders that another process removes
        for name in names:
            writer = Owner.of_unfinished(name)
            lives = writer is not None and (not writer.is_dead if writer.is_here else writer in elsewhere)
            if name.startswith(UNFINISHED) and not lives:
                Path(parent, name).unlink(missing_ok=True)


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

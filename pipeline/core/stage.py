"""A stage: settings that know how to turn input artifacts into one output artifact.

    Stage ── phases ──> Phase, Phase, ...        each phase starts when the one before it is whole
    Phase ── tasks  ──> run(0), run(1), ...      independent, in any order, anywhere

A stage is a frozen, keyword-only dataclass: its fields are its settings. Its address is a hash of its name, version,
settings, the addresses of its inputs and the checksums of the raw files that it reads.

Raw files may change while a run lasts. A task reads the files that the run was planned with (``planned``), and fails
when one of them is not what it was: what is written under an address is made from the files that the address names.
"""

import dataclasses
import functools
import itertools
import os
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Self

from headrace.pipeline.core.artifact import Artifact, Balance, FileRecord, TaskOutput
from headrace.pipeline.core.errors import RetryableError
from headrace.pipeline.core.progress import TRAIL, follow_trail
from headrace.pipeline.core.settings import canonical, digest, plain, unhashed

Inputs = Mapping[str, Artifact]
"""The finished artifacts a stage reads, by stage name."""

Run = Callable[[int, Inputs, TaskOutput], "Counter[str]"]
"""What one task does: (task number, inputs, where to write) -> counts. Writes only files that carry its number."""


@dataclasses.dataclass(frozen=True)
class Phase:
    """``tasks`` independent pieces of work, numbered from 0."""

    name: str
    tasks: int
    run: Run


def counted(counts: "Counter[str]", prefix: str) -> int:
    """The sum of the counts whose names begin with ``prefix``."""
    return sum(number for name, number in counts.items() if name.startswith(prefix))


@dataclasses.dataclass(frozen=True)
class RawFile:
    """One file from outside the pipeline: its name (part of document ids), size in bytes and SHA-256."""

    name: str
    bytes: int
    sha256: str


def raw_file(name: str, path: Path) -> RawFile:
    """The local file ``path`` under ``name``. A process reads it once, for as long as its state stays the same."""
    record = _record(path, file_state(path))
    return RawFile(name, record.bytes, record.sha256)


def file_state(path: str | Path) -> tuple[int, int, int]:
    """Size, modification time and change time of a local file: any write changes one of them, also when the writer sets
    the modification time back. The file is opened for it, as an NFS client asks the server only then."""
    with open(path, "rb") as stream:
        state = os.fstat(stream.fileno())
    return state.st_size, state.st_mtime_ns, state.st_ctime_ns


@functools.cache
def _record(path: Path, state: tuple[int, int, int]) -> FileRecord:
    return FileRecord.of(path)


def changed(where: str, wrong: str) -> RetryableError:
    """The error of a raw file that is not what it was when the run was planned."""
    return RetryableError(
        where, f"{wrong} since the run was planned", "run again: new content has an address of its own"
    )


def refuse_changes(planned: Sequence[RawFile], found: Sequence[RawFile]) -> None:
    """Compare the raw files that a run was planned with and those that are there now.

    Raises:
        RetryableError: naming the first difference.
    """
    for before, now in itertools.zip_longest(planned, found):
        if before is None or now is None:
            raise changed((before or now).name, "was added" if before is None else "was removed")
        if before != now:
            raise changed(now.name, f"has changed (SHA-256 {now.sha256[:12]}, it was {before.sha256[:12]})")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Stage:
    """One step of the line. Subclasses set the class variables and ``phases``."""

    name: ClassVar[str]
    version: ClassVar[int] = 1
    inputs: ClassVar[tuple[str, ...]] = ()
    distributed: ClassVar[bool] = False
    """True when many ranks enter the stage's single task together (training)."""
    remedy: ClassVar[str] = "run again"
    """What to do when a rank of a distributed stage was killed."""
    progress_file: ClassVar[str] = TRAIL
    """The file below the artifact's folder in which the ranks of a distributed stage write their progress."""

    planned: tuple[RawFile, ...] | None = unhashed(None)
    """The raw files as they were when the run was planned; None for a stage outside a run."""

    def planned_as(self, description: Mapping[str, Any]) -> Self:
        """This stage with the raw files of ``description``, which was made when the run was planned."""
        return dataclasses.replace(self, planned=tuple(RawFile(**file) for file in description["raw_files"]))

    def check_raw_files(self) -> None:
        """Compare the raw files with the planned ones: called before and after each task.

        Raises:
            RetryableError: naming the first that differs.
        """
        if self.planned:
            refuse_changes(self.planned, self.raw_files())

    def phases(self, shards: Mapping[str, int]) -> tuple[Phase, ...]:
        """The work, given the number of shards of each input. Known before any input exists: a cluster needs it."""
        raise TypeError(f"{type(self).__name__} does not say what its phases are")

    def show_progress(self, rows: Iterable[Mapping[str, Any]]) -> None:
        """Shows the progress of the ranks: the ``rows`` of ``progress_file``, as they are written."""
        follow_trail(self.name, rows)

    def balances(self, counts: "Counter[str]", inputs: Inputs) -> Iterable[Balance]:
        """What must add up before the artifact with these ``counts`` is finished, by itself and with its inputs."""
        return ()

    def raw_files(self) -> tuple[RawFile, ...]:
        """The files from outside the pipeline whose content decides the result."""
        return ()

    def description(self, addresses: Mapping[str, str]) -> dict[str, object]:
        """Returns everything that decides the result, as JSON values. ``address_of`` hashes it.

        ``settings`` are for readers: a manifest can be read without the code that wrote it. ``hashed`` are the same
        settings without those at their default: a new field with a default changes no address.
        """
        return {
            "stage": self.name,
            "version": self.version,
            "settings": plain(self),
            "hashed": canonical(self),
            "inputs": {name: addresses[name] for name in self.inputs},
            "raw_files": [dataclasses.asdict(file) for file in self.raw_files()],
        }

    def address(self, addresses: Mapping[str, str]) -> str:
        """Returns the name of the artifact's folder."""
        return address_of(self.description(addresses))


def address_of(description: Mapping[str, Any]) -> str:
    """Returns the address of the artifact that ``description`` describes: a hash of all of it but ``settings``."""
    return digest({name: value for name, value in description.items() if name != "settings"})

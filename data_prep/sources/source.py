"""What every source does: list its files, group them into tasks, and read a file, or a section of it, as documents.

    paths ── listing ──> ListedFile, ... ── groups ──> Section, ... of each task ── read ──> (document, None | drop)
                └── files ──> RawFile, ...      the same with checksums, for the artifact's address

    a.jsonl, 150 MB     │ section 0 of 2 │ section 1 of 2 │     cut by size alone; a record is of the section that it
    records              0      1      2      3        4        begins in, and keeps the number that it has in the file

A file that changes while the run lasts is refused. A task that reads a whole file compares the file's state before and
after, and its checksum with the planned one. One task verifies the checksum of a file that is read in sections and
notes the file's state; a task that reads a section compares the state before and after with that. So each file is
read a fixed number of times, however many sections it has.

A record that cannot be read is not an error: it comes out with the Drop that says why, and is counted like any other.
"""

import abc
import dataclasses
from collections.abc import Iterable, Iterator, Sequence

from datatrove.data import Document

from headrace.data_prep.document import Drop
from headrace.pipeline.core.settings import Positive
from headrace.pipeline.core.stage import RawFile, changed

Record = tuple[Document, Drop | None]
"""One record of a source: the document, and why it must be dropped if it could not be read whole."""


@dataclasses.dataclass(frozen=True)
class ListedFile:
    """One raw file before its content was looked at: its name and size in bytes."""

    name: str
    bytes: int


@dataclasses.dataclass(frozen=True)
class Section:
    """The ``number``-th of ``of`` sections of the raw file ``name``, which has ``bytes`` bytes in all."""

    name: str
    bytes: int
    number: int = 0
    of: int = 1

    @property
    def start(self) -> int:
        """Where the section begins in the file."""
        return self.bytes * self.number // self.of

    @property
    def end(self) -> int:
        """Where the section ends."""
        return self.bytes * (self.number + 1) // self.of

    @property
    def is_last(self) -> bool:
        return self.number == self.of - 1


@dataclasses.dataclass(frozen=True, kw_only=True)
class Source(abc.ABC):
    """Where raw documents come from. Subclasses add their ``type`` tag and settings."""

    task_bytes: Positive = 64_000_000
    """Files are grouped, in the order of their names, into tasks of about this many bytes."""

    @abc.abstractmethod
    def listing(self) -> tuple[ListedFile, ...]:
        """The raw files, sorted by name, without reading them: every worker of a large crawl needs this list.

        Raises:
            ConfigError: when a path or pattern matches nothing.
        """

    @abc.abstractmethod
    def files(self) -> tuple[RawFile, ...]:
        """``listing`` with checksums: what the artifact's address is made from.

        Raises:
            ConfigError: when a path or pattern matches nothing.
        """

    @abc.abstractmethod
    def read(self, name: str) -> Iterator[Record]:
        """The records of the file ``name``, in order. The n-th record's id is ``<name>:<n>``, dropped or not; behind
        rows that a damaged file lost, numbers go on where they would have."""

    @abc.abstractmethod
    def checksum(self, name: str) -> str:
        """The checksum that ``files`` would give for the file ``name`` now."""

    def state(self, name: str) -> str:
        """Cheap to ask, and another one after any change of the file ``name``."""
        return self.checksum(name)

    def verified(self, file: RawFile) -> str:
        """The state of ``file``, after its content was found to be the planned one.

        Raises:
            RetryableError: when it is not.
        """
        state = self.state(file.name)
        found = self.checksum(file.name)
        if found != file.sha256:
            raise changed(file.name, f"has changed (SHA-256 {found[:12]}, it was {file.sha256[:12]})")
        self.refuse_change(file.name, state)
        return state

    def refuse_change(self, name: str, state: str) -> None:
        """Compare the state of the file ``name`` with ``state``, which it had before.

        Raises:
            RetryableError: when it has changed.
        """
        if self.state(name) != state:
            raise changed(name, "has changed")

    def sections(self, file: ListedFile | RawFile) -> int:
        """How many sections ``file`` is read in."""
        return 1

    def read_section(self, section: Section, first: int) -> Iterator[Record]:
        """The records that begin in ``section``, the first of which is record ``first`` of the file."""
        return self.read(section.name)

    def count(self, section: Section) -> int:
        """How many numbers the records that begin in ``section`` take."""
        raise TypeError(f"{type(self).__name__} does not say how it counts the records of a section")

    def groups(self, files: Iterable[ListedFile | RawFile] | None = None) -> list[Sequence[Section]]:
        """The ``files`` (none given: ``listing``) of each task: consecutive, and closed once they hold ``task_bytes``.

        A section of a file closes its task, so each is the last of its task, and in the next task after the one before.
        """
        groups: list[list[Section]] = []
        room = 0
        for file in self.listing() if files is None else files:
            sections = self.sections(file)
            for number in range(sections):
                if room <= 0:
                    groups.append([])
                    room = self.task_bytes
                groups[-1].append(Section(file.name, file.bytes, number, sections))
                room = room - file.bytes if sections == 1 else 0
        return list(groups)

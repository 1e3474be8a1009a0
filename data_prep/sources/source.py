"""Base class of all sources: lists files, groups them into tasks, and reads a file, or a section of it, as documents.

    paths ── listing ──> ListedFile, ... ── groups ──> Section, ... of each task ── read ──> (document, None | drop)
                └── files ──> RawFile, ...      the same with checksums, for the artifact's address

    a.jsonl, 150 MB     │ section 0 of 2 │ section 1 of 2 │     split by size only; a record belongs to the section that
    records              0      1      2      3        4        it begins in, and has the number that it has in the file

A file that changes during the run is refused. A task that reads a whole file compares the file's state before and after
reading, and its checksum with the planned one. For a file that is read in sections, one task verifies the checksum and
records the file's state, and each task that reads a section compares the state before and after with the recorded one.
So each file is read a fixed number of times, independent of its number of sections.

A record that cannot be read is not an error. It is returned with the Drop that names the reason, and is counted.
"""

import abc
import dataclasses
import itertools
from collections.abc import Iterable, Iterator, Sequence
from typing import ClassVar

from datatrove.data import Document

from headrace.data_prep.document import Drop, split_id
from headrace.data_prep.sources.damaged_files import UNREAD
from headrace.pipeline.core.errors import ConfigError
from headrace.pipeline.core.settings import Positive
from headrace.pipeline.core.stage import RawFile, changed

CHECKED_FILES, CHECKED_RECORDS = 3, 20
"""Before a run, this many records of this many files are read, to find settings that do not fit them."""
OTHER_FORMAT = frozenset(
    {"not_json", "broken_file", "broken_record", "truncated_record", "wrong_length", "broken_compression"}
)
"""Reasons of records whose bytes violate the format of the source."""

UNREAD_FILES = {mark.value for mark in UNREAD.values()}
"""Values of the Drop that stands for a whole file in a format that is not read."""

Record = tuple[Document, Drop | None]
"""One record of a source: the document, and the reason to drop it if it could not be read completely."""

PIECES = 32
"""Number of tasks of an input smaller than this multiple of ``task_bytes``: enough to share it among the cores."""
LEAST_BYTES = 1_000_000
"""A smaller task is not worth its start."""


@dataclasses.dataclass(frozen=True)
class ListedFile:
    """One raw file whose content was not read yet: its name and its size in bytes."""

    name: str
    bytes: int


@dataclasses.dataclass(frozen=True)
class Section:
    """Section ``number`` (from 0) of the ``of`` sections of the raw file ``name``, which has ``bytes`` bytes."""

    name: str
    bytes: int
    number: int = 0
    of: int = 1

    @property
    def start(self) -> int:
        """The offset in the file at which the section begins."""
        return self.bytes * self.number // self.of

    @property
    def end(self) -> int:
        """The offset in the file at which the section ends."""
        return self.bytes * (self.number + 1) // self.of

    @property
    def is_last(self) -> bool:
        return self.number == self.of - 1


@dataclasses.dataclass(frozen=True, kw_only=True)
class Source(abc.ABC):
    """A source of raw documents. Subclasses add their ``type`` tag and settings."""

    other_format: ClassVar[frozenset[str]] = OTHER_FORMAT
    """Reasons of records that show, if most of the first ones have them, that the source is not the right one."""
    type: str
    """The tag in settings."""
    task_bytes: Positive = 64_000_000
    """Approximate size of a task, less for small inputs (``piece_bytes``). Files are grouped in the order of their
    names."""
    unwrap: bool = False
    """Whether the lines of hard-wrapped texts (mail archives, newswire, e-texts) are joined when they are read."""

    @abc.abstractmethod
    def listing(self) -> tuple[ListedFile, ...]:
        """Returns the raw files, sorted by name, without reading them: every worker of a large crawl needs this list.

        Raises:
            ConfigError: when a path or pattern matches nothing.
        """

    @property
    def left_out(self) -> str:
        """The number of files and folders that ``listing`` left out, by reason, as text; empty if there are none."""
        return ""

    @abc.abstractmethod
    def files(self) -> tuple[RawFile, ...]:
        """Returns ``listing`` with checksums, which become part of the artifact's address.

        Raises:
            ConfigError: when a path or pattern matches nothing.
        """

    @abc.abstractmethod
    def read(self, name: str) -> Iterator[Record]:
        """Yields the records of the file ``name`` in order. Record n has the id ``<name>:<n>``, dropped or not.

        After rows that a damaged file lost, the numbers continue as if the rows were there.
        """

    def location(self, name: str) -> str:
        """Returns the path or URL of the file ``name``, for people. It may no longer exist."""
        return name

    def name_at(self, path: str) -> str:
        """Returns the name that the file at ``path``, a path or URL as a person types it, would have in this source."""
        return path

    @abc.abstractmethod
    def checksum(self, name: str) -> str:
        """Returns the checksum that ``files`` would return for the file ``name`` now."""

    def check(self, names: Sequence[str]) -> None:
        """Refuses this source when most of the first records of the files ``names`` violate its format, or one of these
        files is in a format that is not read, such as an archive.

        Raises:
            ConfigError: with the first of these records.
        """
        chosen = few_of(names)
        read = [record for name in chosen for record in itertools.islice(self.read(name), CHECKED_RECORDS)]
        dropped = [(document.id, drop) for document, drop in read if drop is not None]
        for identity, drop in dropped:
            if drop.value in UNREAD_FILES:
                what, _, remedy = drop.value.partition(": ")
                raise ConfigError("source.paths", f"{self.location(split_id(identity)[0])} is {what}", remedy)
        unreadable = [(identity, drop) for identity, drop in dropped if drop.rule in self.other_format]
        if 2 * len(unreadable) > len(read):
            identity, drop = unreadable[0]
            name, record = split_id(identity)
            where = f"{self.location(name)}:{record}"
            fault = f"{len(unreadable)} of the first {len(read)} records have another format ({where} is {drop.rule}"
            shown = f": {drop.value!r})" if drop.value else ")"
            is_encoding = drop.rule == "not_utf8"
            remedy = "save the files in UTF-8" if is_encoding else "choose the source of these files: source=…"
            raise ConfigError("source", fault + shown, remedy)

    def state(self, name: str) -> str:
        """Returns a text that changes with any change of the file ``name`` and is cheap to compute."""
        return self.checksum(name)

    def verified(self, file: RawFile) -> str:
        """Checks that the content of ``file`` is the planned one, and returns its state.

        Raises:
            RetryableError: when the content has changed.
        """
        state = self.state(file.name)
        checksum = self.checksum(file.name)
        if checksum != file.sha256:
            raise changed(self.location(file.name), f"has changed (SHA-256 {checksum[:12]}, it was {file.sha256[:12]})")
        self.refuse_change(file.name, state)
        return state

    def refuse_change(self, name: str, state: str) -> None:
        """Compares the state of the file ``name`` with ``state``, its state at an earlier time.

        Raises:
            RetryableError: when it has changed.
        """
        if self.state(name) != state:
            raise changed(self.location(name), "has changed")

    def model_files(self) -> tuple[RawFile, ...]:
        """Returns the files, apart from ``files``, that decide what a record's text is."""
        return ()

    def sections(self, file: ListedFile | RawFile, most_bytes: int) -> int:
        """Returns the number of sections of about ``most_bytes`` in which ``file`` is read."""
        return 1

    def read_section(self, section: Section, first: int) -> Iterator[Record]:
        """Yields the records that begin in ``section``. The first one is record ``first`` of the file."""
        return self.read(section.name)

    def count(self, section: Section) -> int:
        """Returns how many record numbers the records that begin in ``section`` take."""
        raise TypeError(f"{type(self).__name__} does not define count()")

    def groups(self, files: Iterable[ListedFile | RawFile] | None = None) -> list[Sequence[Section]]:
        """Groups ``files`` (default: ``listing``) into tasks of consecutive files with at least ``task_bytes``.

        A section of a file always ends its task, so the sections of a file are the last ones of consecutive tasks.
        Small inputs get smaller tasks (``piece_bytes``). The tasks do not depend on the number of workers.
        """
        files = list(self.listing() if files is None else files)
        most_bytes = piece_bytes(sum(file.bytes for file in files))
        groups: list[list[Section]] = []
        free_bytes = 0
        for file in files:
            sections = self.sections(file, most_bytes)
            for number in range(sections):
                if free_bytes <= 0:
                    groups.append([])
                    free_bytes = min(self.task_bytes, most_bytes)
                groups[-1].append(Section(file.name, file.bytes, number, sections))
                free_bytes = free_bytes - file.bytes if sections == 1 else 0
        return list(groups)


def piece_bytes(total_bytes: int) -> int:
    """Returns the largest size of a task for an input of ``total_bytes``: PIECES tasks, none below LEAST_BYTES."""
    return max(LEAST_BYTES, total_bytes // PIECES)


def few_of(names: Sequence[str]) -> list[str]:
    """Returns CHECKED_FILES of ``names``: the first, the last and those between, evenly spaced."""
    steps = range(min(CHECKED_FILES, len(names)))
    return [names[step * (len(names) - 1) // max(len(steps) - 1, 1)] for step in steps]

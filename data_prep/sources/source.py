"""What every source does: list its files, group them into tasks, and read one file as documents.

    paths ── listing ──> ListedFile, ... ── groups ──> tasks ── read ──> (document, None) | (document, drop)
                └── files ──> RawFile, ...      the same with checksums, for the artifact's address

A record that cannot be read is not an error: it comes out with the Drop that says why, and is counted like any other.
"""

import abc
import dataclasses
from collections.abc import Iterator, Sequence

from datatrove.data import Document

from data_prep.document import Drop
from pipeline.core.stage import RawFile

Record = tuple[Document, Drop | None]
"""One record of a source: the document, and why it must be dropped if it could not be read whole."""


@dataclasses.dataclass(frozen=True)
class ListedFile:
    """One raw file before its content was looked at: its name and size in bytes."""

    name: str
    bytes: int


@dataclasses.dataclass(frozen=True, kw_only=True)
class Source(abc.ABC):
    """Where raw documents come from. Subclasses add their ``type`` tag and settings."""

    task_bytes: int = 64_000_000
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
        """The records of the file ``name``, in order. The n-th record's id is ``<name>:<n>``, dropped or not."""

    def groups(self) -> list[Sequence[ListedFile]]:
        """The files of each task: consecutive, and closed as soon as they hold ``task_bytes``."""
        groups: list[list[ListedFile]] = []
        room = 0
        for file in self.listing():
            if room <= 0:
                groups.append([])
                room = self.task_bytes
            groups[-1].append(file)
            room -= file.bytes
        return list(groups)

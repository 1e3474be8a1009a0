"""What every source does: list its files, group them into tasks, and read one file as documents.

    paths ── files ──> RawFile, RawFile, ... ── groups ──> tasks ── read ──> (document, None) | (document, drop)

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


@dataclasses.dataclass(frozen=True, kw_only=True)
class Source(abc.ABC):
    """Where raw documents come from. Subclasses add their ``type`` tag and settings."""

    task_bytes: int = 64_000_000
    """Files are grouped, in the order of their names, into tasks of about this many bytes."""

    @abc.abstractmethod
    def files(self) -> tuple[RawFile, ...]:
        """The raw files, sorted by name.

        Raises:
            ConfigError: when a path or pattern matches nothing.
        """

    @abc.abstractmethod
    def read(self, name: str) -> Iterator[Record]:
        """The records of the file ``name``, in order. The n-th record's id is ``<name>:<n>``, dropped or not."""

    def groups(self) -> list[Sequence[RawFile]]:
        """The files of each task: consecutive, and closed as soon as they hold ``task_bytes``."""
        groups: list[list[RawFile]] = []
        room = 0
        for file in self.files():
            if room <= 0:
                groups.append([])
                room = self.task_bytes
            groups[-1].append(file)
            room -= file.bytes
        return list(groups)

"""Files and folders that a search leaves out, by reason, and folders whose log says which of their files count.

/data/a.txt, /data/b.txt, /data/.git                    2 with the suffix .txt, 1 hidden
table/_delta_log/00000.json, table/part-0.parquet      a table: refused
saved/state.json, data-00000-of-00001.arrow            a data set of Hugging Face ``datasets``: state.json names files
"""

import dataclasses
import fnmatch
import functools
import glob
import json
import os
import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator
from pathlib import PurePath

import fsspec

from headrace.pipeline.core.compression import READ, SUFFIXES, UNREAD_SUFFIXES
from headrace.pipeline.core.errors import ConfigError

REASONS_SHOWN = 6
HIDDEN = "hidden"
REPEATED = "another path to what is read"
UNREADABLE = "unreadable"
IRREGULAR = "no regular file"
UNFINISHED = "of a job that was not finished"
STALE = "not named by the state.json of its folder"
OTHER_SUFFIX = "with the suffix "
CACHE = "with the name of a cache, "
COMPRESSED = "with the unread compression "
UNPACK = f"unpack files of unread compressions, or compress them with {READ}"
SUSPICIOUS = (REPEATED, UNREADABLE, IRREGULAR, UNFINISHED, STALE, COMPRESSED)
"""The reasons for which a file or folder should be looked at."""
TABLES = {
    "_delta_log": "a Delta Lake table",
    ".hoodie": "a Hudi table",
    "_spark_metadata": "the output of a Spark stream",
    "metadata": "an Iceberg table",
}
"""A folder with the log of a table → what it is the log of."""
ICEBERG = r"metadata(?=/(?:v\d+|\d{5}-[0-9a-f-]+)(?:\.gz)?\.metadata\.json(?:\.gz)?$)"
"""The folder ``metadata`` of an Iceberg table, known by the names of its files."""
LOG = re.compile(rf"/(_delta_log|\.hoodie|_spark_metadata|{ICEBERG})(?:/|$)")
"""The part of a path that leads into such a folder."""
STATE = "state.json"


class LeftOut:
    """The files and folders that searches have left out, with the reasons."""

    def __init__(self) -> None:
        self._reasons: dict[str, str] = {}

    def add(self, reason: str, location: str) -> None:
        """Adds a file or folder, once however many searches leave it out."""
        self._reasons.setdefault(location, reason)

    def remove(self, locations: Iterable[str]) -> None:
        """Removes the files that another search has found, and the folders that hold them."""
        looked_at = set[str]()
        for path in locations:
            while path and path not in looked_at:
                looked_at.add(path)
                self._reasons.pop(path, None)
                path = path.rpartition("/")[0]

    @property
    def counts(self) -> "Counter[str]":
        """The number of files and folders by reason."""
        return Counter(self._reasons.values())

    def __str__(self) -> str:
        """Returns the counts, and the first of each (not of hidden ones): ``3 with the suffix .txt (a.txt)``."""
        first: dict[str, str] = {}
        for location, reason in sorted(self._reasons.items()):
            first.setdefault(reason, f" ({location})" * (reason != HIDDEN))
        shown = self.counts.most_common(REASONS_SHOWN)
        more = self.counts.total() - sum(number for _, number in shown)
        parts = [f"{number:,} {reason}{first[reason]}" for reason, number in shown]
        parts += [f"{more:,} for other reasons"] * bool(more)
        return ", ".join(parts) + f"; {UNPACK}" * any(reason.startswith(COMPRESSED) for reason in first)


@dataclasses.dataclass(frozen=True)
class Suffixes:
    """The ends of names that a folder is searched for."""

    formats: tuple[str, ...]
    compressions: tuple[str, ...] = SUFFIXES
    caches: str = ""
    """A pattern of names that are not wanted."""

    @functools.cached_property
    def wanted(self) -> tuple[str, ...]:
        return tuple(form + compression for form in self.formats for compression in ("", *self.compressions))

    def refusal(self, name: str) -> str | None:
        """Returns the reason to leave out the file ``name``; None: it is wanted."""
        name = name.lower()
        if self.caches and fnmatch.fnmatch(os.path.basename(name), self.caches):
            return f"{CACHE}{self.caches}"
        if name.endswith(self.wanted):
            return None
        bare, suffix = os.path.splitext(os.path.basename(name))
        if suffix in (*UNREAD_SUFFIXES, *SUFFIXES):
            if bare.endswith(self.formats):
                return f"{COMPRESSED}{suffix}"
            suffix = os.path.splitext(bare)[1] + suffix
        return f"{OTHER_SUFFIX}{suffix}" if suffix else "without suffix"


def refuse_table(path: str, top: str) -> None:
    """Refuses a ``path`` below the folder ``top`` that leads to the log of a table.

    Raises:
        ConfigError: with the folder of the table.
    """
    if (log := LOG.search(path, len(top))) is not None:
        problem = f"{path[: log.start()]!r} is {TABLES[log[1]]}: its log in {log[1]} says which of its files count"
        raise ConfigError("source.paths", problem, "write out its rows with its own library, and read what it wrote")


def refuse_part_of_table(folder: str) -> None:
    """Refuses a local ``folder`` of a table whose log lies in a folder above it, such as ``table/lang=en``."""
    for table in PurePath(folder).parents:
        for name in TABLES:
            for path in (f"{table}/{name}", *glob.glob(f"{glob.escape(str(table))}/{name}/*.metadata.json*")):
                if os.path.exists(path):
                    refuse_table(path, str(table.parent))


def stale_files(locations: Collection[str]) -> Iterator[str]:
    """Yields those of ``locations`` that the state.json of their folder does not name: ``datasets`` never removes any.

    Raises:
        ConfigError: when a file that it names is missing, or not all rows of its files count.
    """
    by_folder = defaultdict[str, list[str]](list)
    for location in locations:
        by_folder[location.rpartition("/")[0]].append(location)
    for folder, inside in by_folder.items():
        if (names := _named(folder)) is not None:
            yield from (location for location in inside if location.rpartition("/")[2] not in names)


def _named(folder: str) -> set[str] | None:
    """Returns the names of the files of the data set in ``folder``; None: no state.json names them."""
    location = f"{folder}/{STATE}"
    system, path = fsspec.core.url_to_fs(location)
    if not system.exists(path):
        return None
    try:
        state = json.loads(system.cat_file(path))
        names = {str(file["filename"]) for file in state.get("_data_files") or ()}
    except (OSError, ValueError, AttributeError, TypeError, KeyError) as error:
        problem = f"{location!r} cannot be read as a file of datasets ({type(error).__name__}: {error})"
        raise ConfigError("source.paths", problem, "save the data set again, or remove this file") from None
    if indices := [key for key, value in state.items() if key.startswith("_indices") and value]:
        problem = f"{location!r} chooses rows ({indices[0]})"
        raise ConfigError("source.paths", problem, "save the data set again with flatten_indices()")
    if missing := sorted(name for name in names if not system.exists(f"{path.removesuffix(STATE)}{name}")):
        problem = f"{location!r} names {missing[0]!r}, which is not there"
        raise ConfigError("source.paths", problem, "copy the whole folder, or save the data set again")
    return names or None

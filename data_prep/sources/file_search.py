"""Search for the files that a path names: of a folder, a pattern or a URL. Each real file is found once.

    farm/a.jsonl                       found
    farm/one -> ../other               followed: farm/one/b.jsonl is found
    farm/self -> .                     another path to what is found
    farm/c.jsonl, a hard link to a     another path to what is found
    farm/.d.jsonl  farm/e.txt          left out: hidden, and of another suffix
    farm/_temporary/0/f.jsonl          left out: of a job that was not finished
    farm/_delta_log                    refused: files of such a table may hold rows that were deleted

A folder is entered once, however many links lead to it, so loops end. Of several paths to a file, the one without a
link below the common folder names it, else the first in the order of names. Whatever is left out is counted by reason.
"""

import dataclasses
import fnmatch
import functools
import glob
import os
import re
import stat
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from typing import Any

from headrace.data_prep.sources.locations import NamedPath, file_system
from headrace.pipeline.core.compression import READ, REMEDIES, SUFFIXES, UNREAD_SUFFIXES
from headrace.pipeline.core.errors import ConfigError
from headrace.pipeline.core.extras import require

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


DOCUMENTATION = "documentation/"
"""The folder of the texts of experiment=demo and experiment=smoke."""
CLOUDS = {"s3": "s3fs", "s3a": "s3fs", "gs": "gcsfs", "gcs": "gcsfs"}
"""The scheme of a URL → the module with which fsspec reads it."""

UNFINISHED_FOLDER = "_temporary"
"""The folder in which Hadoop and Spark keep the files of a job until it has ended."""


@dataclasses.dataclass(frozen=True)
class FoundFile:
    """A file that was found: its location, its size in bytes, and what is equal for all paths to it."""

    location: str
    bytes: int
    identity: Hashable


def found_files(typed: str, path: NamedPath, suffixes: Suffixes, left_out: LeftOut) -> list[FoundFile]:
    """Returns the files that ``path`` names. Error messages show it as it was ``typed``.

    Raises:
        ConfigError: when there are none, or a link leads nowhere.
    """
    before = left_out.counts
    files = list(_remote(typed.rstrip("/"), suffixes, left_out) if path.is_url else _local(path, suffixes, left_out))
    if not files:
        searched = _is_folder(path) and f"{typed!r} holds no file that ends in {', '.join(suffixes.formats)}"
        problem = searched or f"{typed!r} matches no file"
        looked_at = any(reason.startswith(SUSPICIOUS) for reason in (left_out.counts - before))
        known = f" (left out: {left_out})" * looked_at
        reasons = (left_out.counts - before).most_common() if searched else []
        is_documentation = typed.startswith(DOCUMENTATION)
        remedy = "write it: python -m headrace.documentation" if is_documentation else "correct the path or pattern"
        if others := [f"{number:,} {reason}" for reason, number in reasons if reason.startswith(OTHER_SUFFIX)]:
            problem += f", but {others[0]}"
            remedy = "correct the path, or read these in a run of their own (source=…): a run reads one kind of source"
            remedy = REMEDIES["ARC"] if ".arc" in others[0] else remedy
        raise ConfigError("source.paths", problem + known, remedy)
    return files


def _is_folder(path: NamedPath) -> bool:
    if path.pattern:
        return False
    if not path.is_url:
        return os.path.isdir(path.stem or "/")
    system, root = file_system(path.stem)
    return bool(system.isdir(root))


def _local(path: NamedPath, suffixes: Suffixes, left_out: LeftOut) -> Iterator[FoundFile]:
    stem = path.stem or "/"
    if path.pattern:
        named = dict.fromkeys(_matching(stem, path.pattern, left_out))
    else:
        named = dict.fromkeys([stem] if os.path.lexists(stem) else [])
    for location in named:
        files = _searched(location, suffixes, left_out) if os.path.isdir(location) else [location]
        for file in files:
            is_searched = bool(path.pattern) or file != stem
            if (match := _match(file)) is None:
                if not is_searched:
                    raise ConfigError("source.paths", f"{file!r} is {IRREGULAR}", "copy its content to a file")
                left_out.add(IRREGULAR, file)
            elif is_searched and not os.access(file, os.R_OK):
                left_out.add(UNREADABLE, file)
            else:
                yield match


def _searched(top: str, suffixes: Suffixes, left_out: LeftOut) -> Iterator[str]:
    """Yields the files in the folder ``top`` and in those below that are not hidden and have one of ``suffixes``."""
    for _, entries in _folders(top, left_out):
        for entry in entries:
            if unseen := _unseen(entry.name):
                left_out.add(unseen, entry.path)
            elif not _leads_to_folder(entry):
                if (reason := suffixes.refusal(entry.name)) is None:
                    yield entry.path
                else:
                    left_out.add(reason, entry.path)


def _folders(top: str, left_out: LeftOut) -> Iterator[tuple[str, Sequence["os.DirEntry[str]"]]]:
    """Yields ``top`` and each real folder below it once, with its entries in the order of names.

    Folders that are reached through links come after the others.
    """
    entered: set[str] = set()
    links = [(top, os.path.realpath(top))]
    while links:
        left, links = links[::-1], []
        while left:
            folder, real = left.pop()
            if real in entered:
                left_out.add(REPEATED, folder)
                continue
            entered.add(real)
            entries = _entries(folder, left_out)
            yield folder, entries
            inner = [entry for entry in entries if not _unseen(entry.name) and _leads_to_folder(entry)]
            links += [(entry.path, os.path.realpath(entry.path)) for entry in inner if entry.is_symlink()]
            left += [(entry.path, os.path.join(real, entry.name)) for entry in inner[::-1] if not entry.is_symlink()]


def _entries(folder: str, left_out: LeftOut) -> list["os.DirEntry[str]"]:
    try:
        with os.scandir(folder) as unsorted:
            entries = sorted(unsorted, key=lambda entry: entry.name)
    except OSError:
        left_out.add(UNREADABLE, folder)
        return []
    for entry in entries:
        refuse_table(entry.path, os.path.dirname(folder))
    return entries


def _unseen(name: str) -> str | None:
    """Returns the reason to leave out a file or folder for its ``name``, whatever it holds; None: it is looked at."""
    return HIDDEN if name.startswith(".") else UNFINISHED if name == UNFINISHED_FOLDER else None


def _leads_to_folder(entry: "os.DirEntry[str]") -> bool:
    try:
        return entry.is_dir()
    except OSError:  # links in a circle
        return False


def _matching(folder: str, pattern: str, left_out: LeftOut) -> Iterator[str]:
    """Yields the files and folders below ``folder`` that match ``pattern``; of ``**`` and ``**/*`` the files alone."""
    parts = [part for part in pattern.split("/") if part]
    if parts[-1] == "**":
        parts.append("*")
    paths = _matches(folder, parts, left_out)
    return (path for path in paths if not os.path.isdir(path)) if parts[-2:] == ["**", "*"] else paths


def _matches(folder: str, parts: Sequence[str], left_out: LeftOut) -> Iterator[str]:
    """Yields the files and folders below ``folder`` whose paths match the ``parts`` of a pattern."""
    part, *rest = parts
    if part == "**":
        for inner, entries in _folders(folder, left_out):
            for entry in entries:
                if (unseen := _unseen(entry.name)) and _leads_to_folder(entry):
                    left_out.add(unseen, entry.path)
            yield from _matches(inner, rest, left_out)
        return
    if not glob.has_magic(part):
        path = os.path.join(folder, part)
        paths = [path] if os.path.lexists(path) else []
    else:
        paths = [entry.path for entry in _entries(folder, left_out) if _is_match(entry, part, left_out)]
    for path in paths:
        if not rest:
            yield path
        elif os.path.isdir(path):
            yield from _matches(path, rest, left_out)


def _is_match(entry: "os.DirEntry[str]", part: str, left_out: LeftOut) -> bool:
    if not fnmatch.fnmatchcase(entry.name, part):
        return False
    if (unseen := _unseen(entry.name)) and not part.startswith(entry.name[0]):
        left_out.add(unseen, entry.path)
        return False
    return True


def _match(location: str) -> FoundFile | None:
    """Returns the file at ``location``; None: it is no regular file.

    Size and time are parts of its identity, because some network disks give several files one number.
    """
    try:
        location.encode()
        state = os.stat(location)
    except UnicodeEncodeError:
        raise ConfigError("source.paths", f"the file name {location!r} is not UTF-8", "rename the file") from None
    except OSError as error:
        problem = f"{location!r} cannot be read ({error.strerror})"
        raise ConfigError("source.paths", problem, "remove the link, or correct where it leads") from None
    if not stat.S_ISREG(state.st_mode):
        return None
    identity = (state.st_dev, state.st_ino or os.path.realpath(location), state.st_size, state.st_mtime_ns)
    return FoundFile(location, state.st_size, identity)


def _remote(path: str, suffixes: Suffixes, left_out: LeftOut) -> Iterator[FoundFile]:
    if module := CLOUDS.get(path.partition("://")[0]):
        require("source.paths", module)
    try:
        system, root = file_system(path)
    except (ImportError, ValueError) as error:
        raise ConfigError("source.paths", f"cannot read {path!r} ({error})", "install what the scheme needs") from None
    prefix = path.removesuffix(root) if path.endswith(root) else path.removesuffix(root.lstrip("/"))
    try:
        entries = system.glob(root, detail=True) if glob.has_magic(root) else _one(system, root)
    except OSError as error:
        problem = f"{path!r} cannot be reached ({str(error) or type(error).__name__})"
        raise ConfigError(
            "source.paths", problem, "check the network and the address, or name files on a disk"
        ) from None
    for name, info in sorted(entries.items()):
        is_folder = info["type"] == "directory"
        inside = system.find(name, detail=True) if is_folder else {name: info}
        for file, details in inside.items():
            location = prefix + (file if path.endswith(root) else file.lstrip("/"))
            refuse_table(location, prefix + name)
            if not is_folder or _is_wanted(file.removeprefix(name), location, suffixes, left_out):
                yield FoundFile(location, int(details["size"]), location)


def _is_wanted(below: str, location: str, suffixes: Suffixes, left_out: LeftOut) -> bool:
    """Whether a folder's search finds the remote file at ``location``, whose path in the folder is ``below``."""
    reason = next(filter(None, map(_unseen, below.split("/"))), None) or suffixes.refusal(below)
    if reason is not None:
        left_out.add(reason, location)
    return reason is None


def _one(system: Any, root: str) -> dict[str, Any]:
    """Returns the file or folder ``root``, if it exists.

    Raises:
        OSError: when its server cannot be reached, which fsspec reports as a missing file.
    """
    try:
        return {root: system.info(root)}
    except FileNotFoundError as error:
        if isinstance(error.__cause__, OSError):
            raise error.__cause__ from None
        return {}


def each_once(
    named_files: Iterable[tuple[str, FoundFile]], is_linked: Callable[[str, str], bool], left_out: LeftOut
) -> dict[str, FoundFile]:
    """Returns the files of ``named_files`` by name, in the order of names: each real file by one name.

    Args:
        found: names and files; a file may have several names.
        is_linked: whether a link is a part of a name, from the name and the location.
        left_out: counts the other names.
    """
    by_file: dict[Hashable, dict[str, FoundFile]] = {}
    for name, match in named_files:
        by_file.setdefault(match.identity, {})[name] = match
    chosen = {}
    for names in by_file.values():
        name = min(names, key=lambda name: (len(names) > 1 and is_linked(name, names[name].location), name))
        chosen[name] = names.pop(name)
        for other in names.values():
            left_out.add(REPEATED, other.location)
    left_out.remove(match.location for match in chosen.values())
    return dict(sorted(chosen.items()))

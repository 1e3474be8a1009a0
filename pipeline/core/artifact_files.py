"""Files of artifacts: records by which a reader knows that one is whole, sizes, and folders that are held.

result file  ──> FileRecord  bytes, SHA-256   manifest.json, part records, checkpoints
scratch file ──> HandedFile  bytes, XXH3      part records

with held(folder):          keeps the folder open
    make(folder / "logs")   what every writer calls: a folder that is another one now is not made again

A process that keeps a path alone would make the folder again after a move, and write the rest of its work there.
"""

import contextlib
import dataclasses
import errno
import hashlib
import os
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path, PurePosixPath
from typing import Any

import orjson
import xxhash

from headrace.pipeline.core.errors import ArtifactError


@dataclasses.dataclass(frozen=True)
class FileRecord:
    """One file of an artifact: its size in bytes and its SHA-256 in hex."""

    bytes: int
    sha256: str

    @classmethod
    def of(cls, path: Path) -> "FileRecord":
        return cls(*_measured(path, hashlib.sha256()))

    def fits(self, path: Path) -> bool:
        """Whether the file at ``path`` has this size and SHA-256; not if it is missing, or is removed meanwhile."""
        with contextlib.suppress(FileNotFoundError):
            return path.stat().st_size == self.bytes and FileRecord.of(path) == self
        return False


@dataclasses.dataclass(frozen=True)
class HandedFile:
    """A scratch file for later phases: its size in bytes and its XXH3 (128 bits) in hex, which is fast to compute."""

    bytes: int
    xxh3: str

    @classmethod
    def of(cls, path: Path) -> "HandedFile":
        return cls(*_measured(path, xxhash.xxh3_128()))


def _measured(path: Path, total: Any) -> tuple[int, str]:
    """Returns the size and the hash of a file. ``total`` is a new hash object."""
    with path.open("rb", buffering=0) as stream:
        while block := stream.read(1 << 16):
            total.update(block)
        return os.fstat(stream.fileno()).st_size, total.hexdigest()


def sync(path: Path) -> None:
    """Flushes the bytes of a file, or the names in a folder, to the disk (fsync)."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


CHECKSUMS: dict[tuple[Path, int], str] = {}
"""The SHA-256 of each file, by its path and size, that this process has computed or another one for it."""


def sha256_of(path: Path, size: int) -> str:
    """Returns the SHA-256 of the file at ``path`` with ``size`` bytes. It is computed once per process."""
    if (path, size) not in CHECKSUMS:
        CHECKSUMS[path, size] = FileRecord.of(path).sha256
    return CHECKSUMS[path, size]


def refuse_outside(manifest: Path | str, names: Iterable[str]) -> None:
    """Refuses file ``names`` in ``manifest`` that lead out of its folder: in a shared root another user may write it.

    Raises:
        ArtifactError: with the first such name.
    """
    for name in names:
        if PurePosixPath(name).is_absolute() or ".." in PurePosixPath(name).parts:
            raise ArtifactError(str(manifest), f"names {name!r}, which leads out of its folder", "do not use it")


def statuses(folder: Path) -> Iterator[os.stat_result]:
    """Yields the status of every file and folder below ``folder``; leaves out those that are removed meanwhile."""
    left = [str(folder)]
    while left:
        with (
            contextlib.suppress(FileNotFoundError, NotADirectoryError, PermissionError),
            os.scandir(left.pop()) as entries,
        ):
            for entry in entries:
                try:
                    status = entry.stat(follow_symlinks=False)
                except FileNotFoundError:
                    continue
                yield status
                if stat.S_ISDIR(status.st_mode):
                    left.append(entry.path)


def folder_bytes(folder: Path) -> int:
    """Returns the size of every file and folder below ``folder``; 0 when it is not there."""
    return sum(status.st_size for status in statuses(folder))


def result_bytes(folder: Path) -> int:
    """Returns the size of the results of the artifact in ``folder``.

    These are the files that its manifest lists and its checkpoints, not its logs; of an unfinished one, all files.
    """
    try:
        files = orjson.loads((folder / "manifest.json").read_bytes())["files"]
        listed = sum(record["bytes"] for record in files.values())
    except (OSError, ValueError, LookupError, TypeError, AttributeError):  # it is unfinished or damaged
        return folder_bytes(folder)
    return int(listed) + folder_bytes(folder / "checkpoints")


MOVED = errno.EREMCHG
"""The error number of a write to a folder that was moved: no file system gives it."""

_held: dict[str, int] = {}
"""The absolute paths of folders → open descriptors of them."""


@contextlib.contextmanager
def held(folder: Path, is_new: bool = True) -> Iterator[None]:
    """Holds ``folder`` during the block, and makes it if it ``is_new``.

    Raises:
        OSError: with the number MOVED, when it is not there and not new.
    """
    path = os.path.abspath(folder)
    check(folder)
    if path in _held:
        yield
        return
    if is_new:
        folder.mkdir(parents=True, exist_ok=True)
    try:
        _held[path] = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    except FileNotFoundError:
        raise _moved(path, "") from None
    try:
        yield
    finally:
        os.close(_held.pop(path))


def make(folder: Path) -> None:
    """Makes ``folder``, and those above it, where they are not there.

    Raises:
        OSError: with the number MOVED, when it belongs to a held folder that was moved.
    """
    check(folder)
    folder.mkdir(parents=True, exist_ok=True)


def check(path: Path | str) -> None:
    """Compares the held folders that ``path`` belongs to with what is at their paths now.

    Raises:
        OSError: with the number MOVED, when one was moved or replaced.
    """
    wanted = os.path.abspath(path) + os.sep
    for folder, descriptor in list(_held.items()):
        if wanted.startswith(folder + os.sep):
            with contextlib.suppress(FileNotFoundError):
                if os.path.samestat(os.stat(folder), os.fstat(descriptor)):
                    continue
            raise _moved(folder, os.readlink(f"/proc/self/fd/{descriptor}") if os.path.isdir("/proc/self/fd") else "")


def _moved(folder: str, place: str) -> OSError:
    where = f": it is {place} now" if place and place != folder and not place.endswith(" (deleted)") else ""
    return OSError(MOVED, f"was moved or replaced during the work{where}; nothing more is written to this path", folder)

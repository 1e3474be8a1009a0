"""Records of files: their sizes and checksums, by which a reader knows that a file is whole.

result file  ──> FileRecord  bytes, SHA-256   manifest.json, part records, checkpoints
scratch file ──> HandedFile  bytes, XXH3      part records
"""

import contextlib
import dataclasses
import hashlib
import os
from collections.abc import Iterable
from pathlib import Path, PurePosixPath
from typing import Any

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

"""Reads the artifacts of ``tokens`` and ``packed`` without loading them into memory.

    PackedRows  row index ──> spans (shard, start, length)         spans/<split>-00000.npy, rows/<split>-00000.npy
    TokenShards shard, start, stop ──> token ids                   tokens/00007.bin, bounds/00007.npy

    read(path, offset, size) ──> open already? ──> pread
                                 └─ open it; if too many are open, close the least recently read one

Dtype and size of a file are read once and cached. Its values are read when they are needed, because a corpus may have
more files than a process may open: ``OpenFiles`` bounds their number. One of them serves the whole process, because
training on a mixture reads several artifacts. Files are read, not memory-mapped: a map also keeps a file descriptor,
and creating it costs several times as much as reading a row.
"""

import dataclasses
import functools
import hashlib
import os
import resource
import threading
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headrace.data_prep.tokenization.packing import DocumentSpans
from headrace.pipeline.core.artifact import Artifact
from headrace.pipeline.core.errors import ArtifactError

MOST_OPEN = 512
SHARE = 4
"""At most 1 / SHARE of the process's file descriptors are used."""


class OpenFiles:
    """Keeps at most ``most`` files open. It is safe to use from several threads."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._files: dict[Path, int] = {}
        """Descriptors by path, in the order of their last use."""
        self._lock = threading.Lock()

    def read(self, path: Path, offset: int, size: int) -> bytes:
        """Reads ``size`` bytes at ``offset``.

        Raises:
            ArtifactError: if the file ends earlier.
        """
        with self._lock:
            file = self._files.pop(path, None)
            if file is None:
                while len(self._files) >= self._most:
                    os.close(self._files.pop(next(iter(self._files))))
                file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            self._files[path] = file
            data = os.pread(file, size, offset)
        if len(data) != size:
            problem = f"ends at byte {offset + len(data)}, before byte {offset + size}"
            raise ArtifactError(str(path), problem, "remove its artifact's folder and run again")
        return data


def allowed() -> int:
    """Returns the number of files that this process may keep open for reading."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return MOST_OPEN if soft == resource.RLIM_INFINITY else max(1, min(MOST_OPEN, soft // SHARE))


FILES = OpenFiles(allowed())


MOST_BYTES = 255
"""The largest number of bytes in ``token_bytes``. The rest of a token that has more is in ``long_tokens``."""

LONG_TOKEN = np.dtype([("token", "<u8"), ("rest", "<u4")])
"""Index of a token in its shard, and its bytes beyond MOST_BYTES."""


def key_of(purpose: str, document_id: str) -> int:
    """Returns a hash in [0, 2^64) of the document's id.

    It is the first 8 bytes (little-endian) of the SHA-256 of ``purpose``, a zero byte, and the id, so choices for
    different purposes are independent of each other.
    """
    return int.from_bytes(hashlib.sha256(f"{purpose}\0{document_id}".encode()).digest()[:8], "little")


@dataclasses.dataclass(frozen=True)
class StoredArray:
    """A one-dimensional array in a file, from byte ``offset`` on."""

    path: Path
    dtype: "np.dtype[Any]"
    offset: int
    size: int

    @classmethod
    def npy(cls, path: Path) -> "StoredArray":
        """Opens the one-dimensional array in a .npy file."""
        mapped = np.load(path, mmap_mode="r")
        return cls(path, mapped.dtype, mapped.offset, mapped.size)

    def __getitem__(self, part: slice) -> NDArray[Any]:
        """Reads the values of the slice ``part``, which has no step."""
        start, stop, _ = part.indices(self.size)
        length_bytes = max(0, stop - start) * self.dtype.itemsize
        return np.frombuffer(FILES.read(self.path, self.offset + start * self.dtype.itemsize, length_bytes), self.dtype)


class TokenShards:
    """All token shards of one ``tokens`` artifact."""

    def __init__(self, artifact: Artifact) -> None:
        self._artifact = artifact
        self._tokens = functools.cache(self._stored_tokens)
        self._bounds = functools.cache(self._stored_bounds)
        self._token_bytes = functools.cache(self._stored_token_bytes)
        self._long_tokens = functools.cache(self._read_long_tokens)

    def __len__(self) -> int:
        return self._artifact.shard_count

    def slice(self, shard: int, start: int, stop: int) -> NDArray[Any]:
        """Reads the ids tokens[start:stop] of ``shard``, uint16 or uint32."""
        return self._tokens(shard)[start:stop]

    def document(self, shard: int, start: int) -> int:
        """Returns the index in ``shard`` of the document that the span from ``start`` belongs to."""
        return int(np.searchsorted(self.bounds(shard), start, side="right")) - 1

    def bounds(self, shard: int) -> NDArray[np.uint64]:
        """Reads the offset of the end of text before each document, and of the last one: (documents + 1,)."""
        return self._bounds(shard)[:]

    def text_bytes(self, shard: int) -> NDArray[np.uint32]:
        """Reads the UTF-8 bytes of each text: (documents,)."""
        array: NDArray[np.uint32] = np.load(self._artifact.shard("text_bytes", shard, "npy"))
        return array

    @property
    def has_token_bytes(self) -> bool:
        """Whether the bytes of each token are stored, because they are not always the same for a token."""
        return any(name.startswith("token_bytes/") for name in self._artifact.manifest["files"])

    def token_bytes(self, shard: int, start: int, stop: int) -> NDArray[np.int64]:
        """Reads the UTF-8 bytes of text of each of tokens[start:stop] of ``shard``, where they are stored."""
        lengths: NDArray[np.int64] = self._token_bytes(shard)[start:stop].astype(np.int64)
        long = self._long_tokens(shard)
        first, last = np.searchsorted(long["token"], [start, stop])
        lengths[long["token"][first:last].astype(np.int64) - start] += long["rest"][first:last]
        return lengths

    def _stored_token_bytes(self, shard: int) -> StoredArray:
        path = self._artifact.shard("token_bytes", shard, "bin")
        return StoredArray(path, np.dtype(np.uint8), 0, path.stat().st_size)

    def _read_long_tokens(self, shard: int) -> NDArray[np.void]:
        long_tokens: NDArray[np.void] = np.load(self._artifact.shard("long_tokens", shard, "npy"))
        return long_tokens

    def _stored_bounds(self, shard: int) -> StoredArray:
        return StoredArray.npy(self._artifact.shard("bounds", shard, "npy"))

    def _stored_tokens(self, shard: int) -> StoredArray:
        path = self._artifact.shard("tokens", shard, "bin")
        tokens = int(self._bounds(shard)[-1:][0]) + 1
        token_bytes, rest = divmod(path.stat().st_size, tokens)
        if rest or token_bytes not in (2, 4):
            problem = f"{path.stat().st_size} bytes do not fit the {tokens} tokens in bounds"
            raise ArtifactError(str(path), problem, f"remove {self._artifact.folder} and run again")
        return StoredArray(path, np.dtype(f"<u{token_bytes}"), 0, tokens)


class PackedRows:
    """The rows of one split of a ``packed`` artifact, numbered over all of its files."""

    def __init__(self, artifact: Artifact, split: str) -> None:
        self._artifact, self._split = artifact, split
        self.row_tokens: int = artifact.settings["packing"]["row_tokens"]
        groups = range(artifact.manifest["phases"]["rows"])
        self._rows = [self._stored("rows", group) for group in groups]
        self._spans = [self._stored("spans", group) for group in groups]
        self._first_row = np.cumsum([0] + [rows.size - 1 for rows in self._rows])

    def __len__(self) -> int:
        return int(self._first_row[-1])

    def spans(self, row: int) -> DocumentSpans:
        """Reads the spans of ``row``, (number of spans,) of ``SPAN``.

        Raises:
            IndexError: if there is no such row.
        """
        if not 0 <= row < len(self):
            raise IndexError(f"row {row} of {len(self)}")
        group = int(np.searchsorted(self._first_row, row, side="right")) - 1
        index = row - int(self._first_row[group])
        first, last = self._rows[group][index : index + 2].tolist()
        return self._spans[group][first:last]

    @property
    def groups(self) -> int:
        """The number of files."""
        return len(self._spans)

    def group(self, group: int) -> tuple[NDArray[np.int64], DocumentSpans]:
        """Reads the spans of one file, (n,), and the number of the row of each, (n,)."""
        rows = np.arange(self._first_row[group], self._first_row[group + 1], dtype=np.int64)
        offsets = self._rows[group][:].astype(np.int64)
        return np.repeat(rows, offsets[1:] - offsets[:-1]), self._spans[group][:]

    def spans_with_targets(self, shard: int, first: int, last: int) -> tuple[NDArray[np.int64], DocumentSpans]:
        """Reads the spans that have a target in tokens[first + 1 : last + 1] of ``shard``, by their starts, (n,), and
        the number of the row of each, (n,)."""
        rows, spans = self.group(shard // self._artifact.settings["packing"]["group_shards"])
        is_wanted = (spans["shard"] == shard) & (spans["start"] < last) & (spans["start"] + spans["length"] > first)
        rows, spans = rows[is_wanted], spans[is_wanted]
        order = np.argsort(spans["start"], kind="stable")
        return rows[order], spans[order]

    def _stored(self, kind: str, group: int) -> StoredArray:
        return StoredArray.npy(self._artifact.path(f"{kind}/{self._split}-{group:05d}.npy"))

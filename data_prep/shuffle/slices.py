"""Files of records with one slice for each reader, verified piece by piece.

    <kind>/00007.records    [ reader 0 | reader 1 ····· | reader 2 ]      records one after the other, sorted by reader
    <kind>/00007.slices     [ piece    | piece | piece  | piece    ]      records of each, and their XXH3 (64 bits)

If each reader hashed whole files, the work would be quadratic in the number of tasks. So a reader verifies the table of
slices by the checksum in the writer's part record, and the pieces of its own slice by the checksums in the table.
"""

import contextlib
import functools
import io
import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import xxhash
from numpy.typing import NDArray

from headrace.data_prep.shuffle.records import run_bounds
from headrace.pipeline.core.artifact import TaskOutput, damaged, handed, unverified

PIECE_BYTES = 1 << 18
"""Bytes that are read and verified at a time."""

PIECE = np.dtype([("reader", "<u4"), ("records", "<u4"), ("checksum", "<u8")])
RECORDS, SLICES = "records", "slices"
"""The suffixes of the two files."""


def checksum(data: NDArray[Any]) -> int:
    """Returns XXH3 (64 bits) of the bytes of an array."""
    return xxhash.xxh3_64_intdigest(np.ascontiguousarray(data).view(np.uint8).data)


class SliceWriter:
    """Writes records, sorted by reader, to the records file. Pieces do not depend on the sizes of the blocks given."""

    def __init__(self, stream: BinaryIO, dtype: "np.dtype[Any]") -> None:
        self._stream, self._dtype = stream, dtype
        self._most = max(1, PIECE_BYTES // dtype.itemsize)
        self._pieces: list[tuple[int, int, int]] = []
        self._reader, self._records, self._hash = 0, 0, xxhash.xxh3_64()

    def write(self, records: NDArray[Any], readers: NDArray[np.integer]) -> None:
        """Writes ``records`` for ``readers``, which ascend within and across calls."""
        records = np.ascontiguousarray(records)
        for start, end in itertools.pairwise(run_bounds(readers).tolist()):
            if self._reader != readers[start]:
                self._close_piece()
                self._reader = int(readers[start])
            while start < end:
                taken = records[start : min(end, start + self._most - self._records)]
                self._hash.update(taken.view(np.uint8).data)
                self._records += taken.size
                start += taken.size
                if self._records == self._most:
                    self._close_piece()
        records.tofile(self._stream)

    def table(self) -> NDArray[np.void]:
        """Returns the table of the pieces written: (n_pieces,) PIECE."""
        self._close_piece()
        return np.array(self._pieces, PIECE)

    def _close_piece(self) -> None:
        if self._records:
            self._pieces.append((self._reader, self._records, self._hash.intdigest()))
            self._records = 0
            self._hash.reset()


def save_table(out: TaskOutput, kind: str, writer: SliceWriter, dtype: "np.dtype[Any]") -> None:
    """Writes the slices file: an empty array, for the dtype of the records, and the table."""
    with out.scratch(kind, SLICES) as path, path.open("wb") as stream:
        np.save(stream, np.empty(0, dtype), allow_pickle=False)
        np.save(stream, writer.table(), allow_pickle=False)


def read_table(path: Path) -> "tuple[np.dtype[Any], NDArray[np.void]]":
    """Reads a slices file: the dtype of the records, and the table (n_pieces,) PIECE.

    ``np.load`` parses a header as Python source, which takes longer than all other work on a small file. So the first
    header is parsed once for all files that have the same one, and the second one is skipped.
    """
    data = path.read_bytes()
    first = _header_bytes(data, 0)
    return _dtype_of(data[:first]), np.frombuffer(data, PIECE, offset=first + _header_bytes(data, first))


def _header_bytes(data: bytes, start: int) -> int:
    """Returns the size of the .npy header at ``start``. Bytes 8 and 9 of format 1.0 are the length of its text."""
    return 10 + int.from_bytes(data[start + 8 : start + 10], "little")


@functools.lru_cache(maxsize=256)
def _dtype_of(header: bytes) -> "np.dtype[Any]":
    """Returns the dtype of an empty array that was saved as ``header``."""
    dtype: np.dtype[Any] = np.load(io.BytesIO(header), allow_pickle=False).dtype
    return dtype


class Slice:
    """The records that task ``writer`` sent to ``reader`` under ``source``: ``<phase>/<kind>``."""

    def __init__(self, out: TaskOutput, source: str, writer: int, reader: int) -> None:
        self._out, self._source, self._writer = out, source, writer
        self._path = unverified(out, source, writer, RECORDS)
        self.dtype, pieces = read_table(handed(out, source, writer, SLICES))
        first, last = np.searchsorted(pieces["reader"], [reader, reader + 1])
        self._first_record = int(pieces["records"][:first].sum(dtype=np.int64))
        self._pieces = pieces[first:last]

    @property
    def size(self) -> int:
        return int(self._pieces["records"].sum(dtype=np.int64))

    def blocks(self) -> Iterator[NDArray[Any]]:
        """Reads the records in pieces of at most ``PIECE_BYTES``. Memory holds one piece.

        Raises:
            RetryableError: if a piece is damaged.
        """
        if not self._pieces.size:
            return
        with contextlib.suppress(FileNotFoundError), self._path.open("rb") as stream:
            stream.seek(self._first_record * self.dtype.itemsize)
            for _, records, expected in self._pieces.tolist():
                block = np.fromfile(stream, self.dtype, records)
                if block.size != records or checksum(block) != expected:
                    break
                yield block
            else:
                return
        raise damaged(self._out, self._source, self._writer, RECORDS)

"""Hands records from the tasks of one phase to the tasks of a later one, through sorted scratch files.

    task 0 of phase digests                                 task 1 of a later phase
    records, each with a destination                        reads slice 1 of every file: "digests/<kind>"
    ── sort by destination ──> <kind>/00000.records    [ 0000 | 111 | 22 ]
                               <kind>/00000.slices     offsets and checksums of the slices (see ``slices``)

There is one file for each writer, not one for each writer and reader. A reader reads and verifies only its own slices.
No process holds all records: ``send`` and ``receive`` hold the records of one task, ``Sender`` and ``receive_blocks``
even less.
"""

import functools
import os
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headrace.data_prep.shuffle.external_sort import ExternalSort
from headrace.data_prep.shuffle.records import Records, whole_runs
from headrace.data_prep.shuffle.slices import RECORDS, Slice, SliceWriter, save_table
from headrace.pipeline.core.artifact import TaskOutput
from headrace.pipeline.core.artifact_files import make


def send(out: TaskOutput, kind: str, records: NDArray[Any], destinations: NDArray[np.integer]) -> None:
    """Writes ``records`` for the tasks ``destinations`` of a later phase. Records for one task keep their order."""
    order = np.argsort(destinations, kind="stable")
    _write(out, kind, records.dtype, [(records[order], destinations[order])])


class Sender:
    """Context manager that sends more records than memory holds.

    It writes the files when the context ends without an error.
    """

    def __init__(self, out: TaskOutput, kind: str, dtype: "np.dtype[Any]", memory_bytes: int) -> None:
        self._out, self._kind = out, kind
        self._dtype = np.dtype([("destination", "<u4"), ("record", dtype)])
        self._sort = ExternalSort(self._dtype, ("destination",), memory_bytes, sorting_folder(out))

    def __enter__(self) -> "Sender":
        return self

    def add(self, records: NDArray[Any], destinations: NDArray[np.integer]) -> None:
        """Adds a copy of ``records``. ``destinations`` holds the reader of each record."""
        addressed = np.empty(records.size, self._dtype)
        addressed["destination"], addressed["record"] = destinations, records
        self._sort.add(addressed)

    def __exit__(self, kind: object, *error: object) -> None:
        with self._sort:
            if kind is None:
                blocks = ((block["record"], block["destination"]) for block in self._sort.blocks())
                _write(self._out, self._kind, self._dtype["record"], blocks)


def _write(
    out: TaskOutput,
    kind: str,
    dtype: "np.dtype[Any]",
    blocks: Iterable[tuple[NDArray[Any], NDArray[np.integer]]],
) -> None:
    """Writes both files of ``kind``. ``blocks`` holds records and their destinations, sorted by destination."""
    with out.scratch(kind, RECORDS) as path, path.open("wb") as stream:
        writer = SliceWriter(stream, dtype)
        for records, destinations in blocks:
            writer.write(records, destinations)
    save_table(out, kind, writer, dtype)


def receive(out: TaskOutput, source: str, writers: int, reader: int) -> NDArray[Any]:
    """Reads the records that an earlier phase sent to task ``reader``, in the order of the writers.

    Args:
        out: output of this task.
        source: ``<phase>/<kind>``.
        writers: number of tasks of the earlier phase.
        reader: the destination under which they sent the records.

    Raises:
        RetryableError: if a file is damaged or missing.
    """
    pieces = []
    for own in _slices(out, source, writers, reader):
        pieces += [np.empty(0, own.dtype), *own.blocks()]
    return np.concatenate(pieces)


def receive_blocks(out: TaskOutput, source: str, writers: int, reader: int) -> Iterator[NDArray[Any]]:
    """Reads the records like ``receive``, in blocks of at most ``slices.PIECE_BYTES``. Memory holds one block."""
    for own in _slices(out, source, writers, reader):
        yield from own.blocks()


def _slices(out: TaskOutput, source: str, writers: int, reader: int) -> Iterator[Slice]:
    return (Slice(out, source, writer, reader) for writer in range(writers))


def receive_sorted(
    out: TaskOutput, source: str, writers: int, dtype: "np.dtype[Any]", by: tuple[str, ...], memory_bytes: int
) -> Iterator[Records]:
    """Reads the records for this task sorted by ``by``, in blocks that do not split a run of the first field.

    Args:
        out, source, writers: see ``receive``.
        dtype: dtype that holds the records of all writers (see ``dtype_of``).
        by: see ``records``.
        memory_bytes: bound on memory, in addition to one run of equal values of the first field.
    """
    with ExternalSort(dtype, by, memory_bytes, sorting_folder(out)) as sorting:
        for block in receive_blocks(out, source, writers, out.task):
            sorting.add(block)
        yield from whole_runs(sorting.blocks(), by[:1])


def count_received(out: TaskOutput, source: str, writers: int, reader: int) -> int:
    """Returns the number of records that ``receive`` returns."""
    return sum(own.size for own in _slices(out, source, writers, reader))


def dtype_of(out: TaskOutput, source: str, writers: int) -> "np.dtype[Any]":
    """Returns a dtype that holds the records of all ``writers``, whose byte strings may have different widths."""
    return functools.reduce(np.promote_types, (own.dtype for own in _slices(out, source, writers, out.task)))


def sorting_folder(out: TaskOutput) -> Path:
    """Returns the folder for temporary files of this task's sorts. The finished artifact does not contain it."""
    return out.own_scratch("sorting")


def bucket_of(keys: NDArray[np.uint64], buckets: int) -> NDArray[np.int64]:
    """Returns the bucket of each 64-bit key. Buckets are equal ranges of keys."""
    return (((keys >> np.uint64(32)) * np.uint64(buckets)) >> np.uint64(32)).astype(np.int64)


def allocate(out: TaskOutput, size: int, dtype: "np.dtype[Any] | type", memory_bytes: int) -> NDArray[Any]:
    """Allocates an array of ``size`` values: in memory up to ``memory_bytes``, else mapped from an unnamed file.

    The system pages a mapped file in and out, so the array may be larger than memory.
    """
    if size * np.dtype(dtype).itemsize <= memory_bytes:
        return np.empty(size, dtype)
    folder = sorting_folder(out)
    make(folder)
    with tempfile.TemporaryFile(dir=folder) as file:
        # Without space on the disk, this raises. A write to the map would kill the process.
        os.posix_fallocate(file.fileno(), 0, size * np.dtype(dtype).itemsize)
        return np.asarray(np.memmap(file, dtype, "w+", shape=(size,)))

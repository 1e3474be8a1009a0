"""Handing records from the tasks of one phase to the tasks of a later one, through sorted scratch files.

    task of phase 1                                         task 1 of phase 2
    records + a destination each                            reads slice 1 of every file
    ── sort by destination ──> <name>/00000.npy        [ 0000 | 111 | 22 ]
                               <name>/00000-bounds.npy [ 0, 4, 7, 9 ]

One file per writer, not one per writer and reader; a reader reads only its own slices. Nothing holds all records:
``send`` and ``receive`` hold those of one task, ``Sender`` and ``receive_blocks`` not even these.
"""

import functools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from data_prep.dedup.external_sort import ExternalSort
from data_prep.dedup.records import Records, whole_runs
from pipeline.core.artifact import TaskOutput

BLOCK_BYTES = 1 << 18
"""What ``receive_blocks`` reads at once."""


def save(path: Path, array: NDArray[Any]) -> None:
    """Write ``array`` to exactly ``path`` in .npy form."""
    with path.open("wb") as stream:
        np.save(stream, array, allow_pickle=False)


def send(out: TaskOutput, name: str, records: NDArray[Any], destinations: NDArray[np.integer], readers: int) -> None:
    """Leave ``records`` of this task for ``readers`` tasks of a later phase; equal destinations keep their order."""
    order = np.argsort(destinations, kind="stable")
    with out.scratch(f"{name}/{out.task:05d}.npy") as path:
        save(path, records[order])
    with out.scratch(f"{name}/{out.task:05d}-bounds.npy") as path:
        save(path, np.searchsorted(destinations[order], np.arange(readers + 1)))


class Sender:
    """``send`` for more records than memory holds: a context manager that leaves the files when it is left whole."""

    def __init__(self, out: TaskOutput, name: str, dtype: "np.dtype[Any]", readers: int, memory_bytes: int) -> None:
        self._out, self._name, self._readers = out, name, readers
        self._dtype = np.dtype([("destination", "<u4"), ("record", dtype)])
        self._sort = ExternalSort(self._dtype, ("destination",), memory_bytes, sorting_folder(out))

    def __enter__(self) -> "Sender":
        return self

    def add(self, records: NDArray[Any], destinations: NDArray[np.integer]) -> None:
        """Take a copy of ``records`` for the readers ``destinations``, one for each."""
        addressed = np.empty(records.size, self._dtype)
        addressed["destination"], addressed["record"] = destinations, records
        self._sort.add(addressed)

    def __exit__(self, kind: object, *error: object) -> None:
        with self._sort:
            if kind is None:
                self._write()

    def _write(self) -> None:
        dtype, lengths = self._dtype["record"], np.zeros(self._readers, np.int64)
        header = {"descr": np.lib.format.dtype_to_descr(dtype), "fortran_order": False, "shape": (self._sort.count,)}
        name = f"{self._name}/{self._out.task:05d}"
        with self._out.scratch(f"{name}.npy") as path, path.open("wb") as stream:
            np.lib.format.write_array_header_1_0(stream, header)
            for block in self._sort.blocks():
                np.ascontiguousarray(block["record"]).tofile(stream)
                lengths += np.bincount(block["destination"], minlength=self._readers)
        with self._out.scratch(f"{name}-bounds.npy") as path:
            save(path, np.concatenate(([0], np.cumsum(lengths))))


def receive(out: TaskOutput, name: str, writers: int, reader: int) -> NDArray[Any]:
    """What the ``writers`` tasks of an earlier phase left for task ``reader``, in the order of the writers."""
    pieces = []
    for writer in range(writers):
        bounds = np.load(out.scratch_path(f"{name}/{writer:05d}-bounds.npy"))
        records = np.load(out.scratch_path(f"{name}/{writer:05d}.npy"), mmap_mode="r")
        pieces.append(np.array(records[bounds[reader] : bounds[reader + 1]]))
    return np.concatenate(pieces)


def receive_blocks(out: TaskOutput, name: str, writers: int, reader: int) -> Iterator[NDArray[Any]]:
    """``receive`` in pieces of at most ``BLOCK_BYTES``, of which memory holds one. They are read, not mapped."""
    for writer in range(writers):
        path = out.scratch_path(f"{name}/{writer:05d}.npy")
        bounds = np.load(out.scratch_path(f"{name}/{writer:05d}-bounds.npy"), mmap_mode="r")
        records = np.load(path, mmap_mode="r")
        dtype, first_byte = records.dtype, records.offset
        step, end = BLOCK_BYTES // dtype.itemsize, int(bounds[reader + 1])
        for start in range(int(bounds[reader]), end, step):
            yield np.fromfile(path, dtype, min(step, end - start), offset=first_byte + start * dtype.itemsize)


def receive_sorted(
    out: TaskOutput, name: str, writers: int, dtype: "np.dtype[Any]", by: tuple[str, ...], memory_bytes: int
) -> Iterator[Records]:
    """What the ``writers`` left for this task, in the order ``by``, in blocks cut between values of the first field.

    Args:
        out, name, writers: see ``receive``.
        dtype: holds the records of all (see ``dtype_of``).
        by: see ``records``.
        memory_bytes: bound on what is held beside one run of equal values of the first field.
    """
    with ExternalSort(dtype, by, memory_bytes, sorting_folder(out)) as sorting:
        for block in receive_blocks(out, name, writers, out.task):
            sorting.add(block)
        yield from whole_runs(sorting.blocks(), by[:1])


def received(out: TaskOutput, name: str, writers: int, reader: int) -> int:
    """The number of records that ``receive`` gives."""
    bounds = (np.load(out.scratch_path(f"{name}/{writer:05d}-bounds.npy"), mmap_mode="r") for writer in range(writers))
    return sum(int(own[reader + 1] - own[reader]) for own in bounds)


def dtype_of(out: TaskOutput, name: str, writers: int) -> "np.dtype[Any]":
    """Of records that hold those of all ``writers``, whose byte strings may be of different widths."""
    paths = (out.scratch_path(f"{name}/{writer:05d}.npy") for writer in range(writers))
    return functools.reduce(np.promote_types, (np.load(path, mmap_mode="r").dtype for path in paths))


def sorting_folder(out: TaskOutput) -> Path:
    """Where this task may put what it sorts; the finished artifact has no scratch."""
    return out.scratch_path("sorting")


def bucket_of(keys: NDArray[np.uint64], buckets: int) -> NDArray[np.int64]:
    """The bucket of each 64-bit key: equal ranges of the keys."""
    return (((keys >> np.uint64(32)) * np.uint64(buckets)) >> np.uint64(32)).astype(np.int64)


def runs(keys: NDArray[Any]) -> NDArray[np.int64]:
    """Where each run of equal values in the sorted ``keys`` starts, and their end: (n_runs + 1,)."""
    if not keys.size:
        return np.zeros(1, np.int64)
    changes = np.flatnonzero(keys[1:] != keys[:-1]) + 1
    return np.concatenate(([0], changes, [keys.size])).astype(np.int64)

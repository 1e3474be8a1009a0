"""Handing records from the tasks of one phase to the tasks of a later one, through sorted scratch files.

    task 0 of phase digests                                 task 1 of a later phase
    records + a destination each                            reads slice 1 of every file: "digests/<kind>"
    ── sort by destination ──> <kind>/00000.records    [ 0000 | 111 | 22 ]
                               <kind>/00000.slices     where each slice lies, and its checksums (see ``slices``)

One file per writer, not one per writer and reader; a reader reads only its own slices, and verifies them. Nothing holds
all records: ``send`` and ``receive`` hold those of one task, ``Sender`` and ``receive_blocks`` not even these.
"""

import functools
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headrace.data_prep.shuffle.external_sort import ExternalSort
from headrace.data_prep.shuffle.records import Records, whole_runs
from headrace.data_prep.shuffle.slices import RECORDS, Slice, SliceWriter, save_table
from headrace.pipeline.core.artifact import TaskOutput


def save(path: Path, array: NDArray[Any]) -> None:
    """Write ``array`` to exactly ``path`` in .npy form."""
    with path.open("wb") as stream:
        np.save(stream, array, allow_pickle=False)


def send(out: TaskOutput, kind: str, records: NDArray[Any], destinations: NDArray[np.integer]) -> None:
    """Leave ``records`` of this task for the tasks ``destinations`` of a later phase; equal ones keep their order."""
    order = np.argsort(destinations, kind="stable")
    _write(out, kind, records.dtype, [(records[order], destinations[order])])


class Sender:
    """``send`` for more records than memory holds: a context manager that leaves the files when it is left whole."""

    def __init__(self, out: TaskOutput, kind: str, dtype: "np.dtype[Any]", memory_bytes: int) -> None:
        self._out, self._kind = out, kind
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
                blocks = ((block["record"], block["destination"]) for block in self._sort.blocks())
                _write(self._out, self._kind, self._dtype["record"], blocks)


def _write(
    out: TaskOutput,
    kind: str,
    dtype: "np.dtype[Any]",
    blocks: Iterable[tuple[NDArray[Any], NDArray[np.integer]]],
) -> None:
    """Leave both files of ``kind`` with the records of ``blocks``, sorted by the destinations beside them."""
    with out.scratch(kind, RECORDS) as path, path.open("wb") as stream:
        writer = SliceWriter(stream, dtype)
        for records, destinations in blocks:
            writer.write(records, destinations)
    save_table(out, kind, writer, dtype)


def receive(out: TaskOutput, source: str, writers: int, reader: int) -> NDArray[Any]:
    """What the ``writers`` tasks of an earlier phase left for task ``reader``, in the order of the writers.

    Args:
        out: of this task.
        source: ``<phase>/<kind>``.
        writers: tasks of that phase.
        reader: the number that they knew this task by.

    Raises:
        RetryableError: when it is damaged or missing.
    """
    pieces = []
    for own in _slices(out, source, writers, reader):
        pieces += [np.empty(0, own.dtype), *own.blocks()]
    return np.concatenate(pieces)


def receive_blocks(out: TaskOutput, source: str, writers: int, reader: int) -> Iterator[NDArray[Any]]:
    """``receive`` in pieces of at most ``slices.PIECE_BYTES``, of which memory holds one."""
    for own in _slices(out, source, writers, reader):
        yield from own.blocks()


def _slices(out: TaskOutput, source: str, writers: int, reader: int) -> Iterator[Slice]:
    return (Slice(out, source, writer, reader) for writer in range(writers))


def receive_sorted(
    out: TaskOutput, source: str, writers: int, dtype: "np.dtype[Any]", by: tuple[str, ...], memory_bytes: int
) -> Iterator[Records]:
    """What the ``writers`` left for this task, in the order ``by``, in blocks cut between values of the first field.

    Args:
        out, source, writers: see ``receive``.
        dtype: holds the records of all (see ``dtype_of``).
        by: see ``records``.
        memory_bytes: bound on what is held beside one run of equal values of the first field.
    """
    with ExternalSort(dtype, by, memory_bytes, sorting_folder(out)) as sorting:
        for block in receive_blocks(out, source, writers, out.task):
            sorting.add(block)
        yield from whole_runs(sorting.blocks(), by[:1])


def received(out: TaskOutput, source: str, writers: int, reader: int) -> int:
    """The number of records that ``receive`` gives."""
    return sum(own.size for own in _slices(out, source, writers, reader))


def dtype_of(out: TaskOutput, source: str, writers: int) -> "np.dtype[Any]":
    """Of records that hold those of all ``writers``, whose byte strings may be of different widths."""
    return functools.reduce(np.promote_types, (own.dtype for own in _slices(out, source, writers, out.task)))


def sorting_folder(out: TaskOutput) -> Path:
    """Where this task may put what it sorts; the finished artifact has no scratch."""
    return out.own_scratch("sorting")


def bucket_of(keys: NDArray[np.uint64], buckets: int) -> NDArray[np.int64]:
    """The bucket of each 64-bit key: equal ranges of the keys."""
    return (((keys >> np.uint64(32)) * np.uint64(buckets)) >> np.uint64(32)).astype(np.int64)

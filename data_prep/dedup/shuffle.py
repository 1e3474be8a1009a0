"""Handing records from the tasks of one phase to the tasks of a later one, through sorted scratch files.

    task of phase 1                                         task 1 of phase 2
    records + a destination each                            reads slice 1 of every file
    ── sort by destination ──> <name>/00000.npy        [ 0000 | 111 | 22 ]
                               <name>/00000-bounds.npy [ 0, 4, 7, 9 ]

One file per writer, not one per writer and reader; a reader maps only its own slices. Nothing holds all records.
"""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipeline.core.artifact import TaskOutput


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


def receive(out: TaskOutput, name: str, writers: int, reader: int) -> NDArray[Any]:
    """What the ``writers`` tasks of an earlier phase left for task ``reader``, in the order of the writers."""
    pieces = []
    for writer in range(writers):
        bounds = np.load(out.scratch_path(f"{name}/{writer:05d}-bounds.npy"))
        records = np.load(out.scratch_path(f"{name}/{writer:05d}.npy"), mmap_mode="r")
        pieces.append(np.array(records[bounds[reader] : bounds[reader + 1]]))
    return np.concatenate(pieces)


def bucket_of(keys: NDArray[np.uint64], buckets: int) -> NDArray[np.int64]:
    """The bucket of each 64-bit key: equal ranges of the keys."""
    return (((keys >> np.uint64(32)) * np.uint64(buckets)) >> np.uint64(32)).astype(np.int64)


def runs(keys: NDArray[Any]) -> NDArray[np.int64]:
    """Where each run of equal values in the sorted ``keys`` starts, and their end: (n_runs + 1,)."""
    if not keys.size:
        return np.zeros(1, np.int64)
    changes = np.flatnonzero(keys[1:] != keys[:-1]) + 1
    return np.concatenate(([0], changes, [keys.size])).astype(np.int64)

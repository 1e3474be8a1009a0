"""Structured arrays: builds them from columns, orders them by fields, finds runs of equal keys, saves them.

by = ("digest", "document")     fields to compare, the most significant first: integers, bytes (``S``), or arrays of
                                one dimension of these, compared from left to right
"""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

Records = NDArray[np.void]
"""A structured array, (n,)."""


def records_of(**columns: NDArray[Any]) -> Records:
    """Returns records with these fields, in this order: (n,)."""
    size = len(next(iter(columns.values())))
    records = np.empty(size, [(name, values.dtype) for name, values in columns.items()])
    for name, values in columns.items():
        records[name] = values
    return records


def whole_runs(blocks: Iterable[Records], by: Sequence[str]) -> Iterator[Records]:
    """Yields the records of sorted ``blocks`` in new blocks, so that no run of equal keys is split.

    A new block can be as large as two of ``blocks`` plus the longest run of equal keys.
    """
    held: list[Records] = []
    for block in blocks:
        last = int(np.flatnonzero(run_starts(block, by))[-1])
        if held and (last or run_starts(np.concatenate([held[-1][-1:], block[:1]]), by)[1]):
            yield np.concatenate([*held, block[:last]])
            held = []
        elif last:
            yield block[:last]
        held.append(block[last:])
    if held:
        yield np.concatenate(held)


def run_bounds(keys: NDArray[Any]) -> NDArray[np.int64]:
    """Returns the start of each run of equal values in the sorted ``keys``, and the end: (n_runs + 1,)."""
    if not keys.size:
        return np.zeros(1, np.int64)
    changes = np.flatnonzero(keys[1:] != keys[:-1]) + 1
    return np.concatenate(([0], changes, [keys.size])).astype(np.int64)


def stable_order(records: Records, by: Sequence[str]) -> NDArray[np.int64]:
    """Returns the stable order by the fields ``by``, the first the most significant, like ``np.lexsort``: (n,).

    Only ties of the first column are sorted by the second, and only ties of both by the third. So later columns cost
    time only for ties.
    """
    first, *others = columns(records, by)
    order = np.argsort(first, kind="stable")
    fresh = _changes(first[order])
    for column in others:
        tied = ~fresh
        tied[:-1] |= tied[1:]
        indices = np.flatnonzero(tied)
        if not indices.size:
            break
        own = order[indices]
        values = column[own]
        inner = np.lexsort((values, np.cumsum(fresh[indices])))
        order[indices] = own[inner]
        fresh[indices] |= _changes(values[inner])
    return order


def run_starts(records: Records, by: Sequence[str]) -> NDArray[np.bool_]:
    """Returns for records sorted by ``by`` whether each begins a new run of equal keys: (n,)."""
    starts = np.zeros(records.size, np.bool_)
    for column in columns(records, by):
        starts |= _changes(column)
    return starts


def equal_range(records: Records, by: Sequence[str], key: tuple[Any, ...]) -> tuple[int, int]:
    """Returns start and end of the records with this ``key`` (NumPy scalars) in sorted ``records``.

    Both are the insertion index if no record has the key.
    """
    low, high = 0, records.size
    for column, value in zip(columns(records, by), key, strict=True):
        part = column[low:high]
        low, high = low + int(np.searchsorted(part, value, "left")), low + int(np.searchsorted(part, value, "right"))
    return low, high


def columns(records: Records, by: Sequence[str]) -> list[NDArray[Any]]:
    """Returns the fields ``by`` as columns of (n,). A field that holds an array gives one column for each value."""
    columns_of_fields = []
    for field in by:
        values = records[field]
        columns_of_fields += [values] if values.ndim == 1 else list(values.T)
    return columns_of_fields


def save_array(path: Path, array: NDArray[Any]) -> None:
    """Writes ``array`` to ``path`` in .npy format. The file name is used as it is."""
    with path.open("wb") as stream:
        np.save(stream, array, allow_pickle=False)


def _changes(values: NDArray[Any]) -> NDArray[np.bool_]:
    changes = np.ones(values.size, np.bool_)
    changes[1:] = values[1:] != values[:-1]
    return changes

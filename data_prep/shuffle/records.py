"""Structured arrays: put together from columns, ordered by some of them, cut where these change.

by = ("digest", "document")     fields to compare, the most significant first: integers, bytes (``S``), or arrays of
                                one dimension of these, compared from left to right
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Records = NDArray[np.void]
"""A structured array."""


def records_of(**columns: NDArray[Any]) -> Records:
    """The records with these fields, in this order: (n,)."""
    size = len(next(iter(columns.values())))
    records = np.empty(size, [(name, values.dtype) for name, values in columns.items()])
    for name, values in columns.items():
        records[name] = values
    return records


def whole_runs(blocks: Iterable[Records], by: Sequence[str]) -> Iterator[Records]:
    """The records of sorted ``blocks``, cut anew so that no run of equal keys is in two blocks.

    A block can be as large as two of ``blocks`` and the longest run of equal keys together.
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


def runs(keys: NDArray[Any]) -> NDArray[np.int64]:
    """Where each run of equal values in the sorted ``keys`` starts, and their end: (n_runs + 1,)."""
    if not keys.size:
        return np.zeros(1, np.int64)
    changes = np.flatnonzero(keys[1:] != keys[:-1]) + 1
    return np.concatenate(([0], changes, [keys.size])).astype(np.int64)


def stable_order(records: Records, by: Sequence[str]) -> NDArray[np.int64]:
    """``np.lexsort`` by the fields ``by``, the first the most significant: (n,).

    Ties of the first column are sorted by the second, ties of both by the third, and so on, so that columns behind the
    first cost only where they matter.
    """
    first, *others = columns(records, by)
    order = np.argsort(first, kind="stable")
    fresh = _changes(first[order])
    for column in others:
        tied = ~fresh
        tied[:-1] |= tied[1:]
        places = np.flatnonzero(tied)
        if not places.size:
            break
        own = order[places]
        values = column[own]
        inner = np.lexsort((values, np.cumsum(fresh[places])))
        order[places] = own[inner]
        fresh[places] |= _changes(values[inner])
    return order


def run_starts(records: Records, by: Sequence[str]) -> NDArray[np.bool_]:
    """Where records that are sorted by the fields ``by`` differ from the one before, the first always: (n,)."""
    starts = np.zeros(records.size, np.bool_)
    for column in columns(records, by):
        starts |= _changes(column)
    return starts


def equal_range(records: Records, by: Sequence[str], key: tuple[Any, ...]) -> tuple[int, int]:
    """From where to where sorted ``records`` have this ``key``, of NumPy scalars; where it would go if none does."""
    low, high = 0, records.size
    for column, value in zip(columns(records, by), key, strict=True):
        part = column[low:high]
        low, high = low + int(np.searchsorted(part, value, "left")), low + int(np.searchsorted(part, value, "right"))
    return low, high


def columns(records: Records, by: Sequence[str]) -> list[NDArray[Any]]:
    """The fields ``by``, those that hold an array cut into its values: each (n,)."""
    found = []
    for field in by:
        values = records[field]
        found += [values] if values.ndim == 1 else list(values.T)
    return found


def _changes(values: NDArray[Any]) -> NDArray[np.bool_]:
    changes = np.ones(values.size, np.bool_)
    changes[1:] = values[1:] != values[:-1]
    return changes

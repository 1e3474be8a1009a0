"""Document numbers: shard and row of a document in one integer.

    number = shard · 2^32 + row        7 · 2^32 + 41  is the 42nd document of documents/00007.jsonl.zst

The shards of older runs (``dedup.against``) are numbered after this run's own shards (see ``corpus``).

Numbers need no table of shard sizes and sort like (shard, row). They locate a document but do not identify it: another
sharding gives other numbers. So no result may depend on their order.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.uint64]

SHARD_SHIFT = np.uint64(32)
ROW_MASK = np.uint64(0xFFFFFFFF)


def numbers_of(shard: int, rows: NDArray[np.integer]) -> Numbers:
    """Returns the numbers of the documents at ``rows`` of ``shard``."""
    return (np.uint64(shard) << SHARD_SHIFT) | rows.astype(np.uint64)


def shards_of(numbers: Numbers) -> NDArray[np.int64]:
    """Returns the shard of each document."""
    return (numbers >> SHARD_SHIFT).astype(np.int64)


def rows_of(numbers: Numbers) -> NDArray[np.int64]:
    """Returns the row of each document in its shard."""
    return (numbers & ROW_MASK).astype(np.int64)


def look_up(load: Callable[[int], NDArray[Any]], numbers: Numbers) -> NDArray[Any]:
    """Returns the rows of the documents ``numbers``, in this order. ``load(shard)`` gives the array of a shard."""
    if not numbers.size:
        return load(0)[:0]
    order = np.argsort(numbers, kind="stable")
    shards, starts = np.unique(shards_of(numbers[order]), return_index=True)
    pieces = [
        load(int(shard))[rows_of(numbers[piece])]
        for shard, piece in zip(shards, np.split(order, starts[1:]), strict=True)
    ]
    loaded: NDArray[Any] = np.concatenate(pieces)
    values = np.empty_like(loaded)
    values[order] = loaded
    return values

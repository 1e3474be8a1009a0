"""Document numbers: where a document lies, in one integer.

    number = shard · 2^32 + row        7 · 2^32 + 41  is the 42nd document of documents/00007.jsonl.zst

Where a run is deduplicated against older ones, their shards are numbered behind its own (see ``corpus``).

Numbers need no table of shard sizes and sort like (shard, row). They are addresses, not identities: another sharding
gives other numbers, so nothing that decides a result may depend on their order.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.uint64]

SHARD_SHIFT = np.uint64(32)
ROW_MASK = np.uint64(0xFFFFFFFF)


def numbers_of(shard: int, rows: NDArray[np.integer]) -> Numbers:
    """The numbers of these rows of ``shard``."""
    return (np.uint64(shard) << SHARD_SHIFT) | rows.astype(np.uint64)


def shards_of(numbers: Numbers) -> NDArray[np.int64]:
    return (numbers >> SHARD_SHIFT).astype(np.int64)


def rows_of(numbers: Numbers) -> NDArray[np.int64]:
    return (numbers & ROW_MASK).astype(np.int64)


def look_up(load: Callable[[int], NDArray[Any]], numbers: Numbers) -> NDArray[Any]:
    """The rows of the documents ``numbers``, in their order, in arrays with one row a document: ``load(shard)``."""
    if not numbers.size:
        return load(0)[:0]
    order = np.argsort(numbers, kind="stable")
    shards, starts = np.unique(shards_of(numbers[order]), return_index=True)
    pieces = [
        load(int(shard))[rows_of(numbers[piece])]
        for shard, piece in zip(shards, np.split(order, starts[1:]), strict=True)
    ]
    found: NDArray[Any] = np.concatenate(pieces)
    values = np.empty_like(found)
    values[order] = found
    return values

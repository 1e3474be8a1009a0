"""Document numbers: where a document lies, in one integer.

    number = shard · 2^32 + row        7 · 2^32 + 41  is the 42nd document of documents/00007.jsonl.zst

Numbers need no table of shard sizes and sort like (shard, row). They are addresses, not identities: another sharding
gives other numbers, so nothing that decides a result may depend on their order.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipeline.core.artifact import Artifact

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


def look_up(artifact: Artifact, kind: str, numbers: Numbers) -> NDArray[Any]:
    """The values of ``kind`` (one .npy a shard, one row a document) of the documents ``numbers``, in their order."""
    if not numbers.size:
        none: NDArray[Any] = np.load(artifact.shard(kind, 0, "npy"))[:0]
        return none
    order = np.argsort(numbers, kind="stable")
    shards, starts = np.unique(shards_of(numbers[order]), return_index=True)
    pieces = [
        np.load(artifact.shard(kind, int(shard), "npy"), mmap_mode="r")[rows_of(numbers[piece])]
        for shard, piece in zip(shards, np.split(order, starts[1:]), strict=True)
    ]
    found: NDArray[Any] = np.concatenate(pieces)
    values = np.empty_like(found)
    values[order] = found
    return values

"""The survivor of equal keys, compared with a plain search, with any amount of memory.

Keys that agree in one half only are different keys.
"""

import tempfile
import tracemalloc
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest
from datatrove.data import Document
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.data_prep.document import Drop
from headrace.data_prep.filters.filter import GlobalFilter
from headrace.data_prep.filters.keys import KeyWriter, Losers, decide
from headrace.data_prep.shuffle.exchange import sorting_folder
from headrace.pipeline.core.artifact import TaskOutput

Keyed = tuple[tuple[int, int], list[tuple[int, int]]]
"""A document's rank and its keys."""


class Given(GlobalFilter):
    """Takes rank and keys from the metadata."""

    rank_words: ClassVar[int] = 2

    def keys(self, document: Document) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        keys = np.array(document.metadata["keys"], np.uint64).reshape(-1, 2)
        return keys, np.array(document.metadata["rank"], np.uint64), np.arange(len(keys), dtype=np.uint32)

    def trim(self, document: Document, losers: np.ndarray) -> Drop | None:
        return None


small = st.sampled_from([0, 1, 2, 2**63, 2**64 - 1])
pairs = st.tuples(small, small)
shards = st.lists(st.lists(st.tuples(pairs, st.lists(pairs, max_size=4)), max_size=4), min_size=1, max_size=3)


@given(shards=shards, buckets=st.integers(1, 4), memory_bytes=st.sampled_from([1, 700, 2000, 1 << 20]))
@settings(max_examples=40)
def test_losers_equal_a_plain_search(shards: list[list[Keyed]], buckets: int, memory_bytes: int) -> None:
    places = [
        (key, rank, shard, document, part)
        for shard, documents in enumerate(shards)
        for document, (rank, keys) in enumerate(documents)
        for part, key in enumerate(keys)
    ]
    winners = {min(place for place in places if place[0] == key) for key, *_ in places}
    expected = {place[2:] for place in places if place not in winners}
    with tempfile.TemporaryDirectory() as folder:
        outs = [TaskOutput(Path(folder), "test", task) for task in range(len(shards))]
        for out, documents in zip(outs, shards, strict=True):
            with KeyWriter(Given(), out, buckets, memory_bytes) as writer:
                for rank, keys in documents:
                    writer.add(Document("", "a:0", metadata={"rank": rank, "keys": keys}))
            out.done({})
        deciding = [TaskOutput(Path(folder), "decide", bucket) for bucket in range(buckets)]
        lost = 0
        for out in deciding:
            lost += decide(Given(), out, "test", len(shards), memory_bytes)
            out.done({})
        found = []
        for out, documents in zip(outs, shards, strict=True):
            with Losers(out, "decide", buckets, memory_bytes) as losers:
                found += [(out.task, n, part) for n in range(len(documents)) for part in losers.of(n).tolist()]
        assert not list(sorting_folder(outs[0]).glob("*"))
    assert set(found) == expected
    assert found == sorted(found)
    assert lost == len(found) == len(expected)


@pytest.mark.slow
@pytest.mark.parametrize("distinct", [1, 2**62])
def test_memory_is_bounded_whatever_the_keys(tmp_path: Path, distinct: int) -> None:
    """5 MB of records in 1 MB; 1 MiB are two blocks that were read, and objects."""
    memory_bytes, documents, lines = 1_000_000, 50, 1000
    generator = np.random.default_rng(0)
    outs = [TaskOutput(tmp_path, "test", shard) for shard in range(2)]
    drawn = generator.integers(0, distinct, (len(outs), documents, lines, 2))
    found = 0
    tracemalloc.start()
    try:
        for out in outs:
            with KeyWriter(Given(), out, 1, memory_bytes) as writer:
                for keys in drawn[out.task]:
                    writer.add(Document("", "a:0", metadata={"rank": (0, 0), "keys": keys}))
            out.done({})
        deciding = TaskOutput(tmp_path, "decide", 0)
        lost = decide(Given(), deciding, "test", len(outs), memory_bytes)
        deciding.done({})
        for out in outs:
            with Losers(out, "decide", 1, memory_bytes) as losers:
                found += sum(losers.of(n).size for n in range(documents))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert found == lost == drawn[..., 0].size - len(np.unique(drawn.reshape(-1, 2), axis=0))
    assert peak < memory_bytes + (1 << 20)

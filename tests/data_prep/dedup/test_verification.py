"""Verified pairs from the records of shards: compared with all pairs, and in bounded memory."""

import itertools
import tempfile
import tracemalloc
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.data_prep.dedup.clusters import components, star_edges, tree_edges
from headrace.data_prep.dedup.corpus import numbers_of, rows_of, shards_of
from headrace.data_prep.dedup.lsh import GROUP_MEMBER
from headrace.data_prep.dedup.shingle_sets import write_sets
from headrace.data_prep.dedup.verification import MEMBERS, jaccard, member_records, verified_pairs
from headrace.data_prep.shuffle.exchange import send
from headrace.pipeline.core.artifact import TaskOutput
from tests.data_prep.dedup.sets import as_array, slow


@given(st.sets(st.integers(0, 30), min_size=1), st.sets(st.integers(0, 30), min_size=1), st.floats(0, 1))
def test_jaccard(one, two, least):
    value, expected = jaccard(as_array(one), as_array(two), least), slow(one, two)
    assert value == expected or (value == -1 and expected < least)
    assert jaccard(as_array(one), as_array(two), 0.0) == expected


SETS = st.lists(st.sets(st.integers(0, 9), min_size=1), min_size=2, max_size=12)


class Bucket:
    """Sets in two shards, whose documents in groups go to a single bucket."""

    def __init__(self, folder, sets, digests=range(10**6)):
        self.folder, self.sets, self.digests = folder, sets, digests
        indices = np.arange(len(sets))
        self.documents = numbers_of(0, indices // 2) + (indices % 2 * 2**32).astype(np.uint64)

    def verified(self, groups, threshold, window, memory_bytes=10**8):
        records = [(hash_, self.documents[i]) for hash_, group in enumerate(groups) for i in group]
        members = np.sort(np.array(records, dtype=GROUP_MEMBER), order=["document", "hash"])
        for shard in (0, 1):
            out = TaskOutput(self.folder, "sets", shard)
            starts, shingles = write_sets(out, [as_array(one) for one in self.sets[shard::2]])
            own = members[shards_of(members["document"]) == shard]
            rows = rows_of(own["document"])
            digests = np.array(self.digests[: len(self.sets)][shard::2], np.uint64)[rows]
            found = member_records(own, digests, starts[rows], shingles[rows])
            send(out, MEMBERS, found, np.zeros(own.size, np.int64))
            out.done({})
        out = TaskOutput(self.folder, "pairs", 0)
        return verified_pairs(out, 2, lambda documents: documents < 0, threshold, window, memory_bytes)

    def pairs(self, *given, **more):
        """Returns the verified pairs as indices in ``sets`` with their similarity, and the number of comparisons."""
        found = self.verified(*given, **more)
        index = {int(number): i for i, number in enumerate(self.documents)}
        return [(index[int(a)], index[int(b)], float(value)) for a, b, value in found.pairs], found.compared


def connected(n, pairs):
    edges = np.array([pair[:2] for pair in pairs], dtype=np.int64).reshape(-1, 2)
    return components(n, edges[:, 0], edges[:, 1]).tolist()


@settings(max_examples=30)
@given(SETS, st.data(), st.sampled_from([0.3, 0.5, 0.8, 1.0]), st.sampled_from([1, 3000, 10**8]))
def test_verified_pairs_connect_what_all_pairs_would(sets, data, threshold, memory_bytes):
    member_lists = st.lists(st.sampled_from(range(len(sets))), min_size=2, max_size=len(sets), unique=True)
    groups = data.draw(st.lists(member_lists, min_size=1, max_size=4))
    with tempfile.TemporaryDirectory() as folder:
        pairs, _ = Bucket(Path(folder), sets).pairs(groups, threshold, 1000, memory_bytes)
    assert all(value == slow(sets[a], sets[b]) >= threshold for a, b, value in pairs)
    within_groups = {pair for group in groups for pair in itertools.combinations(sorted(group), 2)}
    similar = [pair for pair in within_groups if slow(sets[pair[0]], sets[pair[1]]) >= threshold]
    assert connected(len(sets), pairs) == connected(len(sets), similar)


@pytest.mark.parametrize("window", [3, 7, 1000])
@pytest.mark.parametrize("memory_bytes", [1, 6000, 10**8])
def test_equal_documents_cost_one_comparison_each(tmp_path, window, memory_bytes):
    pairs, compared = Bucket(tmp_path, [{1, 2, 3, 4}] * 40).pairs([range(40)], 0.8, window, memory_bytes)
    assert connected(40, pairs) == [0] * 40
    assert compared == len(pairs) == 39


def test_window_bounds_the_comparisons_of_a_large_group(tmp_path):
    dissimilar = [{10 * i, 10 * i + 1} for i in range(50)]
    pairs, compared = Bucket(tmp_path, dissimilar).pairs([range(50)], 0.8, window=4)
    assert pairs == []
    assert compared == 4 * 50 - (4 + 3 + 2 + 1)


@pytest.mark.parametrize("order", [range(6), (3, 0, 5, 1, 4, 2)])
def test_in_a_large_group_equal_sizes_are_ordered_by_digest_not_by_index(tmp_path, order):
    """Neighbours by digest are similar (4 of 6), others are not (at most 3 of 7)."""
    sets = [set(range(i, i + 5)) for i in order]
    pairs, _ = Bucket(tmp_path, sets, digests=order).pairs([range(6)], 0.6, window=1)
    assert len(pairs) == 5
    assert connected(6, pairs) == [0] * 6


def test_documents_whose_sizes_differ_too_much_are_not_compared(tmp_path):
    sets = [set(range(10)), set(range(12)), set(range(20))]
    pairs, compared = Bucket(tmp_path, sets).pairs([range(3)], 0.8, window=1000)
    assert pairs == [(0, 1, 10 / 12)]
    assert compared == 1


@pytest.mark.slow
@pytest.mark.parametrize("window", [7, 100])
def test_the_same_pairs_in_any_memory(tmp_path, window):
    """Groups of all sizes with families in them; memory for one set, for some, for all."""
    generator = np.random.default_rng(0)
    families = [generator.integers(0, 200, 30) for _ in range(20)]
    sets = [set(generator.choice(families[i % 20], 25).tolist()) for i in range(300)]
    groups = [generator.choice(300, size, replace=False) for size in (2, 3, 5, 90, 2, 250, 13, 14, 15)]
    found = [
        Bucket(tmp_path / f"{memory_bytes}", sets).verified(groups, 0.4, window, memory_bytes)
        for memory_bytes in (1, 5000, 50_000, 10**8)
    ]
    assert len(found[0].pairs) > 50
    for one in found[1:]:
        assert one.pairs.tobytes() == found[0].pairs.tobytes()
        assert one.compared == found[0].compared


@pytest.mark.slow
def test_memory_is_bounded_and_each_shard_is_opened_once(tmp_path, monkeypatch):
    """16 MB of sets, 4 MB of sorted records and 2 MB of arrays in 2 MB, and 256 KiB of objects and blocks."""
    memory_bytes, n, opened = 2_000_000, 50_000, Counter()
    generator = np.random.default_rng(0)
    base = generator.integers(0, 2**63, (n // 5, 40))
    sets = [set(base[i % (n // 5)].tolist()) | {i} for i in range(n)]
    groups = [range(i, n, n // 5) for i in range(n // 5)] + [range(20_000), range(n - 1, 0, -1000)]
    bucket = Bucket(tmp_path, sets)
    expected = bucket.verified(groups, 0.8, 10, 10**9)
    whole = Path.open

    def counted(path, *given, **more):
        opened[path.name] += path.suffix == ".u64"
        return whole(path, *given, **more)

    monkeypatch.setattr(Path, "open", counted)
    tracemalloc.start()
    try:
        out = TaskOutput(tmp_path, "pairs", 0)
        found = verified_pairs(out, 2, lambda documents: documents < 0, 0.8, 10, memory_bytes)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert found.pairs.tobytes() == expected.pairs.tobytes()
    assert len(found.pairs) == 4 * n // 5
    assert {name: times for name, times in opened.items() if times} == {"00000.u64": 1, "00001.u64": 1}
    assert peak < memory_bytes + (1 << 18)


def test_the_edges_are_those_of_the_pairs(tmp_path):
    sets = [{1, 2, 3}, {7, 8}, {1, 2, 3, 4}, {7, 8}, {100}, {1, 2, 3}]
    found = Bucket(tmp_path, sets).verified([range(6)], 0.7, 10)
    edges = np.concatenate(list(tree_edges(found.documents, found.parents)))
    assert edges.tolist() == star_edges(found.pairs["first"], found.pairs["second"]).tolist()
    assert len(edges) == 6

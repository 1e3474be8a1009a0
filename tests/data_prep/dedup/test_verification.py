import itertools
import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from data_prep.dedup import pairing
from data_prep.dedup.clusters import components
from data_prep.dedup.corpus import Corpus
from data_prep.dedup.lsh import GROUP_MEMBER
from data_prep.dedup.numbering import numbers_of
from data_prep.dedup.shuffle import save
from data_prep.dedup.verification import ShingleSets, jaccard, read_sets
from pipeline.core.artifact import TaskOutput, finish

SETS = st.lists(st.sets(st.integers(0, 9), min_size=1), min_size=2, max_size=12)


def as_array(values):
    return np.array(sorted(values), dtype=np.uint64)


def slow(one, two):
    return len(one & two) / len(one | two)


@given(st.sets(st.integers(0, 30), min_size=1), st.sets(st.integers(0, 30), min_size=1), st.floats(0, 1))
def test_jaccard(one, two, least):
    value, expected = jaccard(as_array(one), as_array(two), least), slow(one, two)
    assert value == expected or (value == -1 and expected < least)
    assert jaccard(as_array(one), as_array(two), 0.0) == expected


class Bucket:
    """Sets stored as the phases before would leave them, in two shards, all in one artifact folder."""

    def __init__(self, folder, sets, digests=range(256)):
        self.folder, self.sets = folder, sets
        halves = [list(range(0, len(sets), 2)), list(range(1, len(sets), 2))]
        self.documents = np.empty(len(sets), np.uint64)
        for shard, half in enumerate(halves):
            out = TaskOutput(folder, "sets", shard)
            self.documents[half] = numbers_of(shard, np.arange(len(half)))
            ShingleSets.of(numbers_of(shard, np.arange(len(half))), [as_array(sets[i]) for i in half]).write(out)
            with out.shard("digests", "npy") as path:
                save(path, np.array([[digests[i]] * 32 for i in half], dtype=np.uint8).reshape(-1, 32))
            out.done({})
        self.out = TaskOutput(folder, "pairs", 0)

    def pairs(self, groups, threshold, window):
        """The verified pairs as places in ``sets`` with their similarity, and the number of comparisons."""
        records = [(hash_, self.documents[i]) for hash_, group in enumerate(groups) for i in group]
        members = np.sort(np.array(records, dtype=GROUP_MEMBER), order=["hash", "document"])
        scratch = self.folder / "kept"
        (self.folder / "scratch").rename(scratch)
        digests = finish(self.folder, {"stage": "signatures", "settings": {}}, {"sets": 2})
        scratch.rename(self.folder / "scratch")
        corpus = Corpus({"clean": digests, "signatures": digests}, ())
        pairs, compared = pairing.verified_pairs(self.out, corpus, members, threshold, window)
        place = {int(number): i for i, number in enumerate(self.documents)}
        return [(place[int(a)], place[int(b)], float(value)) for a, b, value in pairs], compared


def connected(n, pairs):
    edges = np.array([pair[:2] for pair in pairs], dtype=np.int64).reshape(-1, 2)
    return components(n, edges[:, 0], edges[:, 1]).tolist()


@settings(max_examples=30)
@given(SETS, st.data(), st.sampled_from([0.3, 0.5, 0.8, 1.0]))
def test_verified_pairs_connect_what_all_pairs_would(sets, data, threshold):
    member_lists = st.lists(st.sampled_from(range(len(sets))), min_size=2, max_size=len(sets), unique=True)
    groups = data.draw(st.lists(member_lists, min_size=1, max_size=4))
    with tempfile.TemporaryDirectory() as folder:
        pairs, _ = Bucket(Path(folder), sets).pairs(groups, threshold, window=1000)
    assert all(value == slow(sets[a], sets[b]) >= threshold for a, b, value in pairs)
    within_groups = {pair for group in groups for pair in itertools.combinations(sorted(group), 2)}
    similar = [pair for pair in within_groups if slow(sets[pair[0]], sets[pair[1]]) >= threshold]
    assert connected(len(sets), pairs) == connected(len(sets), similar)


@pytest.mark.parametrize("window", [3, 7, 1000])
@pytest.mark.parametrize("batch_shingles", [1, 50, 1 << 24])
def test_equal_documents_cost_one_comparison_each(tmp_path, monkeypatch, window, batch_shingles):
    monkeypatch.setattr(pairing, "BATCH_SHINGLES", batch_shingles)
    pairs, compared = Bucket(tmp_path, [{1, 2, 3, 4}] * 40).pairs([range(40)], 0.8, window)
    assert connected(40, pairs) == [0] * 40
    assert compared == len(pairs) == 39


def test_window_bounds_the_comparisons_of_a_large_group(tmp_path):
    strangers = [{10 * i, 10 * i + 1} for i in range(50)]
    pairs, compared = Bucket(tmp_path, strangers).pairs([range(50)], 0.8, window=4)
    assert pairs == []
    assert compared == 4 * 50 - (4 + 3 + 2 + 1)


@pytest.mark.parametrize("places", [range(6), (3, 0, 5, 1, 4, 2)])
def test_in_a_large_group_equal_sizes_are_ordered_by_digest_not_by_place(tmp_path, places):
    """Neighbours by digest are similar (4 of 6), others are not (at most 3 of 7)."""
    sets = [set(range(i, i + 5)) for i in places]
    pairs, _ = Bucket(tmp_path, sets, digests=places).pairs([range(6)], 0.6, window=1)
    assert len(pairs) == 5
    assert connected(6, pairs) == [0] * 6


def test_documents_of_too_different_sizes_are_not_compared(tmp_path):
    sets = [set(range(10)), set(range(12)), set(range(20))]
    pairs, compared = Bucket(tmp_path, sets).pairs([range(3)], 0.8, window=1000)
    assert pairs == [(0, 1, 10 / 12)]
    assert compared == 1


@pytest.mark.parametrize("batch_shingles", [1, 1 << 24])
def test_sets_are_read_across_shards(tmp_path, monkeypatch, batch_shingles):
    """In memory, and through a mapped file when they are many."""
    monkeypatch.setattr("data_prep.dedup.verification.BATCH_SHINGLES", batch_shingles)
    bucket = Bucket(tmp_path, [{1, 2}, {2, 3}, {2}, {5}, {1, 2}])
    some = np.sort(bucket.documents[[1, 4]])
    found = read_sets(bucket.out, some)
    assert [found[i].tolist() for i in range(2)] == [[1, 2], [2, 3]]
    assert read_sets(bucket.out, some[:0]).hashes.size == 0

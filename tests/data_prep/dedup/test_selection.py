import tempfile
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.data_prep.dedup.corpus import FIRST_OF_OURS, numbers_of
from headrace.data_prep.dedup.selection import select_survivors
from headrace.data_prep.dedup.shingle_sets import write_sets
from headrace.data_prep.shuffle.exchange import send
from headrace.data_prep.shuffle.records import records_of
from headrace.pipeline.core.artifact import TaskOutput
from tests.data_prep.dedup.sets import as_array, slow


def walk(sets, is_older, threshold):
    """Index of each set's survivor, its own if it is kept, and the similarity: compares with all kept sets."""
    kept, found = [], []
    for index, own in enumerate(sets):
        similar = [] if is_older[index] else [other for other in kept if slow(own, sets[other]) >= threshold]
        best = max(similar, key=lambda other: slow(own, sets[other]), default=index)
        found.append((best, slow(own, sets[best])))
        if best == index:
            kept.append(index)
    return found


def hand_on(folder, components):
    """Writes the records of the previous phase. ``components`` are lists of (set, is older), by priority.

    The documents lie in two shards, in reverse order, and come from two writers.
    """
    sets = [as_array(own) for component in components for own, _ in component]
    indices = np.arange(len(sets))
    rows = indices[::-1]
    documents = numbers_of(0, rows // 2) + (rows % 2 * 2**32).astype(np.uint64)
    starts, shingles = np.zeros(len(sets), np.int64), np.zeros(len(sets), np.int64)
    for shard in (0, 1):
        own = np.flatnonzero(rows % 2 == shard)[::-1]
        starts[own], shingles[own] = write_sets(TaskOutput(folder, "sets", shard), [sets[i] for i in own])
    is_older = np.array([older for one in components for _, older in one], np.bool_)
    records = records_of(
        root=np.repeat(np.arange(100, 100 + len(components), dtype=np.uint64), [len(one) for one in components]),
        precedence=indices.astype(np.uint64) // 3 + np.where(is_older, 0, FIRST_OF_OURS).astype(np.uint64),
        id=np.char.mod("%05d", indices).astype("S5"),
        document=documents,
        start=starts,
        shingles=shingles,
    )
    for writer in (0, 1):
        own = records[np.argsort(documents)][writer::2]
        out = TaskOutput(folder, "components", writer)
        send(out, "x", own, np.zeros(own.size, np.int64))
        out.done({})
    return records


def chosen(folder, components, threshold, memory_bytes=10**7):
    """Returns the index of each document's survivor and the similarity, and the number of comparisons."""
    records = hand_on(folder, components)
    found = list(select_survivors(TaskOutput(folder, "survivors", 0), "components/x", 2, threshold, memory_bytes))
    assert [one for part in found for one in part.records["id"].tolist()] == records["id"].tolist()
    assert sum(one.components for one in found) == len(components)
    before = np.cumsum([0, *(one.records.size for one in found)])
    kept = [index + start for one, start in zip(found, before, strict=False) for index in one.survivors.tolist()]
    similarity = [value for one in found for value in one.similarity.tolist()]
    return list(zip(kept, similarity, strict=True)), sum(one.compared for one in found)


SETS = st.sets(st.integers(0, 12), min_size=1) | st.sets(st.integers(0, 40), min_size=20)
COMPONENTS = st.lists(st.lists(st.tuples(SETS, st.just(False)), min_size=1, max_size=12), max_size=4)


@pytest.mark.parametrize("memory_bytes", [1, 10_000, 10**7])
@settings(max_examples=15)
@given(COMPONENTS, st.lists(SETS, max_size=3), st.sampled_from([0.1, 0.3, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0]))
def test_equals_comparing_with_all_kept_documents(memory_bytes, components, older, threshold):
    if components:
        components[0] = [(own, True) for own in older] + components[0]
    with tempfile.TemporaryDirectory() as folder:
        found, _ = chosen(Path(folder), components, threshold, memory_bytes)
    expected = []
    for component in components:
        before = len(expected)
        own = walk([one for one, _ in component], [is_older for _, is_older in component], threshold)
        expected += [(index + before, value) for index, value in own]
    assert found == expected


def test_large_sets(tmp_path):
    """Chains of similar sets, of which many are kept."""
    generator = np.random.default_rng(1)
    base = generator.choice(10**6, 400, replace=False)
    sets = [set(generator.choice(base, generator.integers(300, 390), replace=False).tolist()) for _ in range(60)]
    found, compared = chosen(tmp_path, [[(own, False) for own in sets]], 0.7)
    assert found == walk(sets, [False] * 60, 0.7)
    assert 0 < sum(survivor != index for index, (survivor, _) in enumerate(found)) < 59
    assert compared < 60 * 59 / 2


def test_a_threshold_times_a_size_that_is_not_quite_whole(tmp_path):
    """0.55 · 100 = 55.00000000000001: the sets share the 55 most common shingles of the larger one."""
    found, _ = chosen(tmp_path, [[(set(range(100)), False), (set(range(55)), False)]], 0.55)
    assert found == [(0, 1.0), (0, 0.55)]


def test_near_duplicates_of_one_cost_one_comparison_each(tmp_path):
    sets = [set(range(100)) - {i} for i in range(50)]
    found, compared = chosen(tmp_path, [[(set(range(100)), False)] + [(own, False) for own in sets]], 0.8)
    assert found == [(0, 1.0)] + [(0, 0.99)] * 50
    assert compared == 50


def test_common_shingles_do_not_make_candidates(tmp_path):
    """200 pages share 50 shingles and have 50 of their own (J = 1/3): the prefix has the rare shingles."""
    sets = [set(range(50)) | set(range(100 * i, 100 * i + 50)) for i in range(1, 201)]
    found, compared = chosen(tmp_path, [[(own, False) for own in sets]], 0.8)
    assert found == [(index, 1.0) for index in range(200)]
    assert compared < 200


@pytest.mark.slow
def test_memory_is_bounded(tmp_path):
    """4 MB of sets, 0.7 MB of records in 0.5 MB, and 256 KiB of objects and blocks. (The kernels are loaded first.)"""
    memory_bytes, n = 500_000, 12_000
    chosen(tmp_path, [[({1}, False), ({2}, False)]], 0.8)
    hand_on(tmp_path, [[(set(range(i, i + 40)), False), (set(range(i, i + 41)), False)] for i in range(n // 2)])
    tracemalloc.start()
    try:
        n_removed = sum(
            int((one.survivors != np.arange(one.records.size)).sum())
            for one in select_survivors(TaskOutput(tmp_path, "survivors", 0), "components/x", 2, 0.8, memory_bytes)
        )
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert n_removed == n // 2
    assert peak < memory_bytes + (1 << 18)

import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from data_prep.dedup import selection
from data_prep.dedup.numbering import numbers_of
from data_prep.dedup.selection import STAYS, select
from data_prep.dedup.verification import ShingleSets
from pipeline.core.artifact import TaskOutput


def slow(one, two):
    return len(one & two) / len(one | two)


def walk(sets, is_older, threshold):
    """Place of the survivor of each set and the similarity with it, every set compared with all that stay."""
    stays, found = [], []
    for place, own in enumerate(sets):
        similar = [] if is_older[place] else [other for other in stays if slow(own, sets[other]) >= threshold]
        best = max(similar, key=lambda other: slow(own, sets[other]), default=STAYS)
        found.append((best, 1.0 if best == STAYS else slow(own, sets[best])))
        if best == STAYS:
            stays.append(place)
    return found


def selected(folder, components, threshold):
    """``select`` of components: lists of (set, is older). The documents lie in two shards, in reverse order."""
    sets = [np.array(sorted(own), dtype=np.uint64) for component in components for own, _ in component]
    rows = np.arange(len(sets))[::-1].copy()
    documents = numbers_of(0, rows // 2) | numbers_of(1, rows // 2) * (rows % 2).astype(np.uint64)
    for shard in (0, 1):
        places = np.flatnonzero(rows % 2 == shard)[::-1]
        ShingleSets.of(documents[places], [sets[i] for i in places]).write(TaskOutput(folder, "sets", shard))
    sizes = [len(component) for component in components]
    component = np.repeat(np.arange(100, 100 + len(sizes), dtype=np.uint64), sizes)
    is_older = np.array([older for one in components for _, older in one], dtype=np.bool_)
    found, similarity, compared = select(TaskOutput(folder, "x", 0), component, documents, is_older, threshold)
    return list(zip(found.tolist(), similarity.tolist(), strict=True)), compared


SETS = st.sets(st.integers(0, 12), min_size=1) | st.sets(st.integers(0, 40), min_size=20)
COMPONENTS = st.lists(st.lists(st.tuples(SETS, st.just(False)), min_size=1, max_size=12), max_size=4)


@pytest.mark.parametrize("batch_shingles", [1, 60, 1 << 24])
@settings(max_examples=60)
@given(COMPONENTS, st.lists(SETS, max_size=3), st.sampled_from([0.1, 0.3, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0]))
def test_like_comparing_with_all_that_stay(batch_shingles, components, older, threshold):
    if components:
        components[0] = [(own, True) for own in older] + components[0]
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(selection, "BATCH_SHINGLES", batch_shingles)
        found, _ = selected(Path(folder), components, threshold)
    expected = []
    for component in components:
        before = len(expected)
        own = walk([one for one, _ in component], [is_older for _, is_older in component], threshold)
        expected += [(place if place == STAYS else place + before, value) for place, value in own]
    assert found == expected


def test_large_sets(tmp_path):
    """Chains of similar sets, with many that stay."""
    generator = np.random.default_rng(1)
    base = generator.choice(10**6, 400, replace=False)
    sets = [set(generator.choice(base, generator.integers(300, 390), replace=False).tolist()) for _ in range(60)]
    found, compared = selected(tmp_path, [[(own, False) for own in sets]], 0.7)
    assert found == walk(sets, [False] * 60, 0.7)
    assert 0 < sum(place != STAYS for place, _ in found) < 59
    assert compared < 60 * 59 / 2


def test_a_threshold_times_a_size_that_is_not_quite_whole(tmp_path):
    """0.55 · 100 = 55.00000000000001: what the sets share are the last 55 of the larger one, the commonest."""
    found, _ = selected(tmp_path, [[(set(range(100)), False), (set(range(55)), False)]], 0.55)
    assert found == [(STAYS, 1.0), (0, 0.55)]


def test_near_duplicates_of_one_cost_one_comparison_each(tmp_path):
    sets = [set(range(100)) - {i} for i in range(50)]
    found, compared = selected(tmp_path, [[(set(range(100)), False)] + [(own, False) for own in sets]], 0.8)
    assert found == [(STAYS, 1.0)] + [(0, 0.99)] * 50
    assert compared == 50


def test_common_shingles_do_not_make_strangers_candidates(tmp_path):
    """200 pages with the same 50 shingles around 50 of their own (J = 1/3): the rarest shingles tell them apart."""
    sets = [set(range(50)) | set(range(100 * i, 100 * i + 50)) for i in range(1, 201)]
    found, compared = selected(tmp_path, [[(own, False) for own in sets]], 0.8)
    assert found == [(STAYS, 1.0)] * 200
    assert compared < 200

"""The estimates of an audit against corpora whose truth is known, against closed forms, and at the edges."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.pipeline.core.statistics import Estimate
from headrace.pipeline.documents.audit_estimates import (
    MarkedStratum,
    bad_share,
    complement,
    scaled,
    share_of_sum,
    total,
)

CORPUS = {"few_words": (400, 320), "language": (900, 860), "kept": (3000, 150)}
"""Stratum → its documents and how many of them are bad."""


def drawn(rng: random.Random, documents: int, bad: int, number: int) -> MarkedStratum:
    """A simple random sample without replacement, by brute force."""
    marked_bad = sum(page < bad for page in rng.sample(range(documents), number))
    return MarkedStratum(documents, number - marked_bad, marked_bad)


def covered(interval: Estimate, truth: float) -> bool:
    return interval.low - 1e-12 <= truth <= interval.high + 1e-12


def test_intervals_hold_the_truth_of_a_corpus_as_often_as_they_say() -> None:
    rng, runs = random.Random(5), 1500
    hits = dict.fromkeys(("precision", "recall", "all", "bad pages"), 0)
    recalls = []
    all_bad = sum(bad for _, bad in CORPUS.values())
    for _ in range(runs):
        strata = {name: drawn(rng, *sizes, 60) for name, sizes in CORPUS.items()}
        bad = {name: scaled(bad_share(stratum), stratum.documents) for name, stratum in strata.items()}
        hits["precision"] += covered(bad_share(strata["few_words"]), 320 / 400)
        recall = share_of_sum(bad["few_words"], total([bad["language"], bad["kept"]]))
        recalls.append(recall.value)
        hits["recall"] += covered(recall, 320 / all_bad)
        every_rule = share_of_sum(total([bad["few_words"], bad["language"]]), bad["kept"])
        hits["all"] += covered(every_rule, 1180 / all_bad)
        hits["bad pages"] += covered(total(list(bad.values())), all_bad)
    assert all(0.93 <= number / runs <= 0.98 for number in hits.values()), hits
    assert sum(recalls) / runs == pytest.approx(320 / all_bad, abs=0.005)


def test_intervals_hold_the_truth_where_kept_pages_are_hardly_ever_bad() -> None:
    """The normal interval has no width in the many samples without a bad kept page."""
    rng, runs, hits = random.Random(6), 1000, 0
    for _ in range(runs):
        dropped, kept = drawn(rng, 500, 450, 30), drawn(rng, 5000, 50, 30)
        recall = share_of_sum(scaled(bad_share(dropped), 500), scaled(bad_share(kept), 5000))
        hits += covered(recall, 450 / 500)
    assert hits / runs >= 0.93


def test_a_stratum_that_is_marked_whole_has_no_error() -> None:
    assert bad_share(MarkedStratum(8, 6, 2)) == Estimate(0.25, 0.25, 0.25)
    assert bad_share(MarkedStratum(1, 0, 1)) == Estimate(1, 1, 1)
    assert bad_share(MarkedStratum(5, 0, 0)) is None
    whole = share_of_sum(Estimate(2, 2, 2), Estimate(6, 6, 6))
    assert (whole.value, whole.low, whole.high) == pytest.approx((0.25, 0.25, 0.25))


def test_the_interval_of_a_share_narrows_to_the_whole_stratum() -> None:
    """Wilson for 3 of 4 of an endless stratum, by hand; then smaller strata."""
    endless = bad_share(MarkedStratum(10**9, 1, 3))
    assert (endless.low, endless.high) == pytest.approx((0.30064, 0.95441), abs=1e-5)
    widths = [share.high - share.low for n in (1000, 20, 6, 5, 4) if (share := bad_share(MarkedStratum(n, 1, 3)))]
    assert widths == sorted(widths, reverse=True)


def test_shares_of_sums_at_the_edges() -> None:
    none, some = Estimate(0, 0, 3), Estimate(4, 1, 6)
    assert share_of_sum(Estimate(0, 0, 0), Estimate(0, 0, 0)) is None
    assert share_of_sum(none, Estimate(0, 0, 2)) is None
    zero = share_of_sum(none, some)
    assert (zero.value, zero.low) == (0, 0)
    assert 0 < zero.high < 1
    everything = share_of_sum(some, none)
    assert (everything.value, everything.high) == (1, 1)
    assert everything.low == pytest.approx(1 - zero.high)


@given(st.lists(st.tuples(st.integers(1, 40), st.integers(0, 20), st.integers(0, 20)), min_size=2, max_size=2))
def test_a_share_and_that_of_the_others_add_up(sizes: list[tuple[int, int, int]]) -> None:
    strata = [MarkedStratum(good + bad + more, good, bad) for more, good, bad in sizes]
    if not all(stratum.good + stratum.bad for stratum in strata):
        return
    bad = [scaled(bad_share(stratum), stratum.documents) for stratum in strata]
    own, others = share_of_sum(bad[0], bad[1]), share_of_sum(bad[1], bad[0])
    if own is None:
        assert others is None
        return
    assert 0 <= own.low <= own.value + 1e-12
    assert own.value <= own.high + 1e-12 <= 1 + 2e-12
    mirrored = complement(others)
    assert (own.value, own.low, own.high) == pytest.approx((mirrored.value, mirrored.low, mirrored.high), abs=1e-6)

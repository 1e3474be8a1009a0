"""Measures against their definitions by brute force: all pairs, all thresholds, all bins."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binomtest

from headrace.data_prep.classifiers.judgement import (
    SHARES,
    auc,
    judged,
    share_of,
)

LABELLED = st.lists(
    st.tuples(st.sampled_from([0.0, 0.1, 0.25, 0.5, 0.75, 1.0]), st.booleans()), min_size=1, max_size=40
)


def arrays(rows):
    return np.array([score for score, _ in rows]), np.array([own for _, own in rows], np.bool_)


@given(LABELLED)
def test_the_area_counts_pairs_in_the_right_order(rows):
    scores, is_own = arrays(rows)
    pairs = list(itertools.product(scores[is_own], scores[~is_own]))
    area = auc(scores, is_own)
    if not pairs:
        assert math.isnan(area.value)
        assert math.isnan(area.low)
        return
    assert area.value == pytest.approx(sum((a > b) + (a == b) / 2 for a, b in pairs) / len(pairs))
    assert area.low <= area.value <= area.high


def test_the_interval_is_that_of_many_draws():
    """DeLong's standard error is the standard deviation of the area over samples of the same distribution."""
    generator = np.random.default_rng(0)
    areas, errors = [], []
    for _ in range(400):
        is_own = np.arange(120) < 50
        area = auc(generator.normal(is_own * 1.0, 1.0), is_own)
        areas.append(area.value)
        errors.append((area.high - area.value) / 1.959964)
    assert np.mean(errors) == pytest.approx(np.std(areas), rel=0.1)


@given(LABELLED)
def test_a_class_is_judged_by_each_threshold(rows):
    scores, is_own = arrays(rows)
    own = judged(np.stack([1 - scores, scores], axis=1), is_own.astype(int), ("a", "b")).classes[1]
    share_at = {score: (scores >= score).mean() for score in scores.tolist()}
    expected = (min((score for score, kept in share_at.items() if kept <= share), default=None) for share in SHARES)
    assert [row.score for row in own.thresholds] == list(dict.fromkeys(row for row in expected if row is not None))
    for row in own.thresholds:
        kept = scores >= row.score
        assert row.share == pytest.approx(kept.mean())
        assert row.precision == pytest.approx(is_own[kept].mean())
        assert row.recall == pytest.approx(kept[is_own].mean() if is_own.any() else math.nan, nan_ok=True)
        assert row.others == pytest.approx(kept[~is_own].mean() if not is_own.all() else math.nan, nan_ok=True)
    if is_own.any():
        steps = [(is_own[scores >= s].mean(), is_own[scores == s].sum() / is_own.sum()) for s in set(scores.tolist())]
        assert own.average_precision == pytest.approx(sum(precision * gain for precision, gain in steps))


@given(st.lists(st.tuples(st.floats(0, 1), st.booleans()), min_size=1, max_size=60))
def test_the_calibration_error_is_that_of_bins(rows):
    scores, is_own = arrays(rows)
    probabilities = np.stack([1 - scores, scores], axis=1)
    confidences, is_right = probabilities.max(axis=1), probabilities.argmax(axis=1) == is_own
    bins = [min(int(value * 10), 9) for value in confidences.tolist()]
    total = 0.0
    for number in set(bins):
        inside = [index for index, own in enumerate(bins) if own == number]
        total += len(inside) / len(rows) * abs(is_right[inside].mean() - confidences[inside].mean())
    judgement = judged(probabilities, is_own.astype(int), ("a", "b"))
    assert judgement.calibration_error == pytest.approx(total)
    assert judgement.accuracy.value == pytest.approx(is_right.mean())
    assert judgement.baseline == pytest.approx(max(is_own.mean(), 1 - is_own.mean()))


@pytest.mark.parametrize(("successes", "number"), [(0, 5), (5, 5), (7, 20), (900, 1000)])
def test_shares_have_wilsons_interval(successes, number):
    theirs = binomtest(successes, number).proportion_ci(method="wilson")
    ours = share_of(successes, number)
    assert (ours.value, ours.low, ours.high) == pytest.approx((successes / number, theirs.low, theirs.high), abs=1e-9)


def test_no_text_and_one_class_are_judged():
    nothing = judged(np.zeros((0, 2)), np.zeros(0, np.int64), ("a", "b"))
    assert nothing.texts == 0
    assert math.isnan(nothing.accuracy.value)
    assert nothing.classes[0].thresholds == ()
    one = judged(np.array([[0.2, 0.8]]), np.array([1]), ("a", "b"))
    assert (one.accuracy.value, one.classes[1].texts, one.calibration_error) == (1.0, 1, pytest.approx(0.2))
    assert math.isnan(one.classes[0].auc.value)

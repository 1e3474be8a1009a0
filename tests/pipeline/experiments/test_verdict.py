"""Verdicts on claims from planted values."""

import math

import numpy as np
import pytest
from scipy.stats import ttest_1samp

from headrace.pipeline.core.statistics import mean_interval, wilson
from headrace.pipeline.experiments.measures import Measured, decided, difference, interval


def of(*values: float, **more) -> dict[int, Measured]:
    return {seed: Measured(value, **more) for seed, value in enumerate(values)}


LOW, HIGH, WIDE = of(1.0, 1.1, 1.2), of(2.0, 2.1, 2.3), of(0.5, 1.1, 3.0)
FOUND = {"low": LOW, "high": HIGH, "wide": WIDE, "none": {}, "one": of(1.0)}


@pytest.mark.parametrize(
    ("rising", "by", "verdict"),
    [
        (["low", "high"], 0.0, "confirmed"),
        (["high", "low"], 0.0, "contradicted"),
        (["low", "wide"], 0.0, "undecided"),
        (["low", "high"], 1.0, "undecided"),
        (["low", "high"], 2.0, "contradicted"),
        (["high", "low"], -1.5, "confirmed"),
        ([0.5, "low", 1.9, "high"], 0.0, "undecided"),
        ([0.5, "low", 1.5, "high"], 0.0, "confirmed"),
        (["wide", "high", "low"], 0.0, "contradicted"),
        (["low", "none"], 0.0, "no result"),
        (["one", "high"], 0.0, "undecided"),
    ],
)
def test_a_claim_is_decided_by_intervals_over_seeds(rising, by, verdict):
    assert decided("", rising, by, FOUND).verdict == verdict


def test_the_interval_is_that_of_a_paired_t_test():
    first, second = np.array([1.0, 1.3, 1.1, 0.9]), np.array([1.4, 1.5, 1.9, 1.0])
    (step,) = decided("", ["a", "b"], 0.0, {"a": of(*first), "b": of(*second)}).steps
    expected = ttest_1samp(second - first, 0).confidence_interval(0.95)
    assert step.over_seeds == pytest.approx((expected.low, expected.high), rel=1e-12)
    assert mean_interval([1.0]) is None


def test_seeds_that_one_arm_lacks_are_left_out():
    (step,) = decided("", ["a", "b"], 0.0, {"a": of(1.0, 5.0, 1.0), "b": {0: Measured(2.0), 2: Measured(2.5)}}).steps
    assert (step.seeds, step.difference) == (2, 1.25)


def test_a_difference_is_paired_by_seed_and_has_no_chance():
    gap = difference(of(3.0, 4.0, 5.5, chance=9.0), {0: Measured(1.0), 2: Measured(2.5), 7: Measured(0.0)})
    assert gap == {0: Measured(2.0), 2: Measured(3.0)}
    assert difference(LOW) is LOW
    verdict = decided("", ["a - b", 4.0], 0.0, {"a - b": gap})
    assert (verdict.steps[0].pair, verdict.steps[0].difference) == ("4.0 − (a - b)", 1.5)


@pytest.mark.parametrize(
    ("first", "second", "higher_is_better", "verdict"),
    [
        ((0.49, 0.51, 0.52), (0.50, 0.53, 0.49), True, "at chance"),
        ((0.49, 0.51, 0.52), (0.71, 0.70, 0.72), True, "confirmed"),
        ((5.5, 5.6, 5.7), (5.4, 5.7, 5.8), False, "at chance"),
        ((5.5, 5.6, 5.7), (6.0, 6.1, 6.3), False, "confirmed"),
        ((0.52, 0.53, 0.52), (0.39, 0.40, 0.38), True, "contradicted"),
        ((0.2, 0.3, 0.25), (0.6, 0.62, 0.61), None, "confirmed"),
    ],
)
def test_values_that_are_all_at_chance_count_by_their_difference(first, second, higher_is_better, verdict):
    chance = 5.0 if first[0] > 1 else 0.5
    found = {"a": of(*first, chance=chance, higher_is_better=higher_is_better)}
    found["b"] = of(*second, chance=chance, higher_is_better=higher_is_better)
    assert decided("", ["a", "b"], 0.0, found).verdict == verdict


@pytest.mark.parametrize(
    ("rising", "by", "verdict", "steps"),
    [
        (["guess", "luck"], -0.1, "at chance", ["at chance"]),
        (["guess", "luck", "known"], -0.1, "undecided", ["at chance", "confirmed"]),
        (["known", "luck", "guess"], -0.1, "contradicted", ["contradicted", "at chance"]),
        (["unlucky", "luck", "known"], 0.0, "confirmed", ["confirmed", "confirmed"]),
        (["luck", "known"], -0.1, "confirmed", ["confirmed"]),
    ],
)
def test_two_values_at_chance_are_not_confirmed_as_not_worse(rising, by, verdict, steps):
    """A difference beyond its interval counts all the same: a model that overfits is worse than a guess."""
    values = {"guess": (0.49, 0.51, 0.5), "luck": (0.5, 0.52, 0.49), "known": (0.8, 0.81, 0.83)}
    values["unlucky"] = (0.31, 0.3, 0.29)
    found = {name: of(*each, chance=0.5, higher_is_better=True) for name, each in values.items()}
    decision = decided("", rising, by, found)
    assert (decision.verdict, [step.verdict for step in decision.steps]) == (verdict, steps)


@pytest.mark.parametrize(
    ("right", "n"),
    [((1.0, 1.0, 0.8), None), ((0.0, 0.0, 0.0), 30), ((1.0, 1.0, 1.0), 30), ((0.5, 0.5, 0.5), 30)],
)
def test_the_interval_of_a_share_stays_within_0_and_1(right, n):
    """Of equal seeds it is Wilson's of all items; else it is that of as many as vary so."""
    by_seed = {
        seed: Measured(share, items={str(item): (float(item < 10 * share), 1.0) for item in range(10)})
        for seed, share in enumerate(right)
    }
    low, high = interval(by_seed)
    assert 0 <= low < high <= 1
    if n:
        assert (low, high) == wilson(right[0], n)
    else:
        assert low < wilson(np.mean(right), 30)[0]
    assert interval(of(*right)) == mean_interval(right), "without items it may be any number"


def with_items(values: list[float], shift: float) -> dict[int, Measured]:
    items = {str(number): (value + shift, 1.0) for number, value in enumerate(values)}
    return {seed: Measured(float(np.mean(values)) + shift + seed / 100, items=items) for seed in range(3)}


@pytest.mark.parametrize(("noise", "verdict"), [(0.1, "confirmed"), (30.0, "undecided")])
def test_documents_must_agree_with_the_seeds(noise, verdict):
    generator = np.random.default_rng(0)
    first, others = generator.normal(0, 1, 50), generator.normal(0, noise, 50)
    second = first + others - others.mean()
    one = decided("", ["a", "b"], 0.0, {"a": with_items([*first], 0.0), "b": with_items([*second], 1.0)})
    (step,) = one.steps
    assert one.verdict == verdict
    assert math.isclose(step.difference, 1.0, rel_tol=1e-9)
    low, high = step.over_items
    standard_error = np.std(second - first) / math.sqrt(50)
    assert (low, high) == pytest.approx(
        (1 - 1.96 * standard_error, 1 + 1.96 * standard_error), abs=0.1 * standard_error
    )

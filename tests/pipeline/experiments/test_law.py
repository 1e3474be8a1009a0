"""The law of the loss: planted constants are recovered, within their intervals where there is noise."""

import numpy as np
import pytest

from headrace.pipeline.experiments import law
from headrace.pipeline.experiments.law import Law, LossMeasurement, fit, interval, is_enough, resampled
from tests.pipeline.experiments.planted import LAW, SIZES, TOKENS, points

NAMES = ("floor", "a", "alpha", "b", "beta")


def test_a_law_without_noise_is_recovered():
    found = fit(points())
    assert [getattr(found, name) for name in NAMES] == pytest.approx([getattr(LAW, name) for name in NAMES], rel=1e-4)


def test_the_gradient_is_that_of_the_objective():
    data = np.log(np.array(points(0.01), np.float64))
    start = np.array([0.1, 0.3, 0.4, 0.5, 0.2])
    _, gradient = law._objective(start, data)
    for index in range(5):
        ends = [law._objective(start + sign * 1e-6 * np.eye(5)[index], data)[0] for sign in (1, -1)]
        assert gradient[index] == pytest.approx((ends[0] - ends[1]) / 2e-6, rel=1e-4)


def test_the_intervals_hold_the_planted_constants(monkeypatch):
    """95 % intervals of four values in two draws of noise: 7.6 of 8 are expected to hold the truth."""
    monkeypatch.setattr(law, "RESAMPLES", 25)
    held = 0
    for seed in range(2):
        noisy = points(0.002, seed)
        drawn = resampled(noisy, fit(noisy))
        for of in (lambda one: one.alpha, lambda one: one.beta, lambda one: one.floor,
                   lambda one: one.optimum(1e18).parameters):  # fmt: skip
            low, high = interval([of(one) for one in drawn])
            assert high < 2 * low
            held += low <= of(LAW) <= high
    assert held >= 7


def test_the_optimum_has_the_lowest_loss_of_its_budget():
    best = LAW.optimum(1e18)
    assert 6 * best.parameters * best.tokens == pytest.approx(1e18)
    others = [LAW.loss(size, 1e18 / 6 / size) for size in np.geomspace(best.parameters / 9, best.parameters * 9, 201)]
    assert min(others) == pytest.approx(best.loss, abs=1e-9)
    assert LAW.optimum(1e20).parameters / best.parameters == pytest.approx(100 ** (0.28 / 0.62))


def test_outliers_change_the_law_little():
    """The Huber loss: one diverged training of 25 does not decide the exponents."""
    spoiled = points()
    spoiled[12] = LossMeasurement(*spoiled[12][:2], spoiled[12].loss * 1.5)
    found = fit(spoiled)
    assert (found.alpha, found.beta) == pytest.approx((LAW.alpha, LAW.beta), abs=0.02)


def test_a_law_needs_three_sizes_and_three_token_counts():
    assert is_enough(points())
    assert not is_enough([point for point in points() if point.parameters in SIZES[:2]])
    assert not is_enough([point for point in points() if point.tokens in TOKENS[:2]])


def test_constants_at_a_bound_are_named():
    """Losses with no floor."""
    without = [point._replace(loss=point.loss - LAW.floor) for point in points()]
    assert fit(without).at_bounds() == ["E"]
    assert LAW.at_bounds() == []


def test_resamples_are_the_same_in_every_process(monkeypatch):
    monkeypatch.setattr(law, "RESAMPLES", 2)
    noisy = points(0.01)
    first, second = (resampled(noisy, LAW) for _ in range(2))
    assert first == second
    assert isinstance(first[0], Law)

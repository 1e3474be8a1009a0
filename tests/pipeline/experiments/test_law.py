"""Best rates and the law of the loss: what is planted is recovered, and no rate is claimed outside of the grid."""

import numpy as np
import pytest

from headrace.pipeline.experiments import law
from headrace.pipeline.experiments.law import Law, best_rates, fit, interval, is_enough, rate_law, resampled
from tests.pipeline.experiments.planted import LAW, RATES, SIZES, TOKENS, arms, best_rate, points

NAMES = ("floor", "a", "alpha", "b", "beta")


def test_a_law_without_noise_is_recovered():
    found = fit(points())
    assert [getattr(found, name) for name in NAMES] == pytest.approx([getattr(LAW, name) for name in NAMES], rel=1e-4)


@pytest.mark.slow
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
    spoiled[12] = spoiled[12]._replace(loss=spoiled[12].loss * 1.5)
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


def test_best_rates_without_noise_are_recovered():
    for measured in best_rates(arms()):
        assert measured.is_inside
        assert measured.rate == pytest.approx(best_rate(measured.parameters, measured.tokens), rel=1e-6)
        assert measured.loss == pytest.approx(LAW.loss(measured.parameters, measured.tokens), abs=1e-9)


@pytest.mark.parametrize("kept", [slice(0, 2), slice(3, 5)], ids=["too low", "too high"])
def test_a_best_rate_at_the_edge_is_not_extrapolated(kept):
    wrong = [arm for arm in arms(sizes=SIZES[2:3], tokens=TOKENS[2:3]) if arm.rate in RATES[kept]]
    (found,) = best_rates(wrong)
    assert not found.is_inside
    assert found.rate == min(wrong, key=lambda arm: arm.loss).rate


def test_the_law_of_rates_is_recovered():
    found = rate_law(best_rates(arms(0.0005)))
    assert found[1:] == pytest.approx((-0.5, 0.1), abs=0.05)
    assert found.rate(1e8, 2e9) == pytest.approx(best_rate(1e8, 2e9), rel=0.2)


def test_exponents_that_no_training_varies_are_zero():
    one_length = rate_law(best_rates(arms(tokens=TOKENS[:1])))
    assert one_length[1:] == (pytest.approx(-0.5), 0.0)
    assert rate_law(best_rates(arms(sizes=SIZES[:1], tokens=TOKENS[:1]))) is None
    diagonal = [arm for arm in arms() if SIZES.index(arm.parameters) == TOKENS.index(arm.tokens)]
    assert rate_law(best_rates(diagonal)) is None, "sizes and tokens grow together"

"""Best rates and IsoFLOP profiles: planted optima are recovered, and none is claimed outside of what was measured."""

import math

import pytest

from headrace.pipeline.experiments.optima import FinishedTraining, best_rates, iso_flops, rate_law
from tests.pipeline.experiments.planted import LAW, RATES, SIZES, TOKENS, arms, best_rate


def test_best_rates_without_noise_are_recovered():
    for one in best_rates(arms()):
        assert one.is_inside
        assert one.rate == pytest.approx(best_rate(one.parameters, one.tokens), rel=1e-6)
        assert one.loss == pytest.approx(LAW.loss(one.parameters, one.tokens), abs=1e-9)
        assert one.interval == pytest.approx((one.rate, one.rate), rel=1e-3)


def test_intervals_of_best_rates_hold_the_planted_ones():
    """95 % intervals of 50 rates: 47.5 are expected to hold the truth."""
    held, widths = 0, []
    for seed in range(2):
        for one in best_rates(arms(0.001, seed)):
            assert one.is_inside
            held += one.interval[0] <= best_rate(one.parameters, one.tokens) <= one.interval[1]
            widths.append(one.interval[1] / one.interval[0])
    assert 44 <= held <= 50
    assert max(widths) < 1.5


@pytest.mark.parametrize("kept", [slice(0, 2), slice(3, 5)], ids=["too low", "too high"])
def test_a_best_rate_at_the_edge_is_not_extrapolated(kept):
    wrong = [arm for arm in arms(sizes=SIZES[2:3], tokens=TOKENS[2:3]) if arm.rate in RATES[kept]]
    (found,) = best_rates(wrong)
    assert (found.is_inside, found.interval) == (False, None)
    assert found.rate == min(wrong, key=lambda arm: arm.loss).rate


def test_three_rates_have_a_best_one_without_an_interval():
    three = [arm for arm in arms(sizes=SIZES[:1], tokens=TOKENS[:1]) if arm.rate in RATES[1:4]]
    (found,) = best_rates(three)
    assert found.is_inside
    assert found.interval is None


def test_the_law_of_rates_is_recovered_and_extrapolated():
    found = rate_law(best_rates(arms(0.0005)))
    assert (found.parameters_exponent, found.tokens_exponent) == pytest.approx((-0.5, 0.1), abs=0.05)
    low, high = found.interval(1e8, 2e9)
    assert low < best_rate(1e8, 2e9) < high


def test_exponents_that_no_training_varies_are_zero():
    one_length = rate_law(best_rates(arms(tokens=TOKENS[:1])))
    assert (one_length.parameters_exponent, one_length.tokens_exponent) == (pytest.approx(-0.5), 0.0)
    assert rate_law(best_rates(arms(sizes=SIZES[:1], tokens=TOKENS[:1]))) is None
    diagonal = [arm for arm in arms() if SIZES.index(arm.parameters) == TOKENS.index(arm.tokens)]
    assert rate_law(best_rates(diagonal)) is None, "sizes and tokens grow together"


def test_iso_flop_minima_are_near_those_of_the_law():
    """A parabola through five sizes is only near the law, and linear interpolation lies above it."""
    inside = [one for one in iso_flops(best_rates(arms(tokens=[1e7 * 2**k for k in range(9)]))) if one.parameters]
    assert len(inside) >= 3
    for profile in inside:
        assert profile.parameters == pytest.approx(LAW.optimum(profile.flops).parameters, rel=0.25)


def test_a_grid_without_common_operations_has_no_profile():
    assert iso_flops(best_rates(arms(tokens=TOKENS[:1]))) == []
    assert iso_flops(best_rates(arms(sizes=SIZES[:2]))) == []
    rising = [FinishedTraining(n, 1e7, 1e-3, 6e13, 3 + math.log(n / 1e6)) for n in SIZES]
    (profile,) = iso_flops(best_rates(rising))
    assert profile.parameters is None, "the smallest size is the best"

"""Hand-computed tests of differences, and the bootstrap against the normal approximation."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.pipeline.core.statistics import RESAMPLES, compared, holm, mark, mcnemar, paired_bootstrap


@pytest.mark.parametrize(
    ("first", "second", "p"),
    [(0, 0, 1), (5, 5, 1), (0, 5, 2 / 32), (1, 9, 2 * (1 + 10) / 1024), (2, 6, 2 * (1 + 8 + 28) / 256), (0, 1, 1)],
)
def test_mcnemar_by_hand(first, second, p):
    assert mcnemar(first, second) == mcnemar(second, first) == p


@given(st.integers(0, 400), st.integers(0, 400))
def test_mcnemar_is_the_binomial_tail(first, second):
    n = first + second
    tail = sum(math.comb(n, k) for k in range(min(first, second) + 1))
    assert mcnemar(first, second) == min(1.0, 2 * tail / 2**n)


def test_mcnemar_of_many():
    assert mcnemar(20_000, 20_000) == 1
    assert 0 < mcnemar(17_000, 17_900) < 1e-5


def test_two_items_by_hand():
    """Means of resamples of (0, 1) are 0, 1/2 and 1 with 1/4, 1/2, 1/4: half are as far from 1/2 as it is from 0."""
    found = paired_bootstrap([3.0, 4.0], [3.0, 5.0])
    assert found.value == 0.5
    assert found.interval == (0, 1)
    assert found.p == pytest.approx(0.5, abs=0.02)


def test_the_same_difference_everywhere_and_none_at_all():
    found = paired_bootstrap([1.0, 2.0, 3.0], [1.5, 2.5, 3.5])
    assert (found.value, found.interval, found.p) == (0.5, (0.5, 0.5), 1 / (1 + RESAMPLES))
    found = paired_bootstrap([1.0, 2.0], [1.0, 2.0])
    assert (found.value, found.interval, found.p) == (0, (0, 0), 1)


def test_the_bootstrap_is_near_the_normal_approximation():
    deltas = np.random.default_rng(3).normal(0.1, 1, 400)
    error = deltas.std(ddof=1) / 20
    found = paired_bootstrap(np.zeros(400), deltas)
    assert found.value == pytest.approx(deltas.mean())
    assert found.interval == pytest.approx((found.value - 1.96 * error, found.value + 1.96 * error), abs=0.01)
    assert found.p == pytest.approx(math.erfc(abs(found.value) / error / math.sqrt(2)), abs=0.02)


def test_the_seed_decides():
    values = list(np.random.default_rng(1).normal(size=30))
    one, same, other = (paired_bootstrap([0.0] * 30, values, seed=seed) for seed in (0, 0, 1))
    assert one == same != other


def test_sizes_weigh():
    found = paired_bootstrap([1.0, 6.0], [2.0, 8.0], [1, 5])
    assert found.value == pytest.approx(3 / 6)
    assert found.interval == pytest.approx((2 / 5, 1))  # both times the second item, both times the first


def test_no_items():
    with pytest.raises(ValueError, match="no items to compare"):
        paired_bootstrap([], [])


def test_right_or_wrong_is_tested_exactly():
    first, second = [1.0] + [0.0] * 9 + [1.0, 0.0], [0.0] + [1.0] * 9 + [1.0, 0.0]
    found = compared(first, second)
    assert found.p == 22 / 1024
    assert found.value == pytest.approx(8 / 12)
    assert found.interval == paired_bootstrap(first, second).interval
    assert compared([0.5, *first], [1.0, *second]).p == mcnemar(1, 10)
    assert compared([0.25, *first], [1.0, *second]).p == paired_bootstrap([0.25, *first], [1.0, *second]).p


def test_holm_by_hand():
    assert holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    assert holm([0.6, 0.5]) == [1, 1]
    assert holm([]) == []


@given(st.lists(st.floats(0, 1), max_size=8))
def test_holm_never_lowers_and_keeps_the_order(p_values):
    adjusted = holm(p_values)
    assert all(p <= one <= 1 for p, one in zip(p_values, adjusted, strict=True))
    in_order = [adjusted[place] for place in sorted(range(len(p_values)), key=p_values.__getitem__)]
    assert in_order == sorted(in_order)


def test_stars():
    assert [mark(p) for p in (0.05, 0.049, 0.0099, 0.0009)] == ["", "*", "**", "***"]

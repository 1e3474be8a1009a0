"""The logistic function is the likeliest one, found by scipy, and its table is that of numpy."""

import numpy as np
import pytest
from scipy.optimize import minimize

from headrace.data_prep.classifiers.probability import CERTAIN, SCALE, Logistic, fitted

UNIT = 2.0**31


def sample(seed: int, steepness: float, offset: float) -> tuple[np.ndarray, np.ndarray]:
    """Margins that lie on the steps, and classes drawn with the probabilities of a logistic function."""
    generator = np.random.default_rng(seed)
    margins = np.round(generator.normal(0, 1, 600) * 64) / 64
    return margins, generator.random(600) < 1 / (1 + np.exp(-(steepness * margins + offset)))


@pytest.mark.parametrize(("steepness", "offset"), [(1.0, 0.0), (4.0, -1.0), (0.5, 2.0)])
def test_the_fit_is_the_likeliest_one(steepness, offset):
    margins, is_positive = sample(1, steepness, offset)
    n = is_positive.sum()
    targets = np.where(is_positive, (n + 1) / (n + 2), 1 / (len(margins) - n + 2))

    def loss(x):
        z = x[0] * margins + x[1]
        return np.sum(np.logaddexp(0, z) - targets * z)

    best = minimize(loss, [0.0, 0.0], tol=1e-12).x
    logistic = fitted((margins * UNIT).astype(np.int64), is_positive)
    assert (logistic.steepness / SCALE, logistic.offset / SCALE) == pytest.approx(tuple(best), abs=1e-4)
    assert (logistic.steepness / SCALE, logistic.offset / SCALE) == pytest.approx((steepness, offset), abs=0.6)


@pytest.mark.parametrize("logistic", [Logistic(), Logistic(4 * SCALE, -SCALE), Logistic(SCALE // 3, 2 * SCALE)])
def test_probabilities_are_those_of_the_function(logistic):
    margins = np.linspace(-7.99, 7.99, 4001)
    expected = 1 / (1 + np.exp(-(logistic.steepness * margins + logistic.offset) / SCALE))
    got = logistic.of((margins * UNIT).astype(np.int64))
    np.testing.assert_allclose(got / CERTAIN, expected, atol=5e-5)  # lines between steps of 1/64
    assert np.all(np.diff(got) >= 0)


def test_margins_beyond_the_table_have_its_last_values():
    low, high = Logistic().of(np.array([-(2**62), 2**62]))
    assert low == Logistic().table[0]
    assert CERTAIN > high >= Logistic().table[-2]


def test_a_perfect_separation_is_not_certain():
    logistic = fitted(np.array([-(2**31), 2**31] * 5), np.array([False, True] * 5))
    low, high = logistic.of(np.array([-(2**31), 2**31])) / CERTAIN
    assert (low, high) == (pytest.approx(1 / 7, abs=1e-3), pytest.approx(6 / 7, abs=1e-3))


@pytest.mark.parametrize("is_positive", [[True, True], [False, False], [True, False], []])
def test_without_evidence_it_is_that_of_the_margin(is_positive):
    """One class, no text, and larger margins of the other class."""
    margins = np.array([-(2**31), 2**31], np.int64)[: len(is_positive)]
    assert fitted(margins, np.array(is_positive, np.bool_)) == Logistic()

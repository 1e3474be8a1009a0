"""The best mixture: a planted law is recovered, noise is not taken for a law."""

import numpy as np
import pytest

from headrace.pipeline.ladder import law
from headrace.pipeline.ladder.mixing_law import MixingLaw, fit, least_trainings, propose, rank_correlation
from headrace.pipeline.ladder.proxies import distinct, drawn, in_parts, shares_of

NATURAL = np.array([0.7, 0.2, 0.1])
PLANTED = MixingLaw(
    np.array([2.5, 2.0, 2.8]), np.array([[-1.2, 0.6, 0.4], [0.5, -1.0, 0.7], [0.3, 0.4, -1.4]])
)  # fmt: skip
"""Three sources that each are learned best from their own text."""
TARGET = np.array([0.5, 0.3, 0.2])
GIVEN = np.array([0.9, 0.05, 0.05])
NOISE = 0.01
"""The deviation of a loss in nats, as that of small trainings with other seeds."""


@pytest.fixture(autouse=True)
def _few_resamples(monkeypatch):
    monkeypatch.setattr(law, "RESAMPLES", 40)


def mixtures(number: int) -> np.ndarray:
    """The first ``number`` of those that a search trains."""
    found = distinct(drawn(NATURAL))
    return np.stack([shares_of(next(found)) for _ in range(number)])


def test_a_planted_law_is_recovered_exactly_without_noise():
    shares = mixtures(8)
    found = fit(shares, PLANTED.losses(shares))
    assert found.losses(np.eye(3)) == pytest.approx(PLANTED.losses(np.eye(3)), abs=1e-6)
    assert found.best(TARGET, np.eye(3)) == pytest.approx(PLANTED.best(TARGET, np.eye(3)), abs=1e-4)


def test_the_best_mixture_is_the_lowest_point_of_a_grid():
    best = PLANTED.best(TARGET, np.eye(3))
    steps = np.linspace(0, 1, 101)
    grid = np.array([(a, b, 1 - a - b) for a in steps for b in steps if a + b <= 1])
    assert best.sum() == pytest.approx(1)
    assert PLANTED.loss(best, TARGET) <= PLANTED.loss(grid, TARGET).min()
    assert best == pytest.approx(grid[PLANTED.loss(grid, TARGET).argmin()], abs=0.01)


def test_with_noise_the_truth_lies_within_the_intervals():
    shares = mixtures(24)
    losses = PLANTED.losses(shares) + np.random.default_rng(0).normal(0, NOISE, shares.shape)
    found = propose(shares, losses, TARGET, GIVEN)
    for share, (low, high) in zip(PLANTED.best(TARGET, shares), found.intervals, strict=True):
        assert low <= share <= high
        assert high - low < 0.4
    gain = PLANTED.loss(GIVEN, TARGET) - PLANTED.loss(found.shares, TARGET)
    assert found.is_better
    assert 0 < found.gain_interval[0] <= gain <= found.gain_interval[1]
    assert rank_correlation(found, losses @ TARGET) > 0.8


@pytest.mark.parametrize("seed", range(2))
def test_of_pure_noise_no_mixture_is_better(seed):
    shares = mixtures(16)
    losses = 4 + np.random.default_rng(seed).normal(0, NOISE, shares.shape)
    found = propose(shares, losses, TARGET, GIVEN)
    assert not found.is_better
    assert found.gain >= -1e-9


def test_the_given_mixture_is_no_better_than_itself():
    shares = np.stack([GIVEN, [0.5, 0.3, 0.2], [0.3, 0.6, 0.1], [0.2, 0.2, 0.6], [0.4, 0.1, 0.5], [0.6, 0.3, 0.1]])
    alone = MixingLaw(np.full(3, 2.0), np.array([[-1.0, 1.0, 1.0]] * 3))
    found = propose(shares, alone.losses(shares), TARGET, GIVEN)
    assert len(shares) == least_trainings(3)
    assert (found.shares == pytest.approx(GIVEN, abs=1e-3), found.gain) == (True, pytest.approx(0, abs=1e-6))
    assert not found.is_better


def test_draws_depend_on_their_number_alone():
    shares = mixtures(40)
    assert (mixtures(12) == shares[:12]).all()
    assert shares[0] == pytest.approx(NATURAL)
    assert shares.mean(axis=0) == pytest.approx(shares_of(np.sqrt(NATURAL)), abs=0.12)
    assert shares[:, 0].min() < 0.1 < 0.9 < shares[:, 0].max()


def test_shares_are_whole_numbers_with_the_sum_1000():
    assert in_parts(np.array([1 / 3, 1 / 3, 1 / 3])) == (334, 333, 333)
    assert in_parts(np.array([0.9996, 0.0004, 0.0])) == (1000, 0, 0)
    assert all(round(share * 1000, 9) % 1 == 0 for share in mixtures(5).ravel())

"""The weights in whole numbers are those of the least objective, found by scipy in floating point."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize

from headrace.data_prep.classifiers.coordinate_descent import (
    MOST_EPOCHS,
    TOLERANCE,
    WEIGHT_BITS,
    CountedTexts,
    descend,
    margins,
    shuffle,
)
from headrace.data_prep.classifiers.counted_ngrams import ONE
from headrace.data_prep.classifiers.linear_training import short
from headrace.pipeline.core.errors import ConfigError

BITS = 10


def sample(seed: int, size: int = 80) -> tuple[CountedTexts, np.ndarray]:
    """Random documents over few buckets, and signs of which some contradict them."""
    generator = np.random.default_rng(seed)
    rows = []
    for _ in range(size):
        buckets = np.sort(generator.choice(20, generator.integers(1, 8), replace=False)).astype(np.int32)
        values = generator.dirichlet(np.ones(buckets.size))
        rows.append((buckets, (np.sqrt(values) * ONE).astype(np.uint16)))
    signs = np.array(
        [1 if (buckets.sum() + generator.integers(-9, 9)) % 40 > 20 else -1 for buckets, _ in rows], np.int8
    )
    return CountedTexts.of(rows), signs


def matrix(documents: CountedTexts) -> np.ndarray:
    """The values of the documents with the constant feature last, in floating point: (documents, buckets + 1)."""
    dense = np.zeros((len(documents), (1 << BITS) + 1))
    for row in range(len(documents)):
        buckets, values = documents.row(row)
        dense[row, buckets] = values / ONE
    dense[:, -1] = 1
    return dense


def objective(weights: np.ndarray, dense: np.ndarray, signs: np.ndarray, cost: float) -> tuple[float, np.ndarray]:
    """The loss that is made small, and its gradient."""
    slack = np.maximum(0, 1 - signs * (dense @ weights))
    return weights @ weights / 2 + cost * (slack @ slack), weights - 2 * cost * dense.T @ (signs * slack)


@pytest.mark.parametrize("cost", [0.1, 1.0, 4.0])
def test_the_weights_are_those_of_the_least_objective(cost):
    documents, signs = sample(1)
    dense = matrix(documents)
    result = descend(documents, signs, BITS, cost, seed=0)
    weights = result.weights / 2.0**WEIGHT_BITS
    loss, gradient = objective(weights, dense, signs, cost)
    least = minimize(objective, np.zeros(dense.shape[1]), (dense, signs, cost), jac=True, method="L-BFGS-B", tol=1e-12)
    assert result.gradient <= TOLERANCE
    assert result.epochs < MOST_EPOCHS
    assert least.fun <= loss * (1 + 1e-9) <= least.fun * 1.0001
    assert np.abs(weights - least.x).max() < 0.02 * np.abs(least.x).max()
    assert np.all(np.abs(gradient) <= 2 * cost * 0.01 * np.abs(dense).sum(axis=0))  # each slack is right to 0.01


def test_weights_are_sums_of_signed_documents():
    """w = Σ α y x with α ≥ 0: the multipliers that explain the weights are not negative."""
    documents, signs = sample(2, 12)
    weights = descend(documents, signs, BITS, 1.0, seed=3).weights / 2.0**WEIGHT_BITS
    dense = matrix(documents)
    slack = np.maximum(0, 1 - signs * (dense @ weights))
    np.testing.assert_allclose(weights, dense.T @ (2 * slack * signs), atol=0.1)


def test_margins_are_products():
    documents, signs = sample(4)
    weights = short(descend(documents, signs, BITS, 1.0, seed=0).weights)[:, None]
    np.testing.assert_allclose(
        margins(documents, weights) / 2.0**31, matrix(documents) @ (weights / 2.0**16), rtol=1e-12
    )


def test_the_largest_weights_stay_in_64_bits():
    """Copies of one text with both signs at the largest cost move the multipliers furthest; the end is not reached."""
    row = (np.array([3], np.int32), np.array([ONE], np.uint16))
    documents = CountedTexts.of([row] * 40)
    signs = np.array([1, -1] * 19 + [1, 1], np.int8)
    result = descend(documents, signs, BITS, 1024.0, seed=0)
    weights = result.weights / 2.0**WEIGHT_BITS
    assert weights[3] == weights[-1]
    assert 1 / 20 <= weights @ matrix(documents)[0] <= np.sqrt(2) * np.sqrt(2 * 1024 * 40)
    assert (result.epochs, result.gradient > TOLERANCE) == (MOST_EPOCHS, True)


@given(st.integers(0, 2**63), st.integers(1, 50))
def test_a_shuffle_has_all_numbers(seed, size):
    order = np.arange(size)
    shuffle(order, np.array([seed], np.uint64))
    assert sorted(order.tolist()) == list(range(size))


def test_splitmix_is_that_of_its_authors():
    """The first numbers of seed 1234567 (prng.di.unimi.it/splitmix64.c, as Rosetta Code lists them)."""
    state, numbers = np.array([1234567], np.uint64), (6457827717110365317, 3203168211198807973)
    order = np.arange(3)
    shuffle(order, state)
    expected = [0, 1, 2]
    for last, number in zip((2, 1), numbers, strict=True):
        place = number % (last + 1)
        expected[last], expected[place] = expected[place], expected[last]
    assert order.tolist() == expected


@pytest.mark.parametrize(
    ("cost", "message"),
    [
        (0.0, "--cost: is 0; give a number from 0.000976562 to 1024"),
        (5000.0, "--cost: is 5000; give a number from 0.000976562 to 1024"),
    ],
)
def test_wrong_costs_are_refused(cost, message):
    documents, signs = sample(1)
    with pytest.raises(ConfigError) as caught:
        descend(documents, signs, BITS, cost, seed=0)
    assert str(caught.value) == message


def test_too_many_documents_for_the_cost_are_refused():
    documents = CountedTexts(np.zeros(2**20 + 1, np.int64), np.zeros(0, np.int32), np.zeros(0, np.uint16))
    with pytest.raises(ConfigError, match="1024 times 1,048,576 documents is above 536,870,912; give a lower cost"):
        descend(documents, np.ones(2**20, np.int8), BITS, 1024.0, seed=0)

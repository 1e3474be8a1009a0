"""Training of a linear classifier in whole numbers: the same bytes on any machine, with any number of threads.

    documents x, signs y (1, -1) ── descend ──> weights w        of least ½|w|² + cost · Σ max(0, 1 - y w·x)²

Dual coordinate descent for the squared hinge loss (Hsieh et al. 2008, "A dual coordinate descent method for large-scale
linear SVM", algorithm 1; LIBLINEAR's solver 1): each document has a multiplier α ≥ 0, w = Σ α y x, and the best α of
one document, with the others as they are, is a division. There is no learning rate, and the result is that of a convex
problem: the order of the documents, which a seed chooses in each epoch, changes only how soon it is reached.

Numbers are whole: values in parts of 2^15, multipliers and margins in parts of 2^20, weights in parts of 2^35, and
their products in parts of 2^38. None exceeds 64 bits: the dual objective grows with each step from 0, so |w|² is at
most 2 · cost · documents, which is below 2^30 (``check_cost``); so |w·x| ≤ √2 · 2^15 and α ≤ 2 cost (1 + |w·x|).
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headrace.data_prep.classifiers.counted_ngrams import ONE, ONE_BITS, TextFeatures
from headrace.data_prep.kernel import int64, kernel, kernel_in_threads
from headrace.pipeline.core.errors import ConfigError

PRECISION_BITS = 20
PRECISION = 1 << PRECISION_BITS
"""Multipliers and margins are in parts of it."""
WEIGHT_BITS = PRECISION_BITS + ONE_BITS
SPARED_BITS = 12
"""Bits that a weight loses before it is multiplied, so that sums fit into 64."""
TOLERANCE = PRECISION // 100
"""The training ends when no gradient of an epoch is larger than 0.01."""
MOST_EPOCHS = 200
COSTS = (2.0**-10, 2.0**10)
"""The least and the largest cost."""
MOST_COST_OF_ALL = 2.0**29
"""The largest product of the cost and the documents."""


@dataclass(frozen=True)
class CountedTexts:
    """The features of documents, one after the other."""

    starts: NDArray[np.int64]
    """The offset of each document in the other arrays, and the end of the last one: (documents + 1,)."""
    buckets: NDArray[np.int32]
    values: NDArray[np.uint16]
    """In parts of ONE."""

    @classmethod
    def of(cls, rows: "list[TextFeatures]") -> "CountedTexts":
        starts = np.zeros(len(rows) + 1, np.int64)
        np.cumsum([buckets.size for buckets, _ in rows], out=starts[1:])
        parts = [np.concatenate(column) if rows else np.zeros(0) for column in zip(*rows, strict=True)]
        buckets, values = parts or (np.zeros(0), np.zeros(0))
        return cls(starts, buckets.astype(np.int32, copy=False), values.astype(np.uint16, copy=False))

    def __len__(self) -> int:
        return self.starts.size - 1

    def chosen(self, rows: NDArray[np.int64]) -> "CountedTexts":
        """Returns the documents ``rows``, in their order."""
        return CountedTexts.of([self.row(row) for row in rows.tolist()])

    def row(self, number: int) -> TextFeatures:
        """Returns the features of document ``number``."""
        part = slice(self.starts[number], self.starts[number + 1])
        return self.buckets[part], self.values[part]


@dataclass(frozen=True)
class Descent:
    """The result of a training."""

    weights: NDArray[np.int64]
    """The weight of each bucket, and last that of a feature of value 1 that all documents have: (buckets + 1,), in
    parts of 2^35."""
    epochs: int
    gradient: int
    """The largest gradient of the last epoch, in parts of PRECISION; above TOLERANCE: it did not converge."""


def check_cost(cost: float, documents: int) -> None:
    """Checks that the weights of ``documents`` stay within their bits.

    Raises:
        ConfigError: when they may not, or the cost is out of its range.
    """
    least, largest = COSTS
    if not least <= cost <= largest:
        raise ConfigError("--cost", f"is {cost:g}", f"give a number from {least:g} to {largest:g}")
    if cost * documents > MOST_COST_OF_ALL:
        problem = f"{cost:g} times {documents:,} documents is above {MOST_COST_OF_ALL:,.0f}"
        raise ConfigError("--cost", problem, "give a lower cost, or fewer documents")


def descend(documents: CountedTexts, signs: NDArray[np.int8], bucket_bits: int, cost: float, seed: int) -> Descent:
    """Returns the weights that separate the documents of sign 1 from those of sign -1: (documents,).

    Raises:
        ConfigError: when ``cost`` is out of its range.
    """
    check_cost(cost, len(documents))
    weights = np.zeros((1 << bucket_bits) + 1, np.int64)
    ridge = round(PRECISION / (2 * cost))
    state = np.array([seed], np.uint64)
    columns = (documents.starts, documents.buckets, documents.values)
    epochs, gradient = _descend(*columns, signs, weights, ridge, state)
    return Descent(weights, epochs, gradient)


@kernel_in_threads
def _descend(
    starts: NDArray[np.int64], buckets: NDArray[np.int32], values: NDArray[np.uint16], signs: NDArray[np.int8],
    weights: NDArray[np.int64], ridge: int, state: NDArray[np.uint64],
) -> tuple[int, int]:  # pragma: no cover (compiled)  # fmt: skip
    """Changes ``weights`` and ``state``, and returns the number of epochs and the largest gradient of the last one."""
    order, multipliers = np.arange(signs.size), np.zeros(signs.size, np.int64)
    curvatures = np.full(signs.size, PRECISION + ridge, np.int64)
    for number in range(signs.size):
        square = 0
        for index in range(starts[number], starts[number + 1]):
            square += int64(values[index]) * int64(values[index])
        curvatures[number] += square >> (2 * ONE_BITS - PRECISION_BITS)
    largest = int64(0)
    for epoch in range(MOST_EPOCHS):
        shuffle(order, state)
        largest = int64(0)
        for row in order:
            begin, end, sign, multiplier = starts[row], starts[row + 1], int64(signs[row]), int64(multipliers[row])
            margin = decision(buckets, values, weights, begin, end)
            gradient = sign * margin - PRECISION + ((multiplier * ridge) >> PRECISION_BITS)
            if multiplier == 0:
                gradient = min(gradient, 0)
            largest = max(largest, abs(gradient))
            best = max(multiplier - (gradient << PRECISION_BITS) // int64(curvatures[row]), 0)
            change = sign * (best - multiplier)
            multipliers[row] = best
            if change != 0:
                for index in range(begin, end):
                    weights[buckets[index]] += change * int64(values[index])
                weights[-1] += change * ONE
        if largest <= TOLERANCE:
            return epoch + 1, largest
    return MOST_EPOCHS, largest


@kernel
def decision(
    buckets: NDArray[np.int32], values: NDArray[np.uint16], weights: NDArray[np.int64], begin: int, end: int
) -> int:  # pragma: no cover (compiled)
    """Returns w·x of the features ``begin`` to ``end``, in parts of PRECISION."""
    total = int64(weights[-1] >> SPARED_BITS) * ONE
    for index in range(begin, end):
        total += int64(weights[buckets[index]] >> SPARED_BITS) * int64(values[index])
    return total >> (WEIGHT_BITS - SPARED_BITS + ONE_BITS - PRECISION_BITS)


@kernel
def shuffle(order: NDArray[np.int64], state: NDArray[np.uint64]) -> None:  # pragma: no cover (compiled)
    """Shuffles ``order`` (Fisher and Yates) by SplitMix64 (Steele et al. 2014), whose ``state`` it changes: (1,)."""
    for last in range(order.size - 1, 0, -1):
        state[0] += np.uint64(0x9E3779B97F4A7C15)
        mixed = state[0]
        mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        mixed ^= mixed >> np.uint64(31)
        place = int64(mixed % np.uint64(last + 1))
        order[last], order[place] = order[place], order[last]


def margins(documents: CountedTexts, weights: NDArray[np.int32]) -> NDArray[Any]:
    """Returns w·x of each document by each column of weights, (buckets + 1, columns): (documents, columns) int64, in
    parts of 2^31."""
    return _margins(documents.starts, documents.buckets, documents.values, weights)


@kernel_in_threads
def _margins(
    starts: NDArray[np.int64], buckets: NDArray[np.int32], values: NDArray[np.uint16], weights: NDArray[np.int32]
) -> NDArray[np.int64]:  # pragma: no cover (compiled)
    totals = np.empty((starts.size - 1, weights.shape[1]), np.int64)
    for row in range(totals.shape[0]):
        for column in range(weights.shape[1]):
            totals[row, column] = int64(weights[-1, column]) * ONE
        for index in range(starts[row], starts[row + 1]):
            for column in range(weights.shape[1]):
                totals[row, column] += int64(weights[buckets[index], column]) * int64(values[index])
    return totals

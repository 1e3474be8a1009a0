"""Values that a sample estimates with their 95 % intervals, and tests of differences between two models.

    a share                           ── wilson ───────────> its interval
    a share of several seeds          ── share_interval ───> its interval, between 0 and 1
    values of several seeds           ── mean_interval ────> the interval of their mean
    right/wrong of both, item by item ── mcnemar ──────────> p-value, exact
    any value of both, item by item   ── paired_bootstrap ─> difference, 95 % interval, p-value
    p-values of a table               ── holm ─────────────> p-values corrected for their number

Pairing matters: two accuracies with overlapping intervals may differ significantly, when one model is right on all
items on which they differ.
"""

import dataclasses
import math
import statistics
from collections.abc import Sequence

import numpy as np

COVERAGE = 0.95
"""The probability that an interval has."""
Z95 = 1.959963984540054
"""The 97.5 % quantile of the normal distribution."""
IntervalEnds = tuple[float, float]
"""The ends of a 95 % interval."""


@dataclasses.dataclass(frozen=True)
class Estimate:
    """A value and the limits of its 95 % interval."""

    value: float
    low: float
    high: float


def wilson(p: float, n: float) -> IntervalEnds:
    """Returns Wilson's 95 % interval of a share ``p`` of ``n`` (JASA 22, 1927, equation for the score interval)."""
    centre = (p + Z95**2 / (2 * n)) / (1 + Z95**2 / n)
    half = Z95 / (1 + Z95**2 / n) * math.sqrt(p * (1 - p) / n + Z95**2 / (4 * n * n))
    return max(0.0, centre - half), min(1.0, centre + half)


def normal_interval(value: float, error: float | None) -> IntervalEnds | None:
    """Returns the interval of a ``value`` with this standard ``error``: ± 1.96 of it; None where it is unknown."""
    return None if error is None else (value - Z95 * error, value + Z95 * error)


def half_width(values: Sequence[float]) -> float | None:
    """Returns half the width of the interval that holds the mean of all such values with 95 %; None for a single value.

    t · s / sqrt(n), s² = Σ (value - mean)² / (n - 1), t: quantile of Student's distribution, n - 1 degrees of freedom.
    """
    number = len(values)
    if number < 2:
        return None
    return student_t(number - 1) * statistics.stdev(values) / math.sqrt(number)


def mean_interval(values: Sequence[float]) -> IntervalEnds | None:
    """Returns the 95 % interval of the mean of ``values`` by Student's t; None for fewer than two."""
    half = half_width(values)
    return None if half is None else (statistics.fmean(values) - half, statistics.fmean(values) + half)


def share_interval(shares: Sequence[float], items: int) -> IntervalEnds:
    """Returns the 95 % interval of the mean of ``shares``, each of so many ``items``, within 0 and 1.

    It is Wilson's, for the number of items that would vary as the seeds do, by Student's t (Korn and Graubard, Survey
    Methodology 24, 1998), at most all items of all seeds.
    """
    share, half, number = statistics.fmean(shares), half_width(shares), float(items * len(shares))
    return wilson(share, min(number, Z95**2 * share * (1 - share) / half**2) if half else number)


def student_t(freedom: int) -> float:
    """Returns the 97.5 % quantile of Student's distribution with ``freedom`` degrees of freedom."""
    from scipy.special import stdtrit  # which those who need shares alone do not load

    return float(stdtrit(freedom, (1 + COVERAGE) / 2))


RESAMPLES = 10_000
BLOCK = 2_000_000
"""Draws at a time."""


def mcnemar(only_first: int, only_second: int) -> float:
    """Returns the two-sided exact p-value of the hypothesis that both models are right equally often.

    ``only_first`` items are right for the first model alone, ``only_second`` for the second alone. If neither is
    better, each such item is a fair coin: p = min(1, 2 P(X ≤ min)), X binomial(only_first + only_second, 1/2)
    (McNemar, Psychometrika 12, 1947; in its exact form: Dietterich, Neural Computation 10, 1998, §3.1).
    """
    n, smaller = only_first + only_second, min(only_first, only_second)
    ways, total = 1, 0
    for k in range(smaller + 1):
        total += ways
        ways = ways * (n - k) // (k + 1)
    return min(1.0, 2 * total / (1 << n))


@dataclasses.dataclass(frozen=True)
class Difference:
    """A statistic of the second model minus that of the first."""

    value: float
    interval: tuple[float, float]
    """95 %, by the percentiles of the resamples."""
    p: float
    """Two-sided: the probability of a difference at least as large when there is none."""
    standard_error: float
    """The standard deviation of the resamples."""
    items: int
    """The number of items that were compared."""


def paired_bootstrap(
    first: Sequence[float], second: Sequence[float], sizes: Sequence[float] | None = None, seed: int = 0
) -> Difference:
    """Returns the difference of sum(values) / sum(sizes), or of means without ``sizes``; both models' items are
    resampled together.

    Efron and Tibshirani, An Introduction to the Bootstrap, 1993: §13.3 for the interval, §16.4 for p, the share
    of resamples that are as far from the difference as the difference is from 0, itself included.

    Raises:
        ValueError: without items.
    """
    deltas = np.asarray(second, np.float64) - np.asarray(first, np.float64)
    weights = np.ones(len(deltas)) if sizes is None else np.asarray(sizes, np.float64)
    if not len(deltas):
        raise ValueError("no items to compare")
    value = float(deltas.sum() / weights.sum())
    generator, rows = np.random.default_rng(seed), max(1, BLOCK // len(deltas))
    resampled = np.empty(RESAMPLES)
    for start in range(0, RESAMPLES, rows):
        drawn = generator.integers(0, len(deltas), (min(rows, RESAMPLES - start), len(deltas)))
        resampled[start : start + rows] = deltas[drawn].sum(1) / weights[drawn].sum(1)
    far = np.abs(resampled - value) >= abs(value) * (1 - 1e-12)
    low, high = np.quantile(resampled, (0.025, 0.975)).tolist()
    p = (1 + int(far.sum())) / (1 + RESAMPLES)
    return Difference(value, (low, high), p, float(resampled.std()), len(deltas))


def holm(p_values: Sequence[float]) -> list[float]:
    """Returns ``p_values`` corrected for their number (Holm, Scandinavian Journal of Statistics 6, 1979).

    The k-th smallest of n (from 0) is multiplied by n - k; none falls below a smaller one's, none exceeds 1.
    """
    adjusted, highest = [0.0] * len(p_values), 0.0
    for rank, index in enumerate(sorted(range(len(p_values)), key=p_values.__getitem__)):
        highest = max(highest, min(1.0, (len(p_values) - rank) * p_values[index]))
        adjusted[index] = highest
    return adjusted


def mark(p: float) -> str:
    """Returns one star below 0.05, two below 0.01, three below 0.001."""
    return "*" * sum(p < bound for bound in (0.05, 0.01, 0.001))


def is_binary(values: Sequence[float]) -> bool:
    """Whether every value is right (1), wrong (0) or even (0.5)."""
    return all(value in (0.0, 0.5, 1.0) for value in values)


def compared(first: Sequence[float], second: Sequence[float], sizes: Sequence[float] | None = None) -> Difference:
    """Returns the paired bootstrap's difference; for items that are right or wrong, with McNemar's exact p-value."""
    difference = paired_bootstrap(first, second, sizes)
    if sizes is not None or not is_binary([*first, *second]):
        return difference
    pairs = list(zip(first, second, strict=True))
    p = mcnemar(sum(a > b for a, b in pairs), sum(b > a for a, b in pairs))
    return dataclasses.replace(difference, p=p)

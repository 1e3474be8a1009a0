"""Probabilities of margins: a logistic function that is fitted to them, in whole numbers.

    margins of each class ── counted by steps ──> fitted ──> Logistic(steepness, offset) ── table ──> probabilities

Platt 1999 ("Probabilistic outputs for support vector machines") fits 1 / (1 + exp(-(steepness · margin + offset))) by
the likelihood. Lin, Lin & Weng 2007 ("A note on Platt's probabilistic outputs", algorithm 1) give the Newton steps and
the targets (n₊ + 1) / (n₊ + 2) and 1 / (n₋ + 2), with which a perfect separation gives no certainty. Exponentials are
those of the module ``decimal``, which rounds correctly: a processor's or library's own may differ in the last bit.
"""

import decimal
import functools
from dataclasses import dataclass
from decimal import Decimal
from typing import Annotated

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

STEP_BITS = 6
"""Margins are counted, and the table has an entry, each 1 / 2^6."""
REACH = 8
"""Margins beyond 8 and -8 count as these."""
STEPS = 2 * REACH << STEP_BITS
MARGIN_BITS = 31
"""Margins are in parts of 2^31."""
FRACTION_BITS = MARGIN_BITS - STEP_BITS
CERTAIN_BITS = 30
CERTAIN = 1 << CERTAIN_BITS
"""The probability of 1."""
SCALE = 1 << 16
"""Steepness and offset are in parts of it."""
LARGEST = 1000 * SCALE
DIGITS = decimal.Context(prec=28)
MOST_ITERATIONS = 100
PRIOR = Decimal("1e-12")
"""Added to the curvature, as in algorithm 1, so that it has an inverse."""
ENOUGH = Decimal("1e-7")
LEAST_STEP = Decimal("1e-10")


@dataclass(frozen=True)
class Logistic:
    """The probability of a margin: 1 / (1 + exp(-(steepness · margin + offset)))."""

    steepness: Annotated[int, Field(ge=1, le=LARGEST)] = SCALE
    """In parts of SCALE, as the offset."""
    offset: Annotated[int, Field(ge=-LARGEST, le=LARGEST)] = 0

    @functools.cached_property
    def table(self) -> NDArray[np.int64]:
        """The probability at each step, in parts of CERTAIN: (STEPS + 1,)."""
        with decimal.localcontext(DIGITS):
            steepness, offset = Decimal(self.steepness) / SCALE, Decimal(self.offset) / SCALE
            values = [CERTAIN * _logistic(steepness * _margin(step) + offset) for step in range(STEPS + 1)]
            return np.array([int(value.to_integral_value()) for value in values], np.int64)

    def of(self, margins: NDArray[np.int64]) -> NDArray[np.int64]:
        """Returns the probabilities of ``margins``, in parts of CERTAIN, between two entries of the table in a line."""
        place = np.clip(margins + (REACH << MARGIN_BITS), 0, (2 * REACH << MARGIN_BITS) - 1)
        step, fraction = place >> FRACTION_BITS, place & ((1 << FRACTION_BITS) - 1)
        low, high = self.table[step], self.table[step + 1]
        return np.asarray(low + ((high - low) * fraction >> FRACTION_BITS), np.int64)


def fitted(margins: NDArray[np.int64], is_positive: NDArray[np.bool_]) -> Logistic:
    """Returns the likeliest logistic function of the ``margins``, in parts of 2^31, of texts of the class and others.

    Without documents of both kinds, or if larger margins are no likelier, it is that of the margin itself.
    """
    steps = np.clip((margins >> FRACTION_BITS) + (REACH << STEP_BITS), 0, STEPS)
    positives = np.bincount(steps[is_positive], minlength=STEPS + 1)
    negatives = np.bincount(steps[~is_positive], minlength=STEPS + 1)
    if not positives.any() or not negatives.any():
        return Logistic()
    with decimal.localcontext(DIGITS):
        counts = [
            (_margin(step), int(positives[step]), int(negatives[step]))
            for step in np.flatnonzero(positives + negatives).tolist()
        ]
        steepness, offset = _newton(counts)
        scaled = [int((value * SCALE).to_integral_value()) for value in (steepness, offset)]
    return Logistic(min(scaled[0], LARGEST), max(min(scaled[1], LARGEST), -LARGEST)) if scaled[0] > 0 else Logistic()


MarginCounts = list[tuple[Decimal, int, int]]
"""(margin, documents of the class, other documents)."""


def _newton(counts: MarginCounts) -> tuple[Decimal, Decimal]:
    """Returns the steepness and the offset of the largest likelihood."""
    positives, negatives = (sum(row[column] for row in counts) for column in (1, 2))
    high, low = Decimal(positives + 1) / (positives + 2), Decimal(1) / (negatives + 2)
    wanted = [(margin, above + below, above * high + below * low) for margin, above, below in counts]
    steepness, offset = Decimal(0), (Decimal(positives + 1) / (negatives + 1)).ln()
    loss = _loss(wanted, steepness, offset)
    for _ in range(MOST_ITERATIONS):
        gradient, (across, along, aside) = _derivatives(wanted, steepness, offset)
        if max(map(abs, gradient)) < ENOUGH:
            break
        determinant = across * aside - along * along
        step = (
            (along * gradient[1] - aside * gradient[0]) / determinant,
            (along * gradient[0] - across * gradient[1]) / determinant,
        )
        descent, length = gradient[0] * step[0] + gradient[1] * step[1], Decimal(1)
        while length > LEAST_STEP:
            further = steepness + length * step[0], offset + length * step[1]
            if (new := _loss(wanted, *further)) < loss + length * descent / 10_000:
                (steepness, offset), loss = further, new
                break
            length /= 2
        else:
            break
    return steepness, offset


Targets = list[tuple[Decimal, int, Decimal]]
"""(margin, documents, sum of their targets)."""


def _loss(wanted: Targets, steepness: Decimal, offset: Decimal) -> Decimal:
    """Returns the cross entropy: Σ n · log(1 + exp(z)) - target · z, in the form that does not overflow."""
    total = Decimal(0)
    for margin, number, target in wanted:
        log_odds = steepness * margin + offset
        total += number * ((1 + (-abs(log_odds)).exp()).ln() + max(log_odds, Decimal(0))) - target * log_odds
    return total


def _derivatives(
    wanted: Targets, steepness: Decimal, offset: Decimal
) -> tuple[tuple[Decimal, Decimal], tuple[Decimal, Decimal, Decimal]]:
    """Returns the derivatives of the loss by steepness and offset, and the second ones: both, mixed, by offset."""
    first, second, across, along, aside = Decimal(0), Decimal(0), PRIOR, Decimal(0), PRIOR
    for margin, number, target in wanted:
        chance = _logistic(steepness * margin + offset)
        rest, curvature = number * chance - target, number * chance * (1 - chance)
        first, second = first + margin * rest, second + rest
        across, along, aside = across + margin * margin * curvature, along + margin * curvature, aside + curvature
    return (first, second), (across, along, aside)


def _margin(step: int) -> Decimal:
    return Decimal(step) / (1 << STEP_BITS) - REACH


def _logistic(log_odds: Decimal) -> Decimal:
    """Returns 1 / (1 + exp(-log_odds)), in the form that does not overflow."""
    small = (-abs(log_odds)).exp()
    return (1 if log_odds >= 0 else small) / (1 + small)

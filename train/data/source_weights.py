"""Weights of the sources of a mixture as whole numbers, as typed or from the rows of each source.

weight · min(rows, limit)^exponent      exponent 1 with a limit K     examples-proportional, Raffel et al. 2020, 3.5.2
                                        exponent 1/T                  temperature T, there, too
                                        exponent 0.7                  multilingual BERT, google-research/bert
"""

import dataclasses
import math
from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction

from headrace.pipeline.core.errors import ConfigError
from headrace.train.data.apportionment import Stretch

SETTING = "mixture.sources"
MOST_CYCLE_ROWS = 10_000
"""The longest cycle of a schedule: weights of four digits."""


def whole_numbers(weights: Mapping[str, float]) -> tuple[int, ...]:
    """Returns ``weights`` as whole numbers without a common divisor, in exactly the same proportions.

    Raises:
        ConfigError: when all are 0, or their sum, the length of a cycle, is above ``MOST_CYCLE_ROWS``.
    """
    if not sum(weights.values()):
        raise ConfigError(SETTING, f"the weights are {dict(weights)}", "give one of them more than 0")
    exact = [Fraction(str(weight)) for weight in weights.values()]
    unit = math.lcm(*(weight.denominator for weight in exact))
    whole = [int(weight * unit) for weight in exact]
    divisor = math.gcd(*whole)
    if sum(whole) // divisor > MOST_CYCLE_ROWS:
        near = {name: round(1000 * weight / sum(exact)) for name, weight in zip(weights, exact, strict=True)}
        problem = f"the weights {dict(weights)} only come out even after {sum(whole) // divisor:,} rows"
        raise ConfigError(SETTING, problem, f"round them so that it is {MOST_CYCLE_ROWS:,} or less, like {near}")
    return tuple(weight // divisor for weight in whole)


@dataclasses.dataclass(frozen=True)
class Sizing:
    """The rule by which weights follow from the rows of the sources."""

    exponent: float
    limit_rows: int | None
    weights: tuple[tuple[float, ...], ...]
    """The factors of the sources, at the start and after each change."""
    times: tuple[int, ...]
    """The row before which none of them applies."""

    def stretches(self, rows: Sequence[int]) -> tuple[Stretch, ...]:
        """Returns the schedule of sources with so many ``rows`` to train on."""
        return stretches((rounded(self.shares(weights, rows)) for weights in self.weights), self.times)

    def shares(self, weights: Sequence[float], rows: Sequence[int]) -> list[float]:
        """Returns the share of each source by the formula of this module."""
        counted = [number if self.limit_rows is None else min(number, self.limit_rows) for number in rows]
        parts = [weight * number**self.exponent for weight, number in zip(weights, counted, strict=True)]
        return [part / sum(parts) for part in parts]


def rounded(shares: Sequence[float]) -> tuple[int, ...]:
    """Returns ``shares``, whose sum is 1, as rows of a cycle of at most ``MOST_CYCLE_ROWS``, the nearest whole numbers
    with that sum. A source with any share has at least one row.
    """
    exact = [share * MOST_CYCLE_ROWS for share in shares]
    whole = [max(math.floor(value), int(value > 0)) for value in exact]
    rests = sorted(range(len(exact)), key=lambda source: whole[source] - exact[source])
    for source in rests[: max(0, MOST_CYCLE_ROWS - sum(whole))]:
        whole[source] += 1
    whole[whole.index(max(whole))] -= sum(whole) - MOST_CYCLE_ROWS  # what tiny shares got
    divisor = math.gcd(*whole)
    return tuple(number // divisor for number in whole)


def stretches(sets: Iterable[tuple[int, ...]], times: Sequence[int]) -> tuple[Stretch, ...]:
    """Returns the weights in whole numbers; each set begins at the first end of a cycle that is not before its time."""
    made: list[Stretch] = []
    for row, weights in zip(times, sets, strict=False):
        if made:
            last, cycle_rows = made[-1].first_row, sum(made[-1].weights)
            row = last + max(0, -(-(row - last) // cycle_rows)) * cycle_rows
        made.append(Stretch(row, weights))
    return tuple(made)

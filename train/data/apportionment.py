"""The source of each row of a mixture: an exact schedule that can be entered anywhere.

    weights      crawl 3   books 1   wiki 1          a cycle: 5 rows, then the same sources again
    sources      c c b c w | c c b c w | ...         after n rows a source has given weight · n / 5 of them, less than
    of a source  0 1 0 2 0 | 3 4 1 5 1 | ...         one more or less, for every n

A cycle is as long as the sum of the weights, whole numbers without a common divisor, so it ends with every source at
exactly its share. Row j of a source (from 0) whose share is w may come at the indices floor(j / w) to
ceil((j + 1) / w) - 1: these bounds are the same as "less than one more or less". The source with the smallest last
index is taken. That a schedule within the bounds exists is theorem 1 of Baruah, Cohen, Plaxton and Varvel
("Proportionate Progress", Algorithmica 15, 1996; also Tijdeman, "The chairman assignment problem", 1980). That the
earliest deadline first finds it holds for all sets of tasks of unit length.

The rows of each source come in the order of its own epochs, as if it were alone (train/data/order.py).
"""

import dataclasses
import functools
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from headrace.pipeline.core.errors import ConfigError
from headrace.train.data.order import Order

RowNumbers = NDArray[np.int64]


@dataclasses.dataclass(frozen=True)
class Cycle:
    """One round of a schedule."""

    weights: RowNumbers
    """(sources,): rows of each in a cycle."""
    sources: RowNumbers
    """(rows,): the source of each row."""
    earlier: RowNumbers
    """(rows,): how many rows of its source come before it in the cycle."""

    def __len__(self) -> int:
        return len(self.sources)

    def given(self, rows: int) -> RowNumbers:
        """Returns how many of the first ``rows`` rows each source gives, (sources,)."""
        turns, rest = divmod(rows, len(self))
        return turns * self.weights + np.bincount(self.sources[:rest], minlength=len(self.weights))


@functools.lru_cache
def cycle(weights: tuple[int, ...]) -> Cycle:
    """Returns the schedule of sources with these ``weights``: whole numbers, at least one of them positive."""
    rows = sum(weights)
    given = [0] * len(weights)
    sources, earlier = np.empty((2, rows), dtype=np.int64)
    for index in range(rows):
        open_to = [n for n, weight in enumerate(weights) if given[n] * rows < (index + 1) * weight]
        source = min(open_to, key=lambda n: -(-(given[n] + 1) * rows // weights[n]))
        sources[index], earlier[index] = source, given[source]
        given[source] += 1
    return Cycle(np.array(weights, dtype=np.int64), sources, earlier)


@dataclasses.dataclass(frozen=True)
class Stretch:
    """The weights of the sources from row ``first_row`` of the training on."""

    first_row: int
    weights: tuple[int, ...]


@dataclasses.dataclass(frozen=True)
class MixedOrder:
    """The order of a mixture's rows, numbered through all of its sources: those of the first one come first."""

    seed: int
    names: Sequence[str]
    source_rows: Sequence[int]
    """Rows of each source."""
    stretches: Sequence[Stretch]
    """The first one from row 0; each but the last whole cycles long, so that every stretch begins exactly even."""

    @property
    def rows(self) -> int:
        return sum(self.source_rows)

    def batch(self, rows_seen: int, batch_rows: int) -> RowNumbers:
        """Returns the row numbers of the global batch that follows ``rows_seen`` rows, (batch_rows,)."""
        sources = self.sources(rows_seen, batch_rows)
        numbers = np.empty(batch_rows, dtype=np.int64)
        first_row = 0
        for source, (rows, given) in enumerate(zip(self.source_rows, self.given(rows_seen).tolist(), strict=True)):
            is_of_source = sources == source
            if is_of_source.any():
                numbers[is_of_source] = first_row + Order(self.seed, rows).batch(given, int(is_of_source.sum()))
            first_row += rows
        return numbers

    def sources(self, rows_seen: int, batch_rows: int) -> RowNumbers:
        """Returns the source of each row of that batch, (batch_rows,)."""
        parts = [np.empty(0, dtype=np.int64)]
        for first_row, end_row, cycle in self._cycles():
            indices = np.arange(max(first_row, rows_seen), min(end_row, rows_seen + batch_rows)) - first_row
            parts.append(cycle.sources[indices % len(cycle)])
        return np.concatenate(parts)

    def given(self, rows_seen: int) -> RowNumbers:
        """Returns how many of the first ``rows_seen`` rows each source has given, (sources,)."""
        given = np.zeros(len(self.source_rows), dtype=np.int64)
        for first_row, end_row, cycle in self._cycles():
            given += cycle.given(max(0, min(end_row, rows_seen) - first_row))
        return given

    def epochs(self, rows_seen: int) -> dict[str, float]:
        """Returns the number of epochs of each source so far, under its name in metrics.jsonl."""
        given = self.given(rows_seen) / np.array(self.source_rows)
        return {f"epoch:{name}": float(epochs) for name, epochs in zip(self.names, given, strict=True)}

    def _cycles(self) -> Iterator[tuple[int, int, Cycle]]:
        """Yields first row, end row and schedule of each stretch."""
        ends = [stretch.first_row for stretch in self.stretches[1:]]
        for stretch, end in zip(self.stretches, [*ends, np.iinfo(np.int64).max], strict=True):
            yield stretch.first_row, int(end), cycle(stretch.weights)


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
    """The rule by which weights follow from the rows of the sources: weight · min(rows, limit)^exponent.

    Exponent 1 with a limit, and exponent 1/T of a temperature T: Raffel et al. 2020, section 3.5.2. Exponent 0.7:
    multilingual BERT (google-research/bert).
    """

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
        """Returns the share of each source by this formula."""
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

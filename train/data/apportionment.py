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
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

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

"""Row number → what the model reads. NumPy only; the trainer makes tensors of it.

    spans        (shard 3, start 120, length 4)   (shard 7, start 0, length 3)   padding
    inputs       E  a  b  c                       E  d  e                        0  0
    targets      a  b  c  E                       d  e  E                        -100 -100
    positions    0  1  2  3                       0  1  2                        0  0
    documents    0  0  0  0                       1  1  1                        -1 -1

Every input has its target in the same span, so only padding is without one.
"""

import dataclasses
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from headrace.data_prep.tokenization.packing import Spans
from headrace.data_prep.tokenization.shards import PackedRows, TokenShards
from headrace.pipeline.core.artifact import Artifact

IGNORED = -100
"""The target of padding: what cross-entropy leaves out."""


@dataclasses.dataclass(frozen=True)
class Batch:
    """Rows stacked, each array (rows, row_tokens) of int64."""

    inputs: NDArray[np.int64]
    targets: NDArray[np.int64]
    positions: NDArray[np.int64]
    documents: NDArray[np.int64]

    @classmethod
    def padding(cls, rows: int, row_tokens: int) -> "Batch":
        """``rows`` rows of nothing else."""
        shape = (rows, row_tokens)
        return cls(
            inputs=np.zeros(shape, dtype=np.int64),
            targets=np.full(shape, IGNORED, dtype=np.int64),
            positions=np.zeros(shape, dtype=np.int64),
            documents=np.full(shape, -1, dtype=np.int64),
        )


class Rows:
    """The rows of one split."""

    def __init__(self, packed: Artifact, tokens: Artifact, split: str) -> None:
        self._rows, self._tokens = PackedRows(packed, split), TokenShards(tokens)
        self.row_tokens = self._rows.row_tokens

    def __len__(self) -> int:
        return len(self._rows)

    def spans(self, row: int) -> Spans:
        """The spans of ``row``, for whoever asks where a row comes from."""
        return self._rows.spans(row)

    def source(self, row: int) -> tuple[int, int]:
        """As of ``MixedRows``: there is one source."""
        return 0, row

    def batch(self, rows: NDArray[np.int64]) -> Batch:
        """The rows with these numbers, in this order."""
        batch = Batch.padding(len(rows), self.row_tokens)
        for b, row in enumerate(rows.tolist()):
            begin = 0
            for number, (shard, start, length) in enumerate(self._rows.spans(row).tolist()):
                here = (b, slice(begin, begin + length))
                tokens = self._tokens.slice(shard, start, start + length + 1)
                batch.inputs[here] = tokens[:-1]
                batch.targets[here] = tokens[1:]
                batch.positions[here] = np.arange(length)
                batch.documents[here] = number
                begin += length
        return batch


class MixedRows:
    """The rows of several sources, numbered through: those of the first one come first."""

    def __init__(self, sources: Sequence[Rows]) -> None:
        self._sources = sources
        self._first_row = np.cumsum([0] + [len(source) for source in sources])
        self.row_tokens = sources[0].row_tokens

    def __len__(self) -> int:
        return int(self._first_row[-1])

    def source(self, row: int) -> tuple[int, int]:
        """The number of the source that ``row`` comes from, and the row's number there."""
        source = int(np.searchsorted(self._first_row, row, side="right")) - 1
        return source, row - int(self._first_row[source])

    def batch(self, rows: NDArray[np.int64]) -> Batch:
        """The rows with these numbers, in this order."""
        batch = Batch.padding(len(rows), self.row_tokens)
        sources = np.searchsorted(self._first_row, rows, side="right") - 1
        for source in np.unique(sources):
            here = sources == source
            part = self._sources[source].batch(rows[here] - self._first_row[source])
            for name, array in vars(part).items():
                getattr(batch, name)[here] = array
        return batch

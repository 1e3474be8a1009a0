"""Row number → the token ids of its spans. What the model reads of them is the objective's (train/objectives).

    spans        (shard 3, start 120, length 4)   (shard 7, start 0, length 3)
    pieces       E  a  b  c  E                    E  d  e  E

A piece has one token more than its span has positions: the target of the last position.
"""

import copy
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headrace.data_prep.tokenization.packing import DocumentSpans
from headrace.data_prep.tokenization.shards import PackedRows, TokenShards
from headrace.pipeline.core.artifact import Artifact

Pieces = Sequence[NDArray[Any]]
"""The token ids of each span of a row, (length + 1,)."""
OtherPiece = Callable[[int, np.random.Generator], NDArray[Any]]
"""The index of a span of a row, random numbers → the piece of another document; an empty one if none was found."""
DRAWS = 10
"""Attempts to find another document (google-research/bert, create_pretraining_data.py)."""


class Rows:
    """The rows of one split, or some of them, numbered in their order there."""

    def __init__(self, packed: Artifact, tokens: Artifact, split: str) -> None:
        self._rows, self._tokens = PackedRows(packed, split), TokenShards(tokens)
        self._chosen: NDArray[np.int64] | None = None
        self.row_tokens = self._rows.row_tokens

    def __len__(self) -> int:
        return len(self._rows if self._chosen is None else self._chosen)

    def of(self, chosen: NDArray[np.int64]) -> "Rows":
        """Returns the rows with the numbers ``chosen``."""
        some = copy.copy(self)
        some._chosen = chosen
        return some

    def spans(self, row: int) -> DocumentSpans:
        """Returns the spans of ``row``."""
        return self._rows.spans(self.source(row)[1])

    def source(self, row: int) -> tuple[int, int]:
        """Returns 0, for there is one source (compare ``MixedRows.source``), and the number of ``row`` in the split."""
        return 0, row if self._chosen is None else int(self._chosen[row])

    def origins(self, rows: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Returns what ``source`` returns of each of ``rows``, (n,) and (n,)."""
        return np.zeros_like(rows), rows if self._chosen is None else self._chosen[rows]

    def pieces(self, row: int) -> Pieces:
        """Returns the token ids of each span of ``row``."""
        return [
            self._tokens.slice(shard, start, start + length + 1) for shard, start, length in self.spans(row).tolist()
        ]

    def other_piece(self, row: int, index: int, generator: np.random.Generator) -> NDArray[Any]:
        """Returns a random piece of another document than that of span ``index`` of ``row``.

        Draws a row and one of its spans, up to ten times; an empty piece if all are of the same document.
        """
        shard, start, _ = self.spans(row)[index].tolist()
        document = self._tokens.document(shard, start)
        for _ in range(DRAWS):
            spans = self.spans(int(generator.integers(len(self))))
            other, begin, length = spans[int(generator.integers(len(spans)))].tolist()
            if other != shard or self._tokens.document(other, begin) != document:
                return self._tokens.slice(other, begin, begin + length + 1)
        return np.empty(0, np.int64)

    def target_bytes(
        self, rows: Sequence[int], token_bytes_V: NDArray[np.int64] | None, least_rows: int = 1
    ) -> NDArray[np.int64] | None:
        """Returns the UTF-8 bytes of text of the token after each position, (rows, row_tokens), and 0 in padding.

        Args:
            rows: their numbers; rows of padding follow up to ``least_rows``.
            token_bytes_V: the bytes of each token; None if they differ from text to text. Then those that are stored
                with the tokens count; without them (tokens of an older version) the result is None.
        """
        if token_bytes_V is None and not self._tokens.has_token_bytes:
            return None
        bytes_RT = np.zeros((max(least_rows, len(rows)), self.row_tokens), np.int64)
        for row, bytes_T in zip(rows, bytes_RT, strict=False):
            begin = 0
            for shard, start, length in self.spans(row).tolist():
                targets = (shard, start + 1, start + length + 1)
                if token_bytes_V is None:
                    bytes_T[begin : begin + length] = self._tokens.token_bytes(*targets)
                else:
                    bytes_T[begin : begin + length] = token_bytes_V[self._tokens.slice(*targets)]
                begin += length
        return bytes_RT


class MixedRows:
    """The rows of several sources, numbered through: those of the first one come first."""

    def __init__(self, sources: Sequence[Rows]) -> None:
        self._sources = sources
        self._first_row = np.cumsum([0] + [len(source) for source in sources])
        self.row_tokens = sources[0].row_tokens

    def __len__(self) -> int:
        return int(self._first_row[-1])

    def source(self, row: int) -> tuple[int, int]:
        """Returns the number of the source that ``row`` comes from, and the row's number there."""
        source = int(np.searchsorted(self._first_row, row, side="right")) - 1
        return source, row - int(self._first_row[source])

    def origins(self, rows: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Returns what ``source`` returns of each of ``rows``, (n,) and (n,)."""
        sources = np.searchsorted(self._first_row, rows, side="right").astype(np.int64) - 1
        return sources, rows - self._first_row[sources]

    def pieces(self, row: int) -> Pieces:
        """Returns the token ids of each span of ``row``."""
        source, own_row = self.source(row)
        return self._sources[source].pieces(own_row)

    def other_piece(self, row: int, index: int, generator: np.random.Generator) -> NDArray[Any]:
        """Returns a random piece of another document of the same source; see ``Rows.other_piece``."""
        source, own_row = self.source(row)
        return self._sources[source].other_piece(own_row, index, generator)

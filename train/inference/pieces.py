"""Queries as rows that fit a model's window. No torch here."""

import dataclasses
from collections.abc import Iterator

import numpy as np

from headrace.train.inference.item import Tokens

PieceKey = tuple[int, bytes, tuple[int, ...]]


@dataclasses.dataclass(frozen=True)
class Piece:
    """One sequence to read: (T + 1,) int64, of which the last ``targets`` tokens are predicted."""

    sequence: np.ndarray
    targets: int
    passed_over: tuple[int, ...] = ()
    """Tokens that the first target need not be likelier than."""

    @property
    def key(self) -> PieceKey:
        """Equal for equal pieces."""
        return self.targets, self.sequence.tobytes(), self.passed_over

    @property
    def inputs(self) -> np.ndarray:
        return self.sequence[:-1]

    @property
    def predicted(self) -> np.ndarray:
        return self.sequence[-self.targets :]


def pieces(query: Tokens, window: int) -> Iterator[Piece]:
    """The rows that score ``query`` with a model of ``window`` positions.

    One row with as much of the context as fits (lm-evaluation-harness, HFLM._loglikelihood_tokens). A continuation
    longer than the window is cut into consecutive parts of ``window`` tokens, each conditioned on what fits before its
    end: one token for a full part (the harness's disjoint rolling windows, lm_eval/utils.py).
    """
    whole = np.concatenate([query.context, query.continuation]).astype(np.int64)
    for start in range(len(query.context), len(whole), window):
        end = min(start + window, len(whole))
        passed_over = query.passed_over if start == len(query.context) else ()
        yield Piece(whole[max(0, end - window - 1) : end], end - start, passed_over)

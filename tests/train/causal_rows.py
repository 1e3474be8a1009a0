"""Rows as the causal objective reads them, for tests."""

from collections.abc import Iterable
from types import SimpleNamespace

from headrace.train.data.rows import MixedRows, Rows
from headrace.train.objectives.base import Reader, Vocabulary
from headrace.train.objectives.causal import Causal

READER = Reader(Causal(), Vocabulary(0, {}), 0, "test")


def causal(rows: Rows | MixedRows, numbers: Iterable[int]) -> SimpleNamespace:
    """inputs, targets, positions and documents of the rows ``numbers``, each (rows, row_tokens)."""
    return SimpleNamespace(**READER.read(rows, [int(number) for number in numbers], 0).arrays)

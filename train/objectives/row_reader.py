"""Reads rows as an objective wants them.

numbers of rows ── pieces ──> Objective.row of each ── stacked ──> MicroBatch: arrays, counts, tokens
"""

import dataclasses
import functools
from collections.abc import Mapping, Sequence

from headrace.train.data.batches import Arrays, stacked
from headrace.train.data.order import row_generator
from headrace.train.data.rows import MixedRows, Pieces, Rows
from headrace.train.objectives.base import Objective, ReadsOtherRows, Vocabulary


@dataclasses.dataclass(frozen=True)
class MicroBatch:
    """Rows as an objective reads them."""

    arrays: Arrays
    counts: Mapping[str, int]
    tokens: int
    """Tokens of text, padding and the first end of text of each piece not counted."""


@dataclasses.dataclass(frozen=True)
class Reader:
    """Reads rows as ``objective`` wants them. Random numbers depend on seed, purpose and position of a row alone."""

    objective: Objective
    vocabulary: Vocabulary
    seed: int
    purpose: str
    """Training and validation draw different numbers."""

    def read(
        self, rows: Rows | MixedRows, numbers: Sequence[int], first_position: int, least_rows: int = 1
    ) -> MicroBatch:
        """Reads the rows ``numbers``, the first of which has ``first_position`` in the training; rows of padding follow
        up to ``least_rows``."""
        pieces: list[Pieces] = [rows.pieces(number) for number in numbers]
        pieces += [()] * (least_rows - len(pieces))
        made_rows = []
        for offset, pieces_of_row in enumerate(pieces):
            generator = row_generator(self.seed, self.purpose, first_position + offset)
            arguments = (pieces_of_row, rows.row_tokens, self.vocabulary, generator)
            if pieces_of_row and isinstance(self.objective, ReadsOtherRows):
                others = functools.partial(rows.other_piece, numbers[offset])
                made_rows.append(self.objective.row_with_others(*arguments, others))
            else:
                made_rows.append(self.objective.row(*arguments))
        arrays = stacked(made_rows)
        tokens = sum(len(piece) - 1 for pieces_of_row in pieces for piece in pieces_of_row)
        return MicroBatch(arrays, self.objective.counts(arrays), tokens)

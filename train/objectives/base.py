"""The protocol of training objectives, and the functions with which the loop uses one.

    pieces of a row ── row ──> named arrays ── counts ──> how many values each term of the loss has
                                    │
                                    └── losses ──> sums of the terms       loss = Σ weight · sum / count

A count is that of the global batch, over all ranks and micro-batches. Each term has its own: masked tokens, say, or
sentence pairs. Counts come from the arrays, because the first backward pass already needs them for the whole batch.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import NDArray

from headrace.pipeline.core.errors import ConfigError
from headrace.train.data.batches import Arrays, Tensors, stacked
from headrace.train.data.order import row_generator
from headrace.train.data.rows import MixedRows, Pieces, Rows

if TYPE_CHECKING:
    from torch import Tensor, nn


@dataclasses.dataclass(frozen=True)
class Vocabulary:
    """The tokens that rows are made of."""

    size: int
    special_ids: Mapping[str, int]
    """The id of each of the objective's special tokens."""

    @classmethod
    def of(cls, objective: "Objective", ids: Mapping[str, int], size: int) -> "Vocabulary":
        """Takes the special tokens of ``objective`` from ``ids``, those of the whole tokenizer.

        Raises:
            ConfigError: when the tokenizer lacks one.
        """
        for token in objective.special_tokens():
            if token not in ids:
                wrong = f"needs the token {token!r}, which the tokenizer lacks"
                raise ConfigError("objective", wrong, "train or give a tokenizer that has it")
        return cls(size, {token: ids[token] for token in objective.special_tokens()})


class Objective(Protocol):
    """The settings of an objective and its functions. Free of torch at import: it is read where there is none."""

    @property
    def weights(self) -> Mapping[str, float]:
        """Each term of the loss by its name, and its weight."""
        ...

    def special_tokens(self) -> tuple[str, ...]:
        """Returns the tokens, besides end of text, that a tokenizer needs for this objective."""
        ...

    def lengths(self, row_tokens: int) -> Mapping[str, int]:
        """Returns the length of each array of positions that a row of ``row_tokens`` becomes."""
        ...

    def row(
        self, pieces: Pieces, row_tokens: int, vocabulary: Vocabulary, generator: np.random.Generator
    ) -> dict[str, NDArray[np.int64]]:
        """Returns the arrays of one row, a pure function of its arguments; without ``pieces``, a row of padding."""
        ...

    def counts(self, batch: Arrays) -> dict[str, int]:
        """Returns for each term how many values of ``batch`` it sums."""
        ...

    def losses(self, model: "nn.Module", batch: Tensors) -> "dict[str, Tensor]":
        """Returns for each term its sum over ``batch``, a scalar in fp32."""
        ...

    def text_bytes(self, batch: Arrays, token_bytes_V: NDArray[np.int64]) -> dict[str, int]:
        """Returns the UTF-8 bytes of the text whose -ln p a term sums, for the terms that are such likelihoods.

        Only a likelihood from left to right has bits per byte: the loss of masked tokens, say, has none.
        """
        ...


def combined(weights: Mapping[str, float], sums: Mapping[str, float], counts: Mapping[str, float]) -> float:
    """Returns the loss: the sum of weight · sum / count over the terms. A term without a value adds nothing."""
    return sum(weight * (sums[name] / counts[name]) for name, weight in weights.items() if counts[name])


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

    def read(self, rows: Rows | MixedRows, numbers: Sequence[int], first_position: int) -> MicroBatch:
        """Reads the rows ``numbers``, the first of which has ``first_position`` in the training; with none, padding."""
        pieces: list[Pieces] = [rows.pieces(number) for number in numbers] or [()]
        found = [
            self.objective.row(
                each, rows.row_tokens, self.vocabulary, row_generator(self.seed, self.purpose, first_position + offset)
            )
            for offset, each in enumerate(pieces)
        ]
        arrays = stacked(found)
        tokens = sum(len(piece) - 1 for each in pieces for piece in each)
        return MicroBatch(arrays, self.objective.counts(arrays), tokens)

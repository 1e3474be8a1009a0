"""Objectives of one stack whose loss is a likelihood of text: the causal one, and the prefix LM.

**Causal**: each token is predicted from those before it in its document (Radford et al. 2018, eq. 1).

    pieces       E  a  b  c  E                    E  d  e  E                padding
    inputs       E  a  b  c                       E  d  e                   0  0
    targets      a  b  c  E                       d  e  E                   -100 -100
    positions    0  1  2  3                       0  1  2                   0  0
    documents    0  0  0  0                       1  1  1                   -1 -1

    joined       positions 0 to 6, and one document: d and e see a b c E, too

**Prefix**: the beginning of each document sees itself in both directions, and the rest is predicted from it (Liu et al.
2018; Raffel et al. 2020, section 3.2.1 and table 4). T5's data code draws n as here (prefix_lm).

    pieces       E  a  b  c  d  E            n = 2 of L = 5 tokens: a b are the prefix
    inputs       E  a  b  c  d               every position sees E a b; c and d see those before them, too
    targets      .  .  c  d  E               the position of b predicts the first target
    prefix       1  1  1  0  0
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from headrace.pipeline.core.settings import settings
from headrace.train.context import LEFT_TO_RIGHT, ContextForm
from headrace.train.data.batches import IGNORED, Arrays, Tensors
from headrace.train.data.rows import Pieces
from headrace.train.objectives.base import CrossEntropy, Vocabulary
from headrace.train.parts import StackName

if TYPE_CHECKING:
    from torch import Tensor, nn


OF_STACK = ("inputs", "targets", "positions", "documents")
"""The arrays of a row."""


@settings
class TextLikelihood(CrossEntropy):
    """Base of the objectives whose one term ``nll`` is -ln p of text, in nats."""

    stacks: ClassVar[tuple[StackName, ...]] = ("decoder",)
    packing_methods: ClassVar[tuple[str, ...]] = ("best_fit", "concatenate", "padded", "similar")

    def text_bytes(self, batch: Arrays, target_bytes_BT: NDArray[np.int64]) -> dict[str, int]:
        return {self.term: int(target_bytes_BT[batch["targets"] != IGNORED].sum())}


@settings
class Causal(TextLikelihood):
    """Predicts the next token. Its term ``nll`` is -ln p(target | document so far), in nats."""

    type: Literal["causal"] = "causal"
    documents: Literal["separate", "joined"] = "separate"
    """separate: documents of a row do not see each other; joined: a row is one text, as for GPT-3 (Brown et al. 2020,
    appendix B). With packing.method=similar the earlier documents are then a context for the later ones."""

    def lengths(self, row_tokens: int) -> Mapping[str, int]:
        return dict.fromkeys(OF_STACK, row_tokens)

    def row(
        self, pieces: Pieces, row_tokens: int, vocabulary: Vocabulary, generator: np.random.Generator
    ) -> dict[str, NDArray[np.int64]]:
        """Returns the arrays of one row; it draws nothing from ``generator``."""
        if self.documents == "joined" and len(pieces):
            pieces = [np.concatenate([pieces[0], *(tokens[1:] for tokens in pieces[1:])])]
        return next_token_row(pieces, row_tokens)

    def summed(self, model: "nn.Module", batch: Tensors, **options: Any) -> "Tensor":
        nll: Tensor = model(batch["inputs"], batch["positions"], batch["documents"], batch["targets"], **options)
        return nll

    def context_form(self, vocabulary: Vocabulary) -> ContextForm:
        return LEFT_TO_RIGHT


@settings
class Prefix(TextLikelihood):
    """Predicts the rest of a document from its beginning. Its one term ``nll`` is -ln p(target | prefix and the targets
    before), in nats: a likelihood, as that of the causal objective, but of the rests alone."""

    type: Literal["prefix"] = "prefix"
    looks_ahead: ClassVar[bool] = True

    def lengths(self, row_tokens: int) -> Mapping[str, int]:
        return dict.fromkeys((*OF_STACK, "prefix"), row_tokens)

    def row(
        self, pieces: Pieces, row_tokens: int, vocabulary: Vocabulary, generator: np.random.Generator
    ) -> dict[str, NDArray[np.int64]]:
        """Returns the arrays of one row.

        It draws one number for each piece of at least two positions, in their order: n, uniform from 1 to the number of
        positions less one. A piece of one position cannot be split and has no target.
        """
        splits = []
        for tokens in pieces:
            positions = len(tokens) - 1
            splits.append(int(generator.integers(1, positions)) if positions > 1 else positions)
        return prefix_row(pieces, splits, row_tokens)

    def summed(self, model: "nn.Module", batch: Tensors, **options: Any) -> "Tensor":
        return prefix_losses(model, batch, **options)

    def context_form(self, vocabulary: Vocabulary) -> ContextForm:
        return ContextForm(looks_ahead=True)


def next_token_row(pieces: Pieces, row_tokens: int) -> dict[str, NDArray[np.int64]]:
    """Returns the arrays of a row in which each position predicts the next token of its piece."""
    padding = {"inputs": 0, "targets": IGNORED, "positions": 0, "documents": -1}
    arrays = {name: np.full(row_tokens, value, dtype=np.int64) for name, value in padding.items()}
    begin = 0
    for number, tokens in enumerate(pieces):
        end = begin + len(tokens) - 1
        arrays["inputs"][begin:end] = tokens[:-1]
        arrays["targets"][begin:end] = tokens[1:]
        arrays["positions"][begin:end] = np.arange(end - begin)
        arrays["documents"][begin:end] = number
        begin = end
    return arrays


def prefix_row(pieces: Pieces, splits: Sequence[int], row_tokens: int) -> dict[str, NDArray[np.int64]]:
    """Returns the arrays of a row in which the positions up to that of index ``splits[i]`` of piece i see each other,
    and the last of them is the first that predicts."""
    arrays = next_token_row(pieces, row_tokens) | {"prefix": np.zeros(row_tokens, dtype=np.int64)}
    begin = 0
    for tokens, split in zip(pieces, splits, strict=True):
        positions = len(tokens) - 1
        arrays["targets"][begin : begin + split] = IGNORED
        arrays["prefix"][begin : begin + min(split + 1, positions)] = 1
        begin += positions
    return arrays


def prefix_losses(model: "nn.Module", batch: Tensors, **options: Any) -> "Tensor":
    """Returns the sum of -ln p of the targets of rows of ``prefix_row``, a scalar in fp32; with ``options`` of the
    output layer, its sums."""
    arguments = (batch["inputs"], batch["positions"], batch["documents"], batch["targets"])
    nll: Tensor = model(*arguments, prefix_BT=batch["prefix"].bool(), **options)
    return nll

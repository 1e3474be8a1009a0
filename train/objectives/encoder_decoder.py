"""Denoising by an encoder–decoder: the encoder reads the inputs, the decoder predicts the targets (Raffel et al. 2020).

S is the token that a decoder begins with, X and Y are sentinels, E is the end of text; compare denoising.py:

    text             a  b  c  d  E  e  f        masked: b c, f
    encoder_inputs   a  X  d  E  e  Y  E
    inputs           S  X  b  c  Y  f           the decoder's
    targets          X  b  c  Y  f  E

An encoder and a decoder have rows of different lengths. ``packing.row_tokens`` is the longer one, which for T5's
objective is the encoder's.
"""

import dataclasses
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from headrace.pipeline.core.errors import ConfigError
from headrace.pipeline.core.settings import settings
from headrace.train.context import ContextForm
from headrace.train.data.batches import IGNORED, EncoderTokens, Tensors
from headrace.train.data.rows import Pieces
from headrace.train.objectives.base import Vocabulary
from headrace.train.objectives.denoising import Denoising, Restoring, text_of
from headrace.train.parts import StackName

if TYPE_CHECKING:
    from torch import Tensor, nn


class TwoSequences(Restoring):
    """Makes two sequences of inputs and targets, where ``Restoring`` makes one."""

    stacks: ClassVar[tuple[StackName, ...]] = ("encoder_decoder",)

    def __post_init__(self) -> None:
        if self.input_mask == "causal":
            problem = "is causal, and the encoder of model.stack=encoder_decoder sees all inputs"
            raise ConfigError("objective.input_mask", problem, "give objective.input_mask=full, or model.stack=decoder")

    def positions(self, text_tokens: int) -> int:
        """Returns the length of the longer sequence."""
        return max(map(max, self.sizes(text_tokens)))

    def lengths(self, row_tokens: int) -> Mapping[str, int]:
        inputs, targets = map(max, zip(*self.sizes(max(row_tokens, 2)), strict=True))
        of_encoder = dict.fromkeys(("encoder_inputs", "encoder_positions", "encoder_documents"), inputs)
        return of_encoder | dict.fromkeys(("inputs", "targets", "positions", "documents"), targets)

    def row(
        self, pieces: Pieces, row_tokens: int, vocabulary: Vocabulary, generator: np.random.Generator
    ) -> dict[str, NDArray[np.int64]]:
        """Returns the arrays of one row, which is one text; it draws what the noise of this text draws."""
        arrays = empty_row(self.lengths(row_tokens))
        text = text_of(pieces)
        labels = self.labels(text[:0], vocabulary)
        if len(text) >= 2:
            ends, starts = np.array([vocabulary.end]), np.array([vocabulary.decoder_start])
            inputs, targets = (np.concatenate([part, ends]) for part in self.noised(text, vocabulary, generator))
            labels = self.labels(inputs, vocabulary)
            shifted = np.concatenate([starts, targets[:-1]])
            write_document(arrays, "encoder_", 0, 0, inputs=inputs)
            write_document(arrays, "", 0, 0, inputs=shifted, targets=targets)
        return arrays | labels

    def summed(self, model: "nn.Module", batch: Tensors, **options: Any) -> "Tensor":
        return source_losses(model, batch, **options)

    def context_form(self, vocabulary: Vocabulary) -> ContextForm:
        """Returns the form of one stack, with continuations that begin with the token that the decoder begins with."""
        form = super().context_form(vocabulary)
        assert vocabulary.decoder_start is not None  # no tokenizer is without an end of text
        return dataclasses.replace(form, given=(vocabulary.decoder_start, *form.given))


@settings
class EncoderDecoderDenoising(TwoSequences, Denoising):
    """``Denoising`` in two sequences."""


def empty_row(lengths: Mapping[str, int]) -> dict[str, NDArray[np.int64]]:
    """Returns the arrays of a row without documents."""
    padding = {"targets": IGNORED, "documents": -1, "encoder_documents": -1}
    return {name: np.full(length, padding.get(name, 0), dtype=np.int64) for name, length in lengths.items()}


def write_document(
    arrays: dict[str, NDArray[np.int64]], prefix: str, number: int, begin: int, **tokens: NDArray[np.int64]
) -> int:
    """Writes document ``number`` to the arrays of a stack, from the index ``begin`` on; returns the index after it.

    Its ``tokens`` are of one length; ``prefix`` is that of the stack's arrays.
    """
    length = len(tokens["inputs"])
    end = begin + length
    for name, values in tokens.items():
        arrays[prefix + name][begin:end] = values
    arrays[f"{prefix}positions"][begin:end] = np.arange(length)
    arrays[f"{prefix}documents"][begin:end] = number
    return end


def source_losses(model: "nn.Module", batch: Tensors, **options: Any) -> "Tensor":
    """Returns the sum of -ln p of the decoder's targets, given what the encoder reads; with ``options`` of the output
    layer, its sums."""
    source = EncoderTokens(batch["encoder_inputs"], batch["encoder_positions"], batch["encoder_documents"])
    of_decoder = (batch[name] for name in ("inputs", "positions", "documents", "targets"))
    nll: Tensor = model(*of_decoder, source=source, **options)
    return nll

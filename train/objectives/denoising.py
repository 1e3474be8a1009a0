"""Denoising: a corrupted text is given, and what restores it is predicted (Raffel et al. 2020, section 3.3).

    kind             inputs                                   targets
    spans            each masked span becomes a sentinel      each sentinel and the tokens of its span
    independent      the same, each token masked by itself    the same
    drop             masked tokens are left out               these tokens
    bert             masked: 90 % a mask, 10 % random tokens  the whole text
    mass_style       masked: a mask                           the whole text
    mass             one masked span: masks                   this span (Song et al. 2019)
    deshuffle        all tokens in random order               the whole text
    prefix           the first n of L tokens, 1 ≤ n < L       the other tokens

A decoder reads inputs and targets as one sequence, and the inputs see each other (Raffel et al. 2020, section 3.2.1);
of two stacks the encoder reads the inputs and the decoder predicts the targets, in rows of different lengths, of which
``packing.row_tokens`` is the longer one (for T5's objective the encoder's).
The pieces of a row are one text, with the end of text after each document (T5's data code has no separator there); it
also ends inputs and targets. X and Y are sentinels:

    text             a  b  c  d  E  e  f        masked: b c, f
    inputs           a  X  d  E  e  Y  E  X  b  c  Y  f
    targets          .  .  .  .  .  .  X  b  c  Y  f  E
    prefix           1  1  1  1  1  1  1  0  0  0  0  0

    encoder_inputs   a  X  d  E  e  Y  E        of two stacks; S is the token that a decoder begins with
    inputs           S  X  b  c  Y  f
    targets          X  b  c  Y  f  E
"""

import abc
import dataclasses
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from headrace.data_prep.tokenization.special_tokens import sentinels
from headrace.pipeline.core.errors import ConfigError
from headrace.pipeline.core.settings import settings
from headrace.train.context import ContextForm
from headrace.train.data.batches import IGNORED, EncoderTokens, Tensors
from headrace.train.data.rows import Pieces
from headrace.train.objectives import noise
from headrace.train.objectives.base import CrossEntropy, Vocabulary
from headrace.train.objectives.causal import prefix_losses, prefix_row
from headrace.train.objectives.noise import TokenIds, TokenMask
from headrace.train.parts import StackName

if TYPE_CHECKING:
    from torch import Tensor, nn

CorruptionRate = Annotated[float, Field(gt=0, lt=1)]
SpanTokens = Annotated[float, Field(ge=1, le=10_000)]
Sentinels = Annotated[int, Field(ge=2, le=10_000)]

RANDOM_SHARE = 0.1
"""Share of BERT-style masked tokens that become random tokens (T5's data code)."""


@settings
class Restoring(CrossEntropy):
    """Base of the objectives that restore a corrupted text: they make inputs and targets of the text of a row."""

    stacks: ClassVar[tuple[StackName, ...]] = ("decoder", "encoder_decoder")
    packing_methods: ClassVar[tuple[str, ...]] = ("best_fit", "concatenate", "padded", "similar")
    sentinels: Sentinels = 100
    """The number of sentinels <extra_id_0>, <extra_id_1>, … in the tokenizer; the first one is also the mask."""
    input_mask: Literal["full", "causal"] = "full"
    """The inputs of one stack see each other (full: a prefix LM), or the tokens before them alone (causal: a language
    model). Rows and losses are the same (Raffel et al. 2020, section 3.2). Of two stacks, the encoder is full."""

    @property
    def looks_ahead(self) -> bool:  # type: ignore[override]  # the base's is a class variable
        """Whether the inputs of one stack see each other."""
        return self.input_mask == "full"

    @abc.abstractmethod
    def sizes(self, text_tokens: int) -> Sequence[tuple[int, int]]:
        """Returns the most tokens of inputs and of targets, with their ends, of a text of at least 2 tokens; several
        pairs if there are several corruptions."""

    @abc.abstractmethod
    def spans(self, text_tokens: int) -> int:
        """Returns the number of sentinels that a text must have; with fewer of them it is refused."""

    @abc.abstractmethod
    def noised(
        self, text: TokenIds, vocabulary: Vocabulary, generator: np.random.Generator
    ) -> tuple[TokenIds, TokenIds]:
        """Returns inputs and targets of ``text``, without their ends; it has at least 2 tokens."""

    def context_form(self, vocabulary: Vocabulary) -> ContextForm:
        """Returns a context whose continuation is the targets."""
        assert vocabulary.end is not None  # no tokenizer is without one
        return ContextForm(looks_ahead=self.looks_ahead, ending=(vocabulary.end,))

    def labels(self, inputs: TokenIds, vocabulary: Vocabulary) -> dict[str, NDArray[np.int64]]:
        """Returns further arrays of the row whose ``inputs`` these are; empty for a row of padding."""
        return {}

    def text_tokens(self, row_tokens: int) -> int:
        """Returns the most tokens of text whose inputs and targets fit ``row_tokens`` positions.

        Raises:
            ConfigError: when not even two tokens fit, or spans need more sentinels than there are.
        """
        fitting = (n for n in range(2 * row_tokens, 1, -1) if self.positions(n) <= row_tokens)
        text_tokens = next(fitting, 0)
        if not text_tokens:
            problem = f"is {row_tokens}, too few for the inputs and targets of two tokens"
            raise ConfigError("packing.row_tokens", problem, "make rows longer")
        spans = self.spans(text_tokens)
        if spans > self.sentinels:
            problem = f"is {self.sentinels}, and a row of {text_tokens} tokens has {spans} spans"
            raise ConfigError("objective.sentinels", problem, f"give {spans}, or make packing.row_tokens smaller")
        return text_tokens

    def positions(self, text_tokens: int) -> int:
        """Returns the length of inputs and targets in one sequence, for a text of at least 2 tokens."""
        return max(map(sum, self.sizes(text_tokens))) - 1

    def lengths(self, row_tokens: int) -> Mapping[str, int]:
        length = self.positions(max(row_tokens, 2))
        return dict.fromkeys(("inputs", "targets", "positions", "documents", "prefix"), length)

    def row(
        self, pieces: Pieces, row_tokens: int, vocabulary: Vocabulary, generator: np.random.Generator
    ) -> dict[str, NDArray[np.int64]]:
        """Returns the arrays of one row; it draws what the noise of its whole text draws, and nothing for a row of
        less than two tokens, which has no target. With a causal mask of the inputs there is no prefix."""
        length = self.lengths(row_tokens)["inputs"]
        text = text_of(pieces)
        if len(text) < 2:
            return prefix_row([], [], length) | self.labels(text[:0], vocabulary)
        inputs, targets = self.noised(text, vocabulary, generator)
        end = vocabulary.end
        arrays = prefix_row([np.concatenate([inputs, [end], targets, [end]])], [len(inputs)], length)
        arrays["prefix"] *= self.looks_ahead
        return arrays | self.labels(inputs, vocabulary)

    def summed(self, model: "nn.Module", batch: Tensors, **options: Any) -> "Tensor":
        return prefix_losses(model, batch, **options)


@settings
class Denoising(Restoring):
    """Restores a corrupted text. Its one term ``denoising`` is -ln p(target | inputs and the targets before), in nats,
    and no likelihood of a text: it has no bits per byte."""

    type: Literal["denoising"] = "denoising"
    term: ClassVar[str] = "denoising"
    in_two_sequences: ClassVar[str] = "headrace.train.objectives.denoising:EncoderDecoderDenoising"
    kind: Literal["spans", "independent", "drop", "bert", "mass_style", "mass", "deshuffle", "prefix"] = "spans"
    """The corruption; the table in docs/objectives.md describes each."""
    rate: CorruptionRate = 0.15
    """The share of tokens that are masked; deshuffle and prefix do not use it."""
    mean_span: SpanTokens = 3.0
    """The mean length of a masked span in tokens; only spans uses it."""

    @property
    def revision(self) -> int:
        """1 where random tokens are no special ones; in revision 0 only sentinels and the end of text were left out."""
        return int(self.kind == "bert")

    def special_tokens(self) -> tuple[str, ...]:
        return sentinels(self.sentinels)

    def most_tokens(self, text_tokens: int) -> tuple[int, int]:
        """Returns the most tokens of inputs and of targets, with their ends, for a text of at least 2 tokens."""
        masked = noise.noise_tokens(text_tokens, self.rate)
        if self.kind == "prefix":
            return text_tokens, text_tokens
        if self.kind == "spans":
            spans = noise.noise_spans(text_tokens, self.rate, self.mean_span)
            return text_tokens - masked + spans + 1, masked + spans + 1
        most = noise.most_independent(text_tokens, self.rate)
        targets = {"independent": most + min(most + 1, self.sentinels), "drop": most, "mass": masked}
        return text_tokens + 1, targets.get(self.kind, text_tokens) + 1

    def sizes(self, text_tokens: int) -> Sequence[tuple[int, int]]:
        if self.kind == "prefix":
            return ((2, text_tokens), (text_tokens, 2))  # the shortest and the longest beginning
        return (self.most_tokens(text_tokens),)

    def spans(self, text_tokens: int) -> int:
        return noise.noise_spans(text_tokens, self.rate, self.mean_span) if self.kind == "spans" else 0

    def noised(
        self, text: TokenIds, vocabulary: Vocabulary, generator: np.random.Generator
    ) -> tuple[TokenIds, TokenIds]:
        """Returns inputs and targets of ``text``, without their ends; it has at least 2 tokens."""
        ids = self._sentinel_ids(vocabulary)
        if self.kind == "deshuffle":
            return generator.permutation(text), text
        if self.kind == "prefix":
            split = int(generator.integers(1, len(text)))
            return text[:split], text[split:]
        mask = self._mask(len(text), generator)
        if self.kind in ("spans", "independent"):
            return noise.with_sentinels(text, mask, ids), noise.with_sentinels(text, ~mask, ids)
        if self.kind == "drop":
            return text[~mask], text[mask]
        if self.kind == "bert":
            ordinary = np.setdiff1d(vocabulary.ordinary, [*ids, vocabulary.end])
            return noise.with_random_tokens(text, mask, ids[0], ordinary, RANDOM_SHARE, generator), text
        return np.where(mask, ids[0], text), text[mask] if self.kind == "mass" else text

    def _sentinel_ids(self, vocabulary: Vocabulary) -> list[int]:
        return [vocabulary.special_ids[token] for token in reversed(sentinels(self.sentinels))]

    def _mask(self, length: int, generator: np.random.Generator) -> TokenMask:
        if self.kind == "spans":
            return noise.span_mask(length, self.rate, self.mean_span, generator)
        if self.kind == "mass":
            return noise.contiguous_mask(length, self.rate, generator)
        mask = noise.independent_mask(length, self.rate, generator)
        # The kept parts, which become sentinels in the targets, may be one more than the masked runs.
        return noise.first_runs(mask, self.sentinels - 1) if self.kind == "independent" else mask

    def context_form(self, vocabulary: Vocabulary) -> ContextForm:
        """Returns a context whose continuation is the first masked span, for a model that restores spans; else one
        whose continuation is the targets."""
        form = super().context_form(vocabulary)
        if self.kind not in ("spans", "independent"):
            return form
        first, second, *_ = self._sentinel_ids(vocabulary)
        return dataclasses.replace(form, ending=(first, *form.ending), given=(first,), stops=(second,))


def text_of(pieces: Pieces) -> TokenIds:
    """Returns the pieces of a row as one text, with the end of text after each document."""
    return np.concatenate([piece[1:] for piece in pieces]).astype(np.int64) if pieces else np.zeros(0, np.int64)


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

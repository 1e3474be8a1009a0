"""UL2: one of seven denoisers corrupts each row, and a token in front names its kind (Tay et al. 2022).

    mode token   kind            corruption (section 3.1.1 and table 1)
    [NLU]        R, regular      15 % of the text, spans of 3 or of 8 tokens
    [NLG]        X, extreme      50 % in spans of 3, 8 or 64 tokens, or 15 % in spans of 64
    [S2S]        S, sequential   the last quarter of the text, without sentinels: a prefix LM

    text         a  b  c  d  E  e  f  g
    R            [NLU] a  b  X  E  e  f  Y  E        X  c  d  Y  g  E
    S            [S2S] a  b  c  d  E  e  E           f  g  E

A row draws one of the seven, all with the same probability, then what its noise draws. The rows and the two ways to
read them are those of denoising.py; the text of a row is as long as fits every denoiser.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from headrace.data_prep.tokenization.special_tokens import sentinels
from headrace.pipeline.core.settings import settings
from headrace.train.context import ContextForm
from headrace.train.data.batches import IGNORED, Arrays, Tensors
from headrace.train.objectives import noise
from headrace.train.objectives.base import Vocabulary, named
from headrace.train.objectives.denoising import Denoising, Restoring, TwoSequences
from headrace.train.objectives.noise import TokenIds

if TYPE_CHECKING:
    from torch import Tensor, nn

REGULAR, EXTREME, SEQUENTIAL = "[NLU]", "[NLG]", "[S2S]"
MODES = {REGULAR: "regular", EXTREME: "extreme", SEQUENTIAL: "sequential"}
"""Mode token → the name of its kind of denoisers in metrics.jsonl."""
SPAN_DENOISERS = (
    (REGULAR, 3.0, 0.15),
    (REGULAR, 8.0, 0.15),
    (EXTREME, 3.0, 0.5),
    (EXTREME, 8.0, 0.5),
    (EXTREME, 64.0, 0.15),
    (EXTREME, 64.0, 0.5),
)
"""Mode token, mean length of a span in tokens, share of the text (Tay et al. 2022, table 1)."""
SEQUENTIAL_RATE = 0.25
"""Share of the text at its end that the sequential denoiser predicts."""


@settings
class Ul2(Restoring):
    """Restores texts that one of seven denoisers corrupted. Its term ``denoising`` is -ln p(target | inputs and the
    targets before), in nats; the terms ``regular``, ``extreme`` and ``sequential`` are its parts, which are logged."""

    type: Literal["ul2"] = "ul2"
    term: ClassVar[str] = "denoising"
    in_two_sequences: ClassVar[str] = "headrace_courses.ul2:EncoderDecoderUl2"

    @property
    def weights(self) -> Mapping[str, float]:
        return {**super().weights, **dict.fromkeys(MODES.values(), 0.0)}

    def special_tokens(self) -> tuple[str, ...]:
        return (*MODES, *sentinels(self.sentinels))

    def sizes(self, text_tokens: int) -> Sequence[tuple[int, int]]:
        sizes = [denoiser.most_tokens(text_tokens) for _, denoiser in self._span_denoisers()]
        predicted = noise.noise_tokens(text_tokens, SEQUENTIAL_RATE)
        sizes.append((text_tokens - predicted + 1, predicted + 1))
        return [(inputs + 1, targets) for inputs, targets in sizes]

    def spans(self, text_tokens: int) -> int:
        return max(denoiser.spans(text_tokens) for _, denoiser in self._span_denoisers())

    def noised(
        self, text: TokenIds, vocabulary: Vocabulary, generator: np.random.Generator
    ) -> tuple[TokenIds, TokenIds]:
        """Returns inputs and targets without their ends; it draws the number of the denoiser, then its noise."""
        denoisers = self._span_denoisers()
        number = int(generator.integers(len(denoisers) + 1))
        if number < len(denoisers):
            mode, denoiser = denoisers[number]
            inputs, targets = denoiser.noised(text, vocabulary, generator)
        else:
            mode, kept = SEQUENTIAL, len(text) - noise.noise_tokens(len(text), SEQUENTIAL_RATE)
            inputs, targets = text[:kept], text[kept:]
        return np.concatenate([[vocabulary.special_ids[mode]], inputs]), targets

    def labels(self, inputs: TokenIds, vocabulary: Vocabulary) -> dict[str, NDArray[np.int64]]:
        """Returns ``kind``, (1,): the index in MODES of the mode token; 0 for a row of padding."""
        modes = [vocabulary.special_ids[token] for token in MODES]
        return {"kind": np.array([modes.index(int(inputs[0])) if len(inputs) else 0])}

    def counts(self, batch: Arrays) -> dict[str, int]:
        targets_B = (batch["targets"] != IGNORED).sum(1)
        of_kinds = (int(targets_B[batch["kind"][:, 0] == number].sum()) for number in range(len(MODES)))
        return dict.fromkeys(self.weights, int(targets_B.sum())) | dict(zip(MODES.values(), of_kinds, strict=True))

    def losses(self, model: "nn.Module", batch: Tensors) -> "dict[str, Tensor]":
        sums = self.summed(model, batch, kinds_B=batch["kind"][:, 0], **self.further_terms)
        return named(self.weights, sums)

    def context_form(self, vocabulary: Vocabulary) -> ContextForm:
        """Returns a context whose continuation the sequential denoiser predicts."""
        return dataclasses.replace(super().context_form(vocabulary), opening=(vocabulary.special_ids[SEQUENTIAL],))

    def _span_denoisers(self) -> list[tuple[str, Denoising]]:
        """Returns each denoiser of spans after its mode token."""
        return [
            (mode, Denoising(rate=rate, mean_span=mean_span, sentinels=self.sentinels))
            for mode, mean_span, rate in SPAN_DENOISERS
        ]


@settings
class EncoderDecoderUl2(TwoSequences, Ul2):
    """``Ul2`` in two sequences."""

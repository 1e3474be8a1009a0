"""Replaced-token detection: a discriminator finds the tokens that a small generator has replaced (Clark et al. 2020).

    row            as in masked language modelling; ``draws`` are random numbers, one for each masked token
    generator      fills the masked tokens: term ``mlm``, -ln p of the hidden tokens
    discriminator  reads the filled row: term ``detection``, -ln p of the labels of all tokens, special ones too

The random numbers of a row are those of masked language modelling, and after them one for each masked token. A drawn
token is a function of this number and the generator's probabilities (train/model/pair.py).
"""

import dataclasses
from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from headrace.pipeline.core.errors import ConfigError
from headrace.pipeline.core.settings import PositiveNumber, settings
from headrace.train.context import LEFT_TO_RIGHT, ContextForm
from headrace.train.data.batches import DRAW_BITS, IGNORED, Arrays, Tensors
from headrace.train.data.rows import Pieces
from headrace.train.objectives.base import Vocabulary
from headrace.train.objectives.masked import FRAME_TOKENS, Masked
from headrace.train.parts import StackName

if TYPE_CHECKING:
    from torch import Tensor, nn


@settings
class ReplacedTokens:
    """Trains a discriminator, and the generator that replaces tokens for it (``model.generator_width``).

    Its loss is no likelihood of a text, so it has no perplexity and no bits per byte.
    """

    type: Literal["replaced_tokens"] = "replaced_tokens"
    stacks: ClassVar[tuple[StackName, ...]] = ("discriminator",)
    frame_tokens: ClassVar[int] = FRAME_TOKENS
    looks_ahead: ClassVar[bool] = True
    predicts_text: ClassVar[bool] = False
    masking: Masked = dataclasses.field(default_factory=lambda: Masked(mask_share=0.85, random_share=0.0))
    """The choice of the tokens that the generator predicts, and of what it reads in their places. ELECTRA: 15 % of the
    tokens (25 % for the large model), of which 85 % become [MASK] and the rest is kept."""
    detection_weight: PositiveNumber = 50.0
    """Weight of the discriminator's term; that of the generator is 1."""

    def __post_init__(self) -> None:
        if self.masking.has_pairs:
            problem = f"is {self.masking.pairs}, and a discriminator predicts no pairs"
            raise ConfigError(
                "objective.masking.pairs", problem, "give objective.masking.pairs=none or objective=masked"
            )

    @property
    def weights(self) -> Mapping[str, float]:
        """The two terms of the loss, and two shares of all tokens that are only logged: those that the discriminator
        labels wrongly, and those that are replaced."""
        return {"mlm": 1.0, "detection": self.detection_weight, "errors": 0.0, "replaced": 0.0}

    @property
    def packing_methods(self) -> tuple[str, ...]:
        return self.masking.packing_methods

    def special_tokens(self) -> tuple[str, ...]:
        return self.masking.special_tokens()

    def text_tokens(self, row_tokens: int) -> int:
        return self.masking.text_tokens(row_tokens)

    def lengths(self, row_tokens: int) -> Mapping[str, int]:
        lengths = self.masking.lengths(row_tokens)
        return {**lengths, "draws": lengths["masked"]}

    def row(
        self, pieces: Pieces, row_tokens: int, vocabulary: Vocabulary, generator: np.random.Generator
    ) -> dict[str, NDArray[np.int64]]:
        """Returns the arrays of one row; the module describes the order of the random numbers."""
        arrays = self.masking.row(pieces, row_tokens, vocabulary, generator)
        return {**arrays, "draws": generator.integers(2**DRAW_BITS, size=len(arrays["masked"]))}

    def counts(self, batch: Arrays) -> dict[str, int]:
        tokens = int((batch["documents"] >= 0).sum())
        hidden = int((batch["targets"] != IGNORED).sum())
        return {"mlm": hidden, "detection": tokens, "errors": tokens, "replaced": tokens}

    def losses(self, model: "nn.Module", batch: Tensors) -> "dict[str, Tensor]":
        names = ("inputs", "positions", "documents", "targets", "masked", "draws")
        sums = model(*(batch[name] for name in names))
        return dict(zip(self.weights, sums.unbind(), strict=True))

    def context_form(self, vocabulary: Vocabulary) -> ContextForm:
        """Returns the usual form: a discriminator continues no context, so nothing has to be recorded."""
        return LEFT_TO_RIGHT

    def text_bytes(self, batch: Arrays, target_bytes_BT: NDArray[np.int64]) -> dict[str, int]:
        return {}

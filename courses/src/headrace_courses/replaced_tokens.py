"""Replaced-token detection: a discriminator finds the tokens that a small generator has replaced (Clark et al. 2020).

    row            as in masked language modelling; ``draws`` are random numbers, one for each masked token
    generator      fills the masked tokens: term ``mlm``, -ln p of the hidden tokens
    discriminator  reads the filled row: term ``detection``, -ln p of the labels of all tokens, special ones too

The random numbers of a row are those of masked language modelling, and after them one for each masked token. A drawn
token is a function of this number and the generator's probabilities (replaced_tokens_model.py). The generator is only
trained: an export has the discriminator alone.
"""

import dataclasses
from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from headrace.pipeline.core.errors import ConfigError
from headrace.pipeline.core.settings import Positive, PositiveNumber, settings
from headrace.train.config import ModelConfig
from headrace.train.context import LEFT_TO_RIGHT, ContextForm
from headrace.train.data.batches import DRAW_BITS, IGNORED, Arrays, Tensors
from headrace.train.data.rows import Pieces
from headrace.train.objectives.base import Vocabulary
from headrace.train.objectives.masked import FRAME_TOKENS, Masked
from headrace.train.parts import StackName

if TYPE_CHECKING:
    from torch import Tensor, nn

    from headrace.train.model.transformer import Transformer


@settings
class ReplacedTokens:
    """Trains a discriminator, and the generator that replaces tokens for it.

    Its loss is no likelihood of a text, so it has no perplexity and no bits per byte.
    """

    type: Literal["replaced_tokens"] = "replaced_tokens"
    stacks: ClassVar[tuple[StackName, ...]] = ("discriminator",)
    frame_tokens: ClassVar[int] = FRAME_TOKENS
    looks_ahead: ClassVar[bool] = True
    training_modules: ClassVar[tuple[str, ...]] = ("generator",)
    masking: Masked = dataclasses.field(default_factory=lambda: Masked(mask_share=0.85, random_share=0.0))
    """The choice of the tokens that the generator predicts, and of what it reads in their places. ELECTRA: 15 % of the
    tokens (25 % for the large model), of which 85 % become [MASK] and the rest is kept."""
    detection_weight: PositiveNumber = 50.0
    """Weight of the discriminator's term; that of the generator is 1."""
    generator_width: Positive | None = None
    """Width of the generator, which shares the embeddings of the discriminator; its heads and inner units are reduced
    by the same factor. null: a quarter of the heads (ELECTRA's base size has a third)."""

    def __post_init__(self) -> None:
        if self.masking.has_pairs:
            problem = f"is {self.masking.pairs}, and a discriminator predicts no pairs"
            raise ConfigError(
                "objective.masking.pairs", problem, "give objective.masking.pairs=none or objective=masked"
            )

    def check_model(self, model: ModelConfig) -> None:
        """Checks that a generator of this width fits the discriminator ``model``."""
        width = self._width(model)
        if not model.tied:
            raise ConfigError("model.tied", "is false, and both models have one embedding", "give true")
        if width % model.head_width:
            problem = f"is {width}, no multiple of the width of a head, {model.head_width}"
            raise ConfigError("objective.generator_width", problem, "give one")

    def check_vocabulary(self, vocabulary: Vocabulary) -> None:
        """Checks nothing: no text is divided at sentences."""

    def build(self, config: ModelConfig, vocabulary: int) -> "Transformer":
        from headrace_courses.replaced_tokens_model import Discriminator

        return Discriminator(config, vocabulary, self._width(config))

    def _width(self, model: ModelConfig) -> int:
        """Returns the width of the generator."""
        return self.generator_width or max(1, model.heads // 4) * model.head_width

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


def generator_of(config: ModelConfig, width: int) -> ModelConfig:
    """Returns the shape of the generator of this ``width``: its heads are as wide as those of the discriminator.

    It has as many layers; heads and inner units are fewer by the same factor as the width.
    """
    heads = width // config.head_width
    return dataclasses.replace(
        config,
        stack="encoder",
        width=width,
        heads=heads,
        kv_heads=max(1, heads * config.kv_heads // config.heads),
        mlp_width=max(1, config.mlp_width * width // config.width),
        attention_width=None,
        embedding_width=config.embedding_width or config.width,
        two_sided_bias=None,
        output_transform=True,
    )

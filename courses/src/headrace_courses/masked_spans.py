"""Masks of spans of words: each token also from the ends of its span (SpanBERT, Joshi et al. 2020).

Random numbers are drawn as in masked.py, with an action for each span, in the order of their drawing.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from headrace.pipeline.core.errors import ConfigError
from headrace.pipeline.core.settings import settings
from headrace.train.config import ModelConfig
from headrace.train.data.batches import Arrays
from headrace.train.objectives.base import Vocabulary
from headrace.train.objectives.masked import Ids, Masked, Units, words_of

if TYPE_CHECKING:
    from headrace.train.model.transformer import Transformer

SPAN_LENGTHS = np.arange(1, 11)
SPAN_SHARES = 0.2 * 0.8 ** (SPAN_LENGTHS - 1) / (1 - 0.8**10)
"""SpanBERT's lengths in words: geometric with p = 0.2, at most 10, 3.8 in the mean (Joshi et al. 2020, section 3.1)."""


@settings
class MaskedSpans(Masked):
    """Predicts the tokens of spans of one to ten words, which are replaced alike."""

    type: Literal["masked_spans"] = "masked_spans"  # type: ignore[assignment]  # an objective of its own
    training_modules: ClassVar[tuple[str, ...]] = ("boundary_head",)
    span_boundary: bool = False
    """Whether each token of a span is also predicted from the tokens on both sides of it and its place in it: the term
    ``span_boundary``, whose head no export has."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.has_pairs:
            raise ConfigError("objective.pairs", f"is {self.pairs}, and spans have no pairs", "give none")
        if self.unit != "token":
            raise ConfigError("objective.unit", f"is {self.unit}, and the units are spans", "leave it out")

    @property
    def revision(self) -> int:
        return 1

    @property
    def weights(self) -> Mapping[str, float]:
        return {"mlm": 1.0} | ({"span_boundary": 1.0} if self.span_boundary else {})

    def build(self, config: ModelConfig, vocabulary: int) -> "Transformer":
        from headrace.train.model.transformer import Transformer
        from headrace_courses.span_boundaries import SpanBoundaryModel

        return (SpanBoundaryModel if self.span_boundary else Transformer)(config, vocabulary)

    def counts(self, batch: Arrays) -> dict[str, int]:
        return dict.fromkeys(self.weights, super().counts(batch)["mlm"])

    def units(
        self, tokens: Ids, maskable: Ids, number: int, vocabulary: Vocabulary, generator: np.random.Generator
    ) -> Units:
        return drawn_spans(words_of(tokens, maskable, vocabulary), number, generator)

    def actions(self, unit_of: Ids, units: int, generator: np.random.Generator) -> NDArray[np.float64]:
        return generator.random(units)[unit_of]


def drawn_spans(words: Sequence[list[int]], number: int, generator: np.random.Generator) -> Units:
    """Draws spans of whole words, ``number`` tokens together: for each a length, then a first word (SpanBERT).

    A span ends with its document, before a token that is in another span, or at ``number`` tokens.
    """
    spans: list[list[int]] = []
    word_of = {position: index for index, word in enumerate(words) for position in word}
    free = set(word_of)
    while number:
        length = int(generator.choice(SPAN_LENGTHS, p=SPAN_SHARES))
        anchors = sorted(free)
        first = word_of[anchors[int(generator.integers(len(anchors)))]]
        span: list[int] = []
        for position in (position for word in words[first : first + length] for position in word):
            if len(span) == number or position not in free or (span and position != span[-1] + 1):
                break
            span.append(position)
        span = span or [next(position for position in words[first] if position in free)]
        free.difference_update(span)
        number -= len(span)
        spans.append(span)
    return spans

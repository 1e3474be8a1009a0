"""The probability of each token of a written text, and the likeliest other tokens in its place.

    The mill | wheel  p 0.41    others: stone 0.20, river 0.07
             | turns  p 0.63    others: stood 0.11, ...

The probabilities are those of the model itself, before temperature, top_k, top_p and beams change the choice.
"""

import dataclasses
import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headrace.train.inference.generation.generator import Generation, Generator
    from headrace.train.inference.queries import TextEncoder


@dataclasses.dataclass(frozen=True)
class LikelyText:
    """A token, or a span of tokens, for one place of a text."""

    text: str
    tokens: tuple[int, ...]
    log_probability: float
    """ln p given what the model reads of the text."""

    @property
    def probability(self) -> float:
        """The probability p."""
        return math.exp(self.log_probability)


@dataclasses.dataclass(frozen=True)
class TokenChoice:
    """A written token, and others that could have been written in its place."""

    written: LikelyText
    others: tuple[LikelyText, ...]
    """The likeliest other tokens, the likeliest first."""


def token_choices(
    generator: "Generator", tokenizer: "TextEncoder", text: "Generation", others: int
) -> list[TokenChoice]:
    """Returns a choice for each token of ``text``, with this many ``others``, or all that the vocabulary has."""
    log_probs_PV = generator.log_probabilities(text)
    top = log_probs_PV.topk(min(others + 1, log_probs_PV.shape[1]))

    def likely(place: int, token: int) -> LikelyText:
        return LikelyText(tokenizer.decode([token]), (token,), float(log_probs_PV[place, token]))

    return [
        TokenChoice(likely(place, token), tuple(likely(place, other) for other in best if other != token)[:others])
        for place, (token, best) in enumerate(zip(text.tokens, top.indices.tolist(), strict=True))
    ]

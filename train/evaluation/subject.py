"""The model under test. No torch here."""

import dataclasses
from typing import TYPE_CHECKING

from train.evaluation.prompt import TextEncoder

if TYPE_CHECKING:
    from train.evaluation.scorer import Scorer


@dataclasses.dataclass(frozen=True)
class Subject:
    """The model under test, and how texts become its tokens."""

    scorer: "Scorer"
    tokenizer: TextEncoder
    vocabulary: int
    """Tokens that the model tells apart."""
    opening: tuple[int, ...] = ()
    """Tokens that its tokenizer puts before each text."""
    end: int | None = None
    """The token that it ends a text with; None: the one that an empty context becomes."""

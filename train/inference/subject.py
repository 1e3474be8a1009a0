"""The model under test. No torch here."""

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

import numpy as np

if TYPE_CHECKING:
    from headrace.train.inference.scorer import Scorer


class TextEncoder(Protocol):
    """What turns prompts into tokens."""

    end_of_text: int
    """What an empty context becomes."""

    def encode(self, texts: Sequence[str]) -> list[np.ndarray]:
        """The ids of each text, without anything added."""
        ...

    def decode(self, ids: Sequence[int]) -> str:
        """The text of ``ids``."""
        ...


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

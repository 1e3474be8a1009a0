"""The verdict on a text, and the refusal of what is no text, for all functions that take texts."""

import dataclasses
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from datatrove.data import Document

from headrace.data_prep.document import Drop
from headrace.pipeline.core.errors import ConfigError

if TYPE_CHECKING:
    from headrace.data_prep.filters.explanations import Explanation


@dataclasses.dataclass(frozen=True)
class Verdict:
    """The verdict on a text. It is true when the text is kept: ``[verdict.text for verdict in verdicts if verdict]``.

    A verdict is made of str, None and a dict alone, so it can be pickled and turned into JSON.
    """

    text: str
    """The text as the rules changed it; of a dropped one, as the last rule saw it."""
    rule: str | None = None
    """The rule that dropped it, as in a run: ``c4_lines.sentences``. None: it is kept."""
    value: str | None = None
    """The value that decided, as a run stores it: ``2``."""
    reason: str | None = None
    """The value in words: ``2 sentences left, 3 needed``."""
    meaning: str | None = None
    """The effect of the rule: ``Drops pages with fewer than 3 sentences.``"""
    metadata: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    """The notes of the rules: ``language``, ``language_score``, ``removed_lines``, ``masked_pii``, …"""

    def __bool__(self) -> bool:
        return self.rule is None


def verdict_on(document: Document, drop: Drop | None, explain: Callable[[str], "Explanation"] | None = None) -> Verdict:
    """Returns the verdict on ``document``, which ``drop``, in the words of ``explain``, or no rule dropped."""
    if drop is None:
        return Verdict(document.text, metadata=document.metadata)
    from headrace.data_prep.filters.explanations import explained  # loads what filters are made of

    words = explain(drop.rule) if explain else explained(drop.rule, ())
    reason = words.of_value(drop.value) or drop.value
    return Verdict(document.text, drop.rule, drop.value, reason, words.sentence, document.metadata)


def text_of_caller(where: str, text: object) -> str:
    """Returns ``text``, which the function ``where`` was given.

    Raises:
        ConfigError: when it is no str.
    """
    if not isinstance(text, str):
        raise ConfigError(where, f"a text must be a str (got {type(text).__name__})", "give a str; decode bytes before")
    return text


def texts_of_caller(where: str, texts: Iterable[object]) -> list[str]:
    """Returns ``texts``, which the function ``where`` was given, as a list.

    Raises:
        ConfigError: when they are one text, nothing to iterate over, or one of them is no str.
    """
    if isinstance(texts, str | bytes) or not isinstance(texts, Iterable):
        raise ConfigError(where, f"needs texts (got {type(texts).__name__})", "give a list or another iterable of str")
    return [text_of_caller(f"{where}, text {number}", text) for number, text in enumerate(texts)]

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

    ``text`` is as the rules changed it; of a dropped one, as the last rule saw it. ``rule`` dropped it, named as in a
    run (``c4_lines.sentences``; None: it is kept), for the ``value`` (``2``). ``reason`` is the value in words (``2
    sentences left, 3 needed``), ``meaning`` the rule (``Drops pages with fewer than 3 sentences.``). ``metadata`` has
    the notes of the rules: ``language``, ``removed_lines``, ``masked_pii``, … All of it can be pickled and JSON.
    """

    text: str
    rule: str | None = None
    value: str | None = None
    reason: str | None = None
    meaning: str | None = None
    metadata: Mapping[str, Any] = dataclasses.field(default_factory=dict)

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
    """Returns ``text``, which the function ``where`` was given; a ConfigError when it is no str that UTF-8 can hold."""
    if not isinstance(text, str):
        raise ConfigError(where, f"a text must be a str (got {type(text).__name__})", "give a str; decode bytes before")
    try:
        _ = text.isascii() or text.encode()
    except UnicodeEncodeError as error:
        remedy = "replace it: text.encode(errors='replace').decode()"
        raise ConfigError(where, f"a text has a lone surrogate (character {error.start:,})", remedy) from None
    return text


def texts_of_caller(where: str, texts: Iterable[object]) -> list[str]:
    """Returns ``texts``, which the function ``where`` was given; a ConfigError when they are not several str."""
    if isinstance(texts, str | bytes) or not isinstance(texts, Iterable):
        raise ConfigError(where, f"needs texts (got {type(texts).__name__})", "give a list or another iterable of str")
    return [text_of_caller(f"{where}, text {number}", text) for number, text in enumerate(texts)]

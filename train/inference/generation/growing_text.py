"""The text of one sequence as its tokens come: the part that can be shown, and whether it has ended.

    tokens   "It", " is", " fine", ".\\n", "\\n"            stop: "\\n\\n"
    shown    "It"  " is"  " fine"  "."    (ends)          a possible beginning of a stop is held back

A character of several bytes may need several tokens: it is shown when it is whole. Special tokens are no text, but a
stop may spell one: ``</s>``, say. That, and the cut at each of the stops in turn, is lm-evaluation-harness's way
(models/huggingface.py, generate_until).
"""

import copy
from collections.abc import Callable, Collection, Sequence
from typing import Literal

Ending = Literal["stop", "end_of_text", "max_tokens"]
"""A stop text or token came; the model ended the text; the text has its most tokens."""

UNKNOWN = "\N{REPLACEMENT CHARACTER}"
"""Stands for bytes that are no character, or the beginning of one."""

CLEANED = (" .", " ?", " !", " ,", " ' ", " n't", " 'm", " 's", " 've", " 're")
"""The texts that a tokenizer of transformers may write without their space (``clean_up_tokenization``)."""


class GrowingText:
    """The continuation of one prompt."""

    def __init__(
        self,
        decode: Callable[[Sequence[int], bool], str],
        ends: Collection[int],
        stops: Sequence[str],
        max_tokens: int,
        stop_tokens: Collection[int] = (),
    ) -> None:
        """``decode`` gives the text of token ids, and takes whether it skips special tokens (``TextEncoder.decode``);
        ``ends`` are the tokens of the model that end a text, ``stop_tokens`` those of its context form."""
        self._stop_tokens = stop_tokens
        self._decode, self._ends, self._stops, self._max_tokens = decode, ends, tuple(filter(None, stops)), max_tokens
        self.tokens: list[int] = []
        """All chosen tokens, the end-of-text token included."""
        self.text = ""
        """The part of the text that cannot change any more."""
        self.ending: Ending | None = None

    def add(self, token: int) -> str:
        """Adds the next token, and returns the text that it adds."""
        self.tokens.append(token)
        is_end, is_stop = token in self._ends, token in self._stop_tokens
        text = decoded = self._decode(self.tokens[:-1] if is_stop else self.tokens, True)
        for stop in self._stops:
            text = text.partition(stop)[0]
        if is_stop or len(text) < len(decoded):
            self.ending = "stop"
        elif is_end:
            self.ending = "end_of_text"
        elif self._stops and any(map(self._decode(self.tokens, False).__contains__, self._stops)):
            self.ending = "stop"
        elif len(self.tokens) == self._max_tokens:
            self.ending = "max_tokens"
        else:
            text = decoded[: len(decoded) - self._open_end(decoded)]
        added, self.text = text[len(self.text) :], text
        return added

    def extended(self, token: int) -> "GrowingText":
        """Returns this text with ``token`` added, and leaves this one as it is."""
        text = copy.copy(self)
        text.tokens = list(self.tokens)
        text.add(token)
        return text

    def _open_end(self, decoded: str) -> int:
        """Returns the number of last characters that may still change or become a stop."""
        unknown = len(decoded) - len(decoded.rstrip(UNKNOWN))
        awaited = (*self._stops, *CLEANED)
        begun = (
            length
            for length in range(min(max(map(len, awaited)) - 1, len(decoded)), 0, -1)
            if any(text.startswith(decoded[-length:]) for text in awaited)
        )
        return max(unknown, next(begun, 0))

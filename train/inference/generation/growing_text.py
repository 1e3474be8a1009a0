"""The text of one sequence as its tokens come: what can be shown already, and whether it has ended.

    tokens   "It", " is", " fine", ".\\n", "\\n"            stop: "\\n\\n"
    shown    "It"  " is"  " fine"  "."    (ends)          a beginning of a stop waits for what follows

A character of several bytes may need several tokens: until it is whole, it is not shown.
"""

from collections.abc import Callable, Sequence
from typing import Literal

Ending = Literal["stop", "end_of_text", "max_tokens"]
"""A stop text came; the model ended the text; it has as many tokens as it may."""

UNKNOWN = "\N{REPLACEMENT CHARACTER}"
"""What bytes decode to that are no character, or not yet one."""


class GrowingText:
    """The continuation of one prompt."""

    def __init__(self, decode: Callable[[Sequence[int]], str], end: int, stops: Sequence[str], max_tokens: int) -> None:
        """``decode`` gives the text of token ids; ``end`` is the end-of-text token."""
        self._decode, self._end, self._stops, self._max_tokens = decode, end, stops, max_tokens
        self.tokens: list[int] = []
        """All that were chosen, the end-of-text token included."""
        self.text = ""
        """Final as far as it goes."""
        self.ending: Ending | None = None

    def add(self, token: int) -> str:
        """Take the next token -> what it adds to the text."""
        self.tokens.append(token)
        is_end = token == self._end
        decoded = self._decode(self.tokens[:-1] if is_end else self.tokens)
        places = [place for place in map(decoded.find, self._stops) if place >= 0]
        if places:
            self.ending, text = "stop", decoded[: min(places)]
        elif is_end:
            self.ending, text = "end_of_text", decoded
        elif len(self.tokens) == self._max_tokens:
            self.ending, text = "max_tokens", decoded
        else:
            text = decoded[: len(decoded) - self._open_end(decoded)]
        added, self.text = text[len(self.text) :], text
        return added

    def _open_end(self, decoded: str) -> int:
        """How many of the last characters may still change or become a stop."""
        unknown = len(decoded) - len(decoded.rstrip(UNKNOWN))
        longest = max(map(len, self._stops), default=1) - 1
        begun = (
            length
            for length in range(min(longest, len(decoded)), 0, -1)
            if any(stop.startswith(decoded[-length:]) for stop in self._stops)
        )
        return max(unknown, next(begun, 0))

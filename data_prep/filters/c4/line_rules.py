"""C4's rules for a line: each says what stays of it, and what decides that.

    line ── rule ──> line (perhaps rewritten) ── rule ──> ... ──> kept
                └──> line removed      └──> page dropped

Rules, order and thresholds: ``clean_page`` of TFDS text/c4_utils.py; the same rules in words: Raffel et al. 2020
("Exploring the Limits of Transfer Learning …"), section 2.2. ``apply`` is the rule as it reads; ``check`` tells the
compiled pass over a page (line_scan.py) how to come to the same answer.
"""

import abc
import re
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from headrace.data_prep.filters.c4.line_scan import ENDS, ENDS_NOT, RARE, WORD_COUNT, WORD_LENGTH, Check
from headrace.pipeline.core.settings import Natural, Positive, settings

POLICY_PHRASES = (
    "terms of use",
    "privacy policy",
    "cookie policy",
    "uses cookies",
    "use of cookies",
    "use cookies",
)
_CITATION = re.compile(r"\[\d*\]|\[edit\]|\[citation needed\]")


class LineRule(abc.ABC):
    """Looks at one line. Subclasses are ``@settings`` classes with a ``type`` tag, which is their reason string."""

    drops_page: ClassVar[bool] = False
    """Whether a line that fails takes the page with it."""

    @abc.abstractmethod
    def apply(self, line: str) -> str | None:
        """What stays of ``line``, or None when it fails."""

    @abc.abstractmethod
    def check(self) -> Check:
        """What decides ``apply``, for the compiled pass over a page; for any line both say the same."""


@settings
class LongWord(LineRule):
    """Removes lines with a word longer than ``max_word_characters``."""

    type: Literal["long_word"] = "long_word"
    max_word_characters: Positive = 1000
    """The longest word, by white space, that a line may hold (TFDS: 1,000)."""

    def apply(self, line: str) -> str | None:
        if len(line) <= self.max_word_characters:
            return line
        return None if max(map(len, line.split()), default=0) > self.max_word_characters else line

    def check(self) -> Check:
        return Check(WORD_LENGTH, self.max_word_characters)


@settings
class Citations(LineRule):
    """Cuts Wikipedia's marks ``[1]``, ``[]``, ``[edit]`` and ``[citation needed]``; white space around them stays."""

    type: Literal["citations"] = "citations"

    def apply(self, line: str) -> str | None:
        return _CITATION.sub("", line) if "[" in line else line

    def check(self) -> Check:
        return Check(RARE, strings=("[",))


@settings
class EndMark(LineRule):
    """Removes lines that do not end in one of ``marks``."""

    type: Literal["end_mark"] = "end_mark"
    marks: tuple[str, ...] = (".", "?", "!", '"')
    """What a sentence ends in (Raffel et al. 2020: a terminal punctuation mark)."""

    def apply(self, line: str) -> str | None:
        return line if line.endswith(self.marks) else None

    def check(self) -> Check:
        return Check(ENDS, strings=self.marks)


@settings
class Ellipsis(LineRule):
    """Removes lines that end in three dots (TFDS; the paper does not mention it)."""

    type: Literal["ellipsis"] = "ellipsis"

    def apply(self, line: str) -> str | None:
        return None if line.endswith("...") else line

    def check(self) -> Check:
        return Check(ENDS_NOT, strings=("...",))


@settings
class FewWords(LineRule):
    """Removes lines of fewer than ``min_words`` words."""

    type: Literal["few_words"] = "few_words"
    min_words: Natural = 5
    """The fewest words, by white space (TFDS: 5; the paper: 3)."""

    def apply(self, line: str) -> str | None:
        return line if len(line.split(None, self.min_words)) >= self.min_words else None

    def check(self) -> Check:
        return Check(WORD_COUNT, self.min_words)


@settings
class LoremIpsum(LineRule):
    """Drops pages with placeholder text."""

    type: Literal["lorem_ipsum"] = "lorem_ipsum"
    drops_page: ClassVar[bool] = True

    def apply(self, line: str) -> str | None:
        return None if "lorem ipsum" in line.lower() else line

    def check(self) -> Check:
        return Check(RARE, strings=("lorem ipsum",))


@settings
class Javascript(LineRule):
    """Removes lines that ask for JavaScript."""

    type: Literal["javascript"] = "javascript"

    def apply(self, line: str) -> str | None:
        return None if "javascript" in line.lower() else line

    def check(self) -> Check:
        return Check(RARE, strings=("javascript",))


@settings
class CurlyBracket(LineRule):
    """Drops pages with ``{``: code, not prose."""

    type: Literal["curly_bracket"] = "curly_bracket"
    drops_page: ClassVar[bool] = True

    def apply(self, line: str) -> str | None:
        return None if "{" in line else line

    def check(self) -> Check:
        return Check(RARE, strings=("{",))


@settings
class Policy(LineRule):
    """Removes lines with one of ``phrases`` in any case: notices about cookies and terms."""

    type: Literal["policy"] = "policy"
    phrases: tuple[str, ...] = POLICY_PHRASES
    """Lower-case phrases (TFDS ``_POLICY_SUBSTRINGS``)."""

    def apply(self, line: str) -> str | None:
        lower = line.lower()
        return None if any(phrase in lower for phrase in self.phrases) else line

    def check(self) -> Check:
        return Check(RARE, strings=self.phrases)


AnyLineRule = Annotated[
    LongWord | Citations | EndMark | Ellipsis | FewWords | LoremIpsum | Javascript | CurlyBracket | Policy,
    Field(discriminator="type"),
]

"""C4's rules for a line.

    line ── rule ──> line (perhaps rewritten) ── rule ──> ... ──> kept
                └──> line removed      └──> page dropped

Rules, order and thresholds are those of ``clean_page`` of TFDS text/c4_utils.py. Raffel et al. 2020 ("Exploring the
Limits of Transfer Learning …"), section 2.2, describe them in words. ``apply`` is the readable form of a rule.
``check`` is its form for the compiled pass over a page (line_scan.py), and both give the same result.
"""

import abc
import re
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from headrace.data_prep.filters.c4.line_scan import ENDS, ENDS_NOT, RARE, WORD_COUNT, WORD_LENGTH, Check
from headrace.data_prep.filters.filter import AS_STORED, LineRule, Templates, check_lower_case
from headrace.pipeline.core.settings import Natural, Positive, SomeTexts, settings

POLICY_PHRASES = (
    "terms of use",
    "privacy policy",
    "cookie policy",
    "uses cookies",
    "use of cookies",
    "use cookies",
)
_CITATION = re.compile(r"\[\d*\]|\[edit\]|\[citation needed\]")


class C4Rule(LineRule):
    """A line rule that the compiled pass over a page can check."""

    drops_page: ClassVar[bool] = False
    """Whether a line that fails drops the whole page."""

    @abc.abstractmethod
    def check(self) -> Check:
        """Returns the rule in the form of the compiled pass, which decides every line as ``apply`` does."""


@settings
class LongWord(C4Rule):
    """Removes lines with a word longer than ``max_word_characters``."""

    explanation: ClassVar[Templates] = (
        "Removes lines with a word of more than {max_word_characters} characters.",
        AS_STORED,
    )
    type: Literal["long_word"] = "long_word"
    max_word_characters: Positive = 1000
    """Most characters of a word, separated by white space (TFDS: 1,000)."""

    def apply(self, line: str) -> str | None:
        if len(line) <= self.max_word_characters:
            return line
        return None if max(map(len, line.split()), default=0) > self.max_word_characters else line

    def check(self) -> Check:
        return Check(WORD_LENGTH, self.max_word_characters)


@settings
class Citations(C4Rule):
    """Cuts Wikipedia's marks ``[1]``, ``[]``, ``[edit]`` and ``[citation needed]``. White space around them is kept."""

    explanation: ClassVar[Templates] = ("Cuts the marks of citations out of lines.", AS_STORED)
    type: Literal["citations"] = "citations"

    def apply(self, line: str) -> str | None:
        return _CITATION.sub("", line) if "[" in line else line

    def check(self) -> Check:
        return Check(RARE, strings=("[",))


@settings
class EndMark(C4Rule):
    """Removes lines that do not end in one of ``marks``."""

    explanation: ClassVar[Templates] = ("Removes lines that do not end in one of {marks}", AS_STORED)
    type: Literal["end_mark"] = "end_mark"
    marks: SomeTexts = (".", "?", "!", '"')
    """Marks that end a sentence (Raffel et al. 2020: a terminal punctuation mark)."""

    def apply(self, line: str) -> str | None:
        return line if line.endswith(self.marks) else None

    def check(self) -> Check:
        return Check(ENDS, strings=self.marks)


@settings
class Ellipsis(C4Rule):
    """Removes lines that end in three dots (TFDS; the paper does not mention it)."""

    explanation: ClassVar[Templates] = ("Removes lines that end in three dots.", AS_STORED)
    type: Literal["ellipsis"] = "ellipsis"

    def apply(self, line: str) -> str | None:
        return None if line.endswith("...") else line

    def check(self) -> Check:
        return Check(ENDS_NOT, strings=("...",))


@settings
class FewWords(C4Rule):
    """Removes lines of fewer than ``min_words`` words."""

    explanation: ClassVar[Templates] = ("Removes lines of fewer than {min_words} words.", AS_STORED)
    type: Literal["few_words"] = "few_words"
    min_words: Natural = 5
    """Fewest words, separated by white space (TFDS: 5; the paper: 3)."""

    def apply(self, line: str) -> str | None:
        return line if len(line.split(None, self.min_words)) >= self.min_words else None

    def check(self) -> Check:
        return Check(WORD_COUNT, self.min_words)


@settings
class LoremIpsum(C4Rule):
    """Drops pages with placeholder text."""

    explanation: ClassVar[Templates] = ("Drops pages with the placeholder text “lorem ipsum”.", "in the line: {value}")
    type: Literal["lorem_ipsum"] = "lorem_ipsum"
    drops_page: ClassVar[bool] = True

    def apply(self, line: str) -> str | None:
        return None if "lorem ipsum" in line.lower() else line

    def check(self) -> Check:
        return Check(RARE, strings=("lorem ipsum",))


@settings
class Javascript(C4Rule):
    """Removes lines with the word "javascript" in any case: most ask the reader to enable it."""

    explanation: ClassVar[Templates] = ("Removes lines with the word “javascript”.", AS_STORED)
    type: Literal["javascript"] = "javascript"

    def apply(self, line: str) -> str | None:
        return None if "javascript" in line.lower() else line

    def check(self) -> Check:
        return Check(RARE, strings=("javascript",))


@settings
class CurlyBracket(C4Rule):
    """Drops pages with ``{``, which contain code."""

    explanation: ClassVar[Templates] = (
        "Drops pages with a curly bracket, which are often code.",
        "in the line: {value}",
    )
    type: Literal["curly_bracket"] = "curly_bracket"
    drops_page: ClassVar[bool] = True

    def apply(self, line: str) -> str | None:
        return None if "{" in line else line

    def check(self) -> Check:
        return Check(RARE, strings=("{",))


@settings
class Policy(C4Rule):
    """Removes lines with one of ``phrases`` in any case: notices about cookies and terms of use."""

    explanation: ClassVar[Templates] = ("Removes lines about terms of use, privacy and cookies.", AS_STORED)
    type: Literal["policy"] = "policy"
    phrases: SomeTexts = POLICY_PHRASES
    """Lower-case phrases (TFDS ``_POLICY_SUBSTRINGS``)."""

    def __post_init__(self) -> None:
        check_lower_case("policy.phrases", self.phrases)

    def apply(self, line: str) -> str | None:
        lower = line.lower()
        return None if any(phrase in lower for phrase in self.phrases) else line

    def check(self) -> Check:
        return Check(RARE, strings=self.phrases)


AnyC4Rule = Annotated[
    LongWord | Citations | EndMark | Ellipsis | FewWords | LoremIpsum | Javascript | CurlyBracket | Policy,
    Field(discriminator="type"),
]

"""C4's page cleaning: an ordered list of rules, each seeing what the ones before it left of a line.

    line ── rule ──> line (perhaps rewritten) ── rule ──> ... ──> kept
                └──> line removed      └──> page dropped

Rules, order and thresholds: ``clean_page`` of TFDS text/c4_utils.py; the same rules in words: Raffel et al. 2020
("Exploring the Limits of Transfer Learning …"), section 2.2. Because a page rule sees only lines that got through the
rules before it, the order of the list decides: ``conf/cleaning/c4.yaml`` has that of the code, ``c4_paper.yaml`` puts
the page rules first, as the paper words them.
"""

import abc
import re
from typing import Annotated, ClassVar, Literal

from datatrove.data import Document
from pydantic import Field

from data_prep.document import Drop
from data_prep.filters.filter import Filter, count_removed, filter_settings
from data_prep.filters.sentences import count_sentences, punkt_files, punkt_folder
from pipeline.core.settings import settings
from pipeline.core.stage import RawFile

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


@settings
class LongWord(LineRule):
    """Removes lines with a word longer than ``max_word_characters``."""

    type: Literal["long_word"] = "long_word"
    max_word_characters: int = 1000
    """The longest word, by white space, that a line may hold (TFDS: 1,000)."""

    def apply(self, line: str) -> str | None:
        if len(line) <= self.max_word_characters:
            return line
        return None if max(map(len, line.split()), default=0) > self.max_word_characters else line


@settings
class Citations(LineRule):
    """Cuts Wikipedia's marks ``[1]``, ``[]``, ``[edit]`` and ``[citation needed]``; white space around them stays."""

    type: Literal["citations"] = "citations"

    def apply(self, line: str) -> str | None:
        return _CITATION.sub("", line) if "[" in line else line


@settings
class EndMark(LineRule):
    """Removes lines that do not end in one of ``marks``."""

    type: Literal["end_mark"] = "end_mark"
    marks: tuple[str, ...] = (".", "?", "!", '"')
    """What a sentence ends in (Raffel et al. 2020: a terminal punctuation mark)."""

    def apply(self, line: str) -> str | None:
        return line if line.endswith(self.marks) else None


@settings
class Ellipsis(LineRule):
    """Removes lines that end in three dots (TFDS; the paper does not mention it)."""

    type: Literal["ellipsis"] = "ellipsis"

    def apply(self, line: str) -> str | None:
        return None if line.endswith("...") else line


@settings
class FewWords(LineRule):
    """Removes lines of fewer than ``min_words`` words."""

    type: Literal["few_words"] = "few_words"
    min_words: int = 5
    """The fewest words, by white space (TFDS: 5; the paper: 3)."""

    def apply(self, line: str) -> str | None:
        return line if len(line.split(None, self.min_words)) >= self.min_words else None


@settings
class LoremIpsum(LineRule):
    """Drops pages with placeholder text."""

    type: Literal["lorem_ipsum"] = "lorem_ipsum"
    drops_page: ClassVar[bool] = True

    def apply(self, line: str) -> str | None:
        return None if "lorem ipsum" in line.lower() else line


@settings
class Javascript(LineRule):
    """Removes lines that ask for JavaScript."""

    type: Literal["javascript"] = "javascript"

    def apply(self, line: str) -> str | None:
        return None if "javascript" in line.lower() else line


@settings
class CurlyBracket(LineRule):
    """Drops pages with ``{``: code, not prose."""

    type: Literal["curly_bracket"] = "curly_bracket"
    drops_page: ClassVar[bool] = True

    def apply(self, line: str) -> str | None:
        return None if "{" in line else line


@settings
class Policy(LineRule):
    """Removes lines with one of ``phrases`` in any case: notices about cookies and terms."""

    type: Literal["policy"] = "policy"
    phrases: tuple[str, ...] = POLICY_PHRASES
    """Lower-case phrases (TFDS ``_POLICY_SUBSTRINGS``)."""

    def apply(self, line: str) -> str | None:
        lower = line.lower()
        return None if any(phrase in lower for phrase in self.phrases) else line


AnyLineRule = Annotated[
    LongWord | Citations | EndMark | Ellipsis | FewWords | LoremIpsum | Javascript | CurlyBracket | Policy,
    Field(discriminator="type"),
]


@filter_settings
class C4Lines(Filter):
    """Removes lines and drops pages by ``rules``; drops pages of fewer than ``min_sentences`` sentences.

    The sentences of a page are those of its kept lines, counted line by line.
    """

    type: Literal["c4_lines"] = "c4_lines"
    rules: tuple[AnyLineRule, ...] = (
        LongWord(),
        Citations(),
        EndMark(),
        Ellipsis(),
        FewWords(),
        LoremIpsum(),
        Javascript(),
        CurlyBracket(),
        Policy(),
    )
    """What each stripped, non-empty line goes through, in this order."""
    min_sentences: int = 3
    """The fewest sentences of a page (TFDS: 3; the paper: 5)."""
    punkt_path: str | None = None
    """A folder with nltk's punkt_tab English files; None: those that llama-index-core carries."""

    def __post_init__(self) -> None:
        super().__post_init__()
        punkt_folder(self.punkt_path)

    def raw_files(self) -> tuple[RawFile, ...]:
        return punkt_files(self.punkt_path)

    def judge(self, document: Document) -> Drop | None:
        kept: list[str] = []
        removed: dict[str, int] = {}
        for line in filter(None, map(str.strip, document.text.splitlines())):
            left, failed = self._apply(line)
            if failed is None:
                kept.append(left)
            elif failed.drops_page:
                return Drop(f"{self.type}.{failed.type}", left[:200])  # type: ignore[attr-defined]
            else:
                rule = f"{self.type}.{failed.type}"  # type: ignore[attr-defined]
                removed[rule] = removed.get(rule, 0) + 1
        sentences = self._sentences(kept)
        if sentences < self.min_sentences:
            return Drop(f"{self.type}.sentences", str(sentences))
        for rule, number in removed.items():
            count_removed(document, rule, number)
        document.text = "\n".join(kept).strip()
        return None

    def _apply(self, line: str) -> tuple[str, LineRule | None]:
        """What the rules leave of ``line``, and the rule that it failed, if any."""
        for rule in self.rules:
            left = rule.apply(line)
            if left is None:
                return line, rule
            line = left
        return line, None

    def _sentences(self, lines: list[str]) -> int:
        """The sentences of ``lines``, counted only as far as ``min_sentences``: a non-empty line has at least one."""
        filled = sum(1 for line in lines if not line.isspace() and line)
        if filled >= self.min_sentences:
            return filled
        return sum(count_sentences(line, self.min_sentences, self.punkt_path) for line in lines)

"""C4's page cleaning: line rules and a minimum number of sentences, and its filters by the length of a page.

    page ── scanned_lines ──> decided lines | undecided lines ── rules ──> kept lines ──> sentences

    line ── rule ──> line (perhaps rewritten) ── rule ──> ... ──> kept
                └──> line removed      └──> page dropped

Rules, order and thresholds are those of ``clean_page`` of TFDS text/c4_utils.py. Raffel et al. 2020 ("Exploring the
Limits of Transfer Learning …"), section 2.2, describe them in words. ``apply`` is the readable form of a rule,
``check`` its form for the compiled pass over a page (line_scan.py); both give the same result. A rule that drops the
page sees only lines that passed the rules before it, so the order matters: ``conf/cleaning/c4.yaml`` has the order of
the code, and ``c4_paper.yaml`` has such rules first, as the paper words it.
"""

import abc
import itertools
import re
from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal

from datatrove.data import Document
from pydantic import Field

from headrace.data_prep.document import Drop
from headrace.data_prep.filters.c4.line_scan import (
    ENDS,
    ENDS_NOT,
    KEPT,
    RARE,
    UNDECIDED,
    WORD_COUNT,
    WORD_LENGTH,
    Check,
    ScannedLines,
    scanned_lines,
)
from headrace.data_prep.filters.filter import (
    HARD_WRAPPED,
    Explanations,
    Filter,
    LineFilter,
    LineRule,
    apply_rules,
    check_lower_case,
    count_removed,
    filter_settings,
)
from headrace.data_prep.filters.punkt import count_sentences, punkt_files, punkt_folder
from headrace.data_prep.text.segments import sentence_segments
from headrace.data_prep.text.unwrapped_lines import FEWEST_LINES, is_hard_wrapped
from headrace.pipeline.core.settings import FilePath, Natural, Positive, SomeTexts, settings
from headrace.pipeline.core.stage import RawFile

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
    """Removes lines with a word of more than ``max_word_characters`` characters."""

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
    """Cuts the marks of citations out of lines.

    They are Wikipedia's ``[1]``, ``[]``, ``[edit]`` and ``[citation needed]``. White space around them is kept.
    """

    type: Literal["citations"] = "citations"

    def apply(self, line: str) -> str | None:
        return _CITATION.sub("", line) if "[" in line else line

    def check(self) -> Check:
        return Check(RARE, strings=("[",))


@settings
class EndMark(C4Rule):
    """Removes lines without one of ``marks`` at the end."""

    type: Literal["end_mark"] = "end_mark"
    marks: SomeTexts = (".", "?", "!", '"')
    """Marks that end a sentence (Raffel et al. 2020: a terminal punctuation mark)."""

    def apply(self, line: str) -> str | None:
        return line if line.endswith(self.marks) else None

    def check(self) -> Check:
        return Check(ENDS, strings=self.marks)


@settings
class Ellipsis(C4Rule):
    """Removes lines that end in three dots.

    TFDS has this rule; the paper does not mention it.
    """

    type: Literal["ellipsis"] = "ellipsis"

    def apply(self, line: str) -> str | None:
        return None if line.endswith("...") else line

    def check(self) -> Check:
        return Check(ENDS_NOT, strings=("...",))


@settings
class FewWords(C4Rule):
    """Removes lines of fewer than ``min_words`` words."""

    type: Literal["few_words"] = "few_words"
    min_words: Natural = 5
    """Fewest words, separated by white space (TFDS: 5; the paper: 3)."""

    def apply(self, line: str) -> str | None:
        return line if len(line.split(None, self.min_words)) >= self.min_words else None

    def check(self) -> Check:
        return Check(WORD_COUNT, self.min_words)


@settings
class LoremIpsum(C4Rule):
    """Drops pages with the placeholder text “lorem ipsum”."""

    meaning: ClassVar[str] = "in the line: {value}"
    type: Literal["lorem_ipsum"] = "lorem_ipsum"
    drops_page: ClassVar[bool] = True

    def apply(self, line: str) -> str | None:
        return None if "lorem ipsum" in line.lower() else line

    def check(self) -> Check:
        return Check(RARE, strings=("lorem ipsum",))


@settings
class Javascript(C4Rule):
    """Removes lines with the word “javascript”.

    It counts in any case. Most of these lines ask the reader to enable it.
    """

    type: Literal["javascript"] = "javascript"

    def apply(self, line: str) -> str | None:
        return None if "javascript" in line.lower() else line

    def check(self) -> Check:
        return Check(RARE, strings=("javascript",))


@settings
class CurlyBracket(C4Rule):
    """Drops pages with a curly bracket, which are often code."""

    meaning: ClassVar[str] = "in the line: {value}"
    type: Literal["curly_bracket"] = "curly_bracket"
    drops_page: ClassVar[bool] = True

    def apply(self, line: str) -> str | None:
        return None if "{" in line else line

    def check(self) -> Check:
        return Check(RARE, strings=("{",))


@settings
class Policy(C4Rule):
    """Removes lines about terms of use, privacy and cookies.

    These hold one of ``phrases`` in any case.
    """

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


END_MARK = EndMark().type


@filter_settings
class C4Lines(LineFilter):
    """Removes lines and drops pages by ``rules``. Drops pages with fewer than ``min_sentences`` sentences.

    The sentences of a page are those of its kept lines, counted line by line.
    """

    revision: ClassVar[int] = 1
    explanations: ClassVar[Explanations] = {
        "sentences": (
            "Drops pages with fewer than {min_sentences} sentences left.",
            "{number} sentences left, {min_sentences} needed",
        ),
    }
    type: Literal["c4_lines"] = "c4_lines"
    rules: tuple[AnyC4Rule, ...] = (
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
    """The rules that each stripped, non-empty line passes through, in this order."""
    min_sentences: Natural = 3
    """Fewest sentences of a page (TFDS: 3; the paper: 5)."""
    sentences: Literal["punkt", "marks"] = "punkt"
    """The way to count sentences: English Punkt (C4's), or by the end marks of all scripts (text/segments.py)."""
    punkt_path: FilePath | None = None
    """A folder with nltk's punkt_tab English files; None: those of the package llama-index-core."""

    def __post_init__(self) -> None:
        punkt_folder(self.punkt_path)
        self._checks = tuple(rule.check() for rule in self.rules)

    def raw_files(self) -> tuple[RawFile, ...]:
        return punkt_files(self.punkt_path)

    def english_rules(self, document: Document) -> tuple[str, ...]:
        """Returns the count of sentences by Punkt, and end marks of ASCII, which other scripts do not use."""
        ascii_marks = (rule for rule in self.rules if isinstance(rule, EndMark) and "".join(rule.marks).isascii())
        sentences = (f"{self.type}.sentences",) * (self.sentences == "punkt" and self.min_sentences > 0)
        return (*(self.reason(rule.type) for rule in ascii_marks), *sentences)

    def judge(self, document: Document) -> Drop | None:
        text = document.text
        kept: list[str] = []
        removed: dict[str, int] = {}
        failed: C4Rule | None
        scanned = scanned_lines(text, self._checks)
        for start, end, verdict in scanned.rows():
            line, failed = text[start:end], None
            if verdict == UNDECIDED:
                line, failed = apply_rules(self.rules, line)
            elif verdict != KEPT:
                failed = self.rules[verdict]
            if failed is None:
                kept.append(line)
            elif failed.drops_page:
                return Drop(self.reason(failed.type), line[:200])
            else:
                removed[failed.type] = removed.get(failed.type, 0) + 1
        self._note_wrapping(document, scanned, removed)
        sentences = self._sentences(kept)
        if sentences < self.min_sentences:
            return Drop(f"{self.type}.sentences", str(sentences))
        for rule, number in removed.items():
            count_removed(document, self.reason(rule), number)
        document.text = "\n".join(kept).strip()
        return None

    def _note_wrapping(self, document: Document, scanned: ScannedLines, removed: Mapping[str, int]) -> None:
        """Stores in the metadata that the rule of end marks removed lines of a hard-wrapped page.

        These are lines that mostly go on in the next one; the value is the number of those that do.
        """
        unfinished = removed.get(END_MARK, 0)
        if unfinished >= FEWEST_LINES:
            rule = next(number for number, rule in enumerate(self.rules) if rule.type == END_MARK)
            continued = scanned.continued(rule)
            if is_hard_wrapped(unfinished, continued):
                document.metadata[HARD_WRAPPED] = {self.reason(END_MARK): continued}

    def _sentences(self, lines: list[str]) -> int:
        """Counts the sentences of ``lines``, up to ``min_sentences``. A line that is not blank has at least one."""
        if self.sentences == "marks":
            return len(sentence_segments("\n".join(lines)))
        filled = sum(1 for _ in itertools.islice(filter(str.strip, lines), self.min_sentences))
        if filled >= self.min_sentences:
            return filled
        return sum(count_sentences(line, self.min_sentences, self.punkt_path) for line in lines)


@filter_settings
class StrippedLines(Filter):
    """Rewrites pages to their stripped lines without blank ones. Drops no page.

    Source: ``split_wet_file`` of TFDS text/c4_utils.py, which does this to every page that it reads.
    """

    type: Literal["stripped_lines"] = "stripped_lines"

    def judge(self, document: Document) -> Drop | None:
        document.text = page_text(document.text)
        return None


@filter_settings
class PageLength(Filter):
    """Drops pages of more than ``max_characters``, which are logs, dumps or spam.

    The characters are those of the stripped lines without blank ones, joined by line feeds. Source of the limit and of
    the counting: ``is_valid_length`` and ``split_wet_file`` of TFDS text/c4_utils.py.
    """

    explanations: ClassVar[Explanations] = {
        "": (
            "Drops pages of more than {max_characters} characters.",
            "{number} characters, at most {max_characters} allowed",
        ),
    }
    type: Literal["page_length"] = "page_length"
    max_characters: Positive = 190_000
    """Most characters of a page that is kept."""

    def judge(self, document: Document) -> Drop | None:
        if len(document.text) <= self.max_characters:  # stripping only shortens
            return None
        characters = len(page_text(document.text))
        return Drop(self.type, str(characters)) if characters > self.max_characters else None


@filter_settings
class LongLines(Filter):
    """Drops pages with fewer than ``min_lines`` lines of at least ``min_characters``.

    It is mC4's only rule for the text, because it works in any language. Source: Xue et al. 2021 ("mT5: A Massively
    Multilingual Pre-trained Text-to-Text Transformer"), section 3.1; ``paragraph_filter`` of TFDS text/c4_utils.py.
    """

    explanations: ClassVar[Explanations] = {
        "": (
            "Drops pages with fewer than {min_lines} lines of at least {min_characters} characters.",
            "{number} long lines, {min_lines} needed",
        ),
    }
    type: Literal["long_lines"] = "long_lines"
    min_lines: Natural = 3
    """Fewest long lines (mC4: 3)."""
    min_characters: Natural = 200
    """Fewest characters of a long line (mC4: 200)."""

    def judge(self, document: Document) -> Drop | None:
        lines = sum(len(line) >= self.min_characters for line in document.text.split("\n"))
        return None if lines >= self.min_lines else Drop(self.type, str(lines))


def page_text(text: str) -> str:
    """Returns the stripped lines of ``text`` without blank ones, joined by line feeds. Lines end at LF, CR or CR LF."""
    lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    return "\n".join(filter(None, (line.strip() for line in lines)))

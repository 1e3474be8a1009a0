"""C4's page cleaning: an ordered list of line rules, then a minimum number of sentences.

    page ── scan_lines ──> decided lines | undecided lines ── rules ──> kept lines ──> sentences

A rule that drops the page sees only lines that passed the rules before it, so the order of the list matters:
``conf/cleaning/c4.yaml`` has the order of the code, and ``c4_paper.yaml`` has such rules first, as the paper words it.
"""

import itertools
from collections.abc import Mapping
from typing import ClassVar, Literal

from datatrove.data import Document

from headrace.data_prep.document import Drop
from headrace.data_prep.filters.c4.line_scan import KEPT, UNDECIDED, ScannedLines, scanned_lines
from headrace.data_prep.filters.c4.rules import (
    AnyC4Rule,
    C4Rule,
    Citations,
    CurlyBracket,
    Ellipsis,
    EndMark,
    FewWords,
    Javascript,
    LongWord,
    LoremIpsum,
    Policy,
)
from headrace.data_prep.filters.filter import (
    HARD_WRAPPED,
    Explanations,
    LineFilter,
    apply_rules,
    count_removed,
    filter_settings,
)
from headrace.data_prep.filters.punkt import count_sentences, punkt_files, punkt_folder
from headrace.data_prep.filters.unwrapped_lines import FEWEST_LINES, is_hard_wrapped
from headrace.data_prep.text.segments import sentence_segments
from headrace.pipeline.core.settings import FilePath, Natural
from headrace.pipeline.core.stage import RawFile

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

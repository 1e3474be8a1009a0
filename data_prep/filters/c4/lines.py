"""C4's page cleaning: an ordered list of rules, each seeing what the ones before it left of a line.

    page ── scanned ──> lines whose fate is plain │ lines that the rules are asked about ──> kept lines ──> sentences

Because a page rule sees only lines that got through the rules before it, the order of the list decides:
``conf/cleaning/c4.yaml`` has that of the code, ``c4_paper.yaml`` puts the page rules first, as the paper words them.
"""

import itertools
from typing import Literal

from datatrove.data import Document

from headrace.data_prep.document import Drop
from headrace.data_prep.filters.c4.line_rules import (
    AnyLineRule,
    Citations,
    CurlyBracket,
    Ellipsis,
    EndMark,
    FewWords,
    Javascript,
    LineRule,
    LongWord,
    LoremIpsum,
    Policy,
)
from headrace.data_prep.filters.c4.line_scan import ASK, KEPT, scanned
from headrace.data_prep.filters.filter import Filter, count_removed, filter_settings
from headrace.data_prep.filters.sentences import count_sentences, punkt_files, punkt_folder
from headrace.pipeline.core.settings import Natural
from headrace.pipeline.core.stage import RawFile


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
    min_sentences: Natural = 3
    """The fewest sentences of a page (TFDS: 3; the paper: 5)."""
    punkt_path: str | None = None
    """A folder with nltk's punkt_tab English files; None: those that llama-index-core carries."""

    def __post_init__(self) -> None:
        super().__post_init__()
        punkt_folder(self.punkt_path)
        self._checks = tuple(rule.check() for rule in self.rules)

    def raw_files(self) -> tuple[RawFile, ...]:
        return punkt_files(self.punkt_path)

    def judge(self, document: Document) -> Drop | None:
        text = document.text
        kept: list[str] = []
        removed: dict[str, int] = {}
        failed: LineRule | None
        for start, end, verdict in scanned(text, self._checks):
            line, failed = text[start:end], None
            if verdict == ASK:
                line, failed = self._apply(line)
            elif verdict != KEPT:
                failed = self.rules[verdict]
            if failed is None:
                kept.append(line)
            elif failed.drops_page:
                return Drop(f"{self.type}.{failed.type}", line[:200])  # type: ignore[attr-defined]
            else:
                removed[failed.type] = removed.get(failed.type, 0) + 1  # type: ignore[attr-defined]
        sentences = self._sentences(kept)
        if sentences < self.min_sentences:
            return Drop(f"{self.type}.sentences", str(sentences))
        for rule, number in removed.items():
            count_removed(document, f"{self.type}.{rule}", number)
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
        filled = sum(1 for _ in itertools.islice(filter(str.strip, lines), self.min_sentences))
        if filled >= self.min_sentences:
            return filled
        return sum(count_sentences(line, self.min_sentences, self.punkt_path) for line in lines)

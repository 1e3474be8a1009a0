"""RefinedWeb's line-wise corrections: removes the remains of menus, counters and buttons, line by line.

    line ── rule, rule, … ──> line (perhaps shorter) | removed          too many words removed ──> page dropped

Source: Penedo et al. 2023 ("The RefinedWeb Dataset for Falcon LLM"), appendix G.2. The paper gives examples, not lists.
Counters and phrases follow DCLM's re-implementation (Li et al. 2024, its ``baselines/mappers/modifiers.py`` and
``dclm_baseline_refinedweb.yaml``).
"""

import re
from typing import Annotated, ClassVar, Literal

from datatrove.data import Document
from pydantic import Field

from headrace.data_prep.document import Drop
from headrace.data_prep.filters.c4.rules import FewWords
from headrace.data_prep.filters.filter import (
    AS_STORED,
    Explanations,
    LineFilter,
    LineRule,
    Templates,
    above,
    apply_rules,
    check_lower_case,
    count_removed,
    filter_settings,
    ratio,
)
from headrace.pipeline.core.settings import Fraction, Positive, SomeTexts, settings

COUNTED = (
    "likes",
    "shares",
    "comments",
    "retweets",
    "reposts",
    "quotes",
    "bookmarks",
    "upvotes",
    "downvotes",
    "downloads",
    "views",
    "followers",
)
_COUNT = re.compile(r"\W*\d[\d.,]*[kmb]?\s+(\w+)\W*")


@settings
class UppercaseLine(LineRule):
    """Removes lines in which more than ``max_fraction`` of the characters are capitals."""

    explanation: ClassVar[Templates] = ("Removes lines with more than {max_fraction} capitals.", AS_STORED)
    type: Literal["uppercase_line"] = "uppercase_line"
    max_fraction: Fraction = 0.5
    """Highest fraction of capitals (RefinedWeb: "mainly"; DCLM: 0.5)."""

    def apply(self, line: str) -> str | None:
        return None if ratio(sum(map(str.isupper, line)), len(line)) > self.max_fraction else line


@settings
class NumericLine(LineRule):
    """Removes lines that consist of digits only."""

    explanation: ClassVar[Templates] = ("Removes lines of digits.", AS_STORED)
    type: Literal["numeric_line"] = "numeric_line"

    def apply(self, line: str) -> str | None:
        return None if line.isdigit() else line


@settings
class CounterLine(LineRule):
    """Removes lines that consist of a counter: ``3 likes``, ``1.2K views``."""

    explanation: ClassVar[Templates] = ("Removes lines that are only a counter, such as “3 likes”.", AS_STORED)
    type: Literal["counter_line"] = "counter_line"
    counted: SomeTexts = COUNTED
    """Nouns that are counted, in lower case (DCLM's list)."""

    def __post_init__(self) -> None:
        check_lower_case("counter_line.counted", self.counted)

    def apply(self, line: str) -> str | None:
        match = _COUNT.fullmatch(line.lower())
        return None if match and match.group(1) in self.counted else line


@settings
class CutPhrase(LineRule):
    """Cuts ``phrase``, in any case, out of short lines. A line that is empty afterwards is removed."""

    explanation: ClassVar[Templates] = ("Removes lines that consist of the remains of a menu or button.", AS_STORED)
    type: Literal["cut_phrase"] = "cut_phrase"
    phrase: str
    """The text to cut (RefinedWeb's examples: sign-in, read more..., items in cart)."""
    place: Literal["beginning", "end", "anywhere"] = "anywhere"
    """Position of the phrase in the line."""
    max_words: Positive = 10
    """Most words of a line that the rule applies to (RefinedWeb: 10)."""

    def apply(self, line: str) -> str | None:
        if len(line.split(None, self.max_words)) > self.max_words:
            return line
        phrase = re.escape(self.phrase)
        patterns = {"beginning": rf"\A{phrase}\s?", "end": rf"\s?{phrase}\Z", "anywhere": rf"\s?{phrase}"}
        remaining = re.sub(patterns[self.place], "", line, flags=re.IGNORECASE)
        return remaining if remaining.strip() else None


AnyCorrection = Annotated[UppercaseLine | NumericLine | CounterLine | FewWords | CutPhrase, Field(discriminator="type")]


@filter_settings
class LineCorrections(LineFilter):
    """Removes and shortens lines by ``rules``. Drops pages that lose too many of their words. Empty lines are kept."""

    explanations: ClassVar[Explanations] = {
        "removed_words": (
            "Drops pages that lose more than {max_removed_fraction} of their words.",
            "{share} of the words removed, at most {max_removed_fraction} allowed",
        ),
    }
    type: Literal["line_corrections"] = "line_corrections"
    rules: tuple[AnyCorrection, ...] = (
        UppercaseLine(),
        NumericLine(),
        CounterLine(),
        FewWords(min_words=2),
        CutPhrase(phrase="items in cart"),
        CutPhrase(phrase="read more...", place="end"),
        CutPhrase(phrase="sign-in", place="beginning"),
    )
    """The rules that each line passes through, in this order."""
    max_removed_fraction: Fraction = 0.05
    """Highest fraction of its words, separated by white space, that a page may lose (RefinedWeb: 5 %)."""

    def english_rules(self, document: Document) -> tuple[str, ...]:
        """Returns the rules with English words."""
        return tuple(
            dict.fromkeys(self.reason(rule.type) for rule in self.rules if isinstance(rule, CounterLine | CutPhrase))
        )

    def judge(self, document: Document) -> Drop | None:
        kept: list[str] = []
        removed: dict[str, int] = {}
        for original in document.text.split("\n"):
            line, failed = apply_rules(self.rules if original else (), original)
            if failed is None:
                kept.append(line)
            else:
                removed[failed.type] = removed.get(failed.type, 0) + 1
        text = "\n".join(kept).strip()
        before, after = len(document.text.split()), len(text.split())
        too_many = above(ratio(before - after, before), self.max_removed_fraction)
        if too_many or not text:
            return Drop(f"{self.type}.removed_words", too_many or "0.0000")
        for rule, number in removed.items():
            count_removed(document, self.reason(rule), number)
        document.text = text
        return None

"""RefinedWeb's line-wise corrections: what extraction leaves of menus, counters and buttons, cut line by line.

    line ── rule, rule, … ──> line (perhaps shorter) | removed          too many words removed ──> page dropped

Penedo et al. 2023, "The RefinedWeb Dataset for Falcon LLM", appendix G.2. The paper gives examples, not lists; what a
counter is and which phrases are cut follows DCLM's re-implementation (Li et al. 2024, its
``baselines/mappers/modifiers.py`` and ``dclm_baseline_refinedweb.yaml``).
"""

import abc
import re
from typing import Annotated, Literal

from datatrove.data import Document
from pydantic import Field

from headrace.data_prep.document import Drop
from headrace.data_prep.filters.c4.line_rules import FewWords
from headrace.data_prep.filters.filter import Filter, count_removed, filter_settings
from headrace.data_prep.filters.gopher.page import above, share
from headrace.pipeline.core.settings import Fraction, Positive, settings

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


class Correction(abc.ABC):
    """Looks at one line. Subclasses are ``@settings`` classes with a ``type`` tag, which is their reason string."""

    @abc.abstractmethod
    def apply(self, line: str) -> str | None:
        """What stays of ``line``, or None when it is removed."""


@settings
class UppercaseLine(Correction):
    """Removes lines of which more than ``max_fraction`` of the characters are capitals."""

    type: Literal["uppercase_line"] = "uppercase_line"
    max_fraction: Fraction = 0.5
    """The greatest fraction (RefinedWeb: "mainly"; DCLM: 0.5)."""

    def apply(self, line: str) -> str | None:
        return None if share(sum(map(str.isupper, line)), len(line)) > self.max_fraction else line


@settings
class NumericLine(Correction):
    """Removes lines of nothing but digits."""

    type: Literal["numeric_line"] = "numeric_line"

    def apply(self, line: str) -> str | None:
        return None if line.isdigit() else line


@settings
class CounterLine(Correction):
    """Removes lines that only count something: ``3 likes``, ``1.2K views``."""

    type: Literal["counter_line"] = "counter_line"
    counted: tuple[str, ...] = COUNTED
    """What is counted, in lower case (DCLM's list)."""

    def apply(self, line: str) -> str | None:
        found = _COUNT.fullmatch(line.lower())
        return None if found and found.group(1) in self.counted else line


@settings
class CutPhrase(Correction):
    """Cuts ``phrase``, in any case, out of short lines, and removes those that were nothing else."""

    type: Literal["cut_phrase"] = "cut_phrase"
    phrase: str
    """What is cut (RefinedWeb's examples: sign-in, read more..., items in cart)."""
    place: Literal["beginning", "end", "anywhere"] = "anywhere"
    """Where in the line it must stand."""
    max_words: Positive = 10
    """The longest line that is looked at (RefinedWeb: 10)."""

    def apply(self, line: str) -> str | None:
        if len(line.split(None, self.max_words)) > self.max_words:
            return line
        phrase = re.escape(self.phrase)
        patterns = {"beginning": rf"\A{phrase}\s?", "end": rf"\s?{phrase}\Z", "anywhere": rf"\s?{phrase}"}
        left = re.sub(patterns[self.place], "", line, flags=re.IGNORECASE)
        return left if left.strip() else None


AnyCorrection = Annotated[UppercaseLine | NumericLine | CounterLine | FewWords | CutPhrase, Field(discriminator="type")]


@filter_settings
class LineCorrections(Filter):
    """Removes and shortens lines by ``rules``; drops pages that lose too many of their words. Empty lines stay."""

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
    """What each line goes through, in this order."""
    max_removed_fraction: Fraction = 0.05
    """The greatest fraction of the words, by white space, that a page may lose (RefinedWeb: 5 %)."""

    def judge(self, document: Document) -> Drop | None:
        kept: list[str] = []
        removed: dict[str, int] = {}
        for line in document.text.split("\n"):
            left: str | None = line
            for rule in self.rules if line else ():
                left = rule.apply(line)
                if left is None:
                    name = f"{self.type}.{rule.type}"
                    removed[name] = removed.get(name, 0) + 1
                    break
                line = left
            if left is not None:
                kept.append(left)
        text = "\n".join(kept).strip()
        before, after = len(document.text.split()), len(text.split())
        too_many = above(share(before - after, before), self.max_removed_fraction)
        if too_many or not text:
            return Drop(f"{self.type}.removed_words", too_many or "0.0000")
        for name, number in removed.items():
            count_removed(document, name, number)
        document.text = text
        return None

"""RefinedWeb's edits of a text: the remains of menus, counters and buttons, line by line, and web addresses.

    line ── rule, rule, … ──> line (perhaps shorter) | removed          too many words removed ──> page dropped
    See https://a.org/x?y for more. ──> See for more.

Source: Penedo et al. 2023 ("The RefinedWeb Dataset for Falcon LLM"), section 3.1 and appendix G.2. The paper gives
examples, not lists. Counters and phrases follow DCLM's re-implementation (Li et al. 2024, its
``baselines/mappers/modifiers.py`` and ``dclm_baseline_refinedweb.yaml``).
"""

import re
from typing import Annotated, ClassVar, Literal

from datatrove.data import Document
from pydantic import Field

from headrace.data_prep.document import Drop
from headrace.data_prep.filters.c4.lines import FewWords
from headrace.data_prep.filters.filter import (
    Explanations,
    Filter,
    LineFilter,
    LineRule,
    apply_rules,
    check_lower_case,
    count_removed,
    filter_settings,
    ratio,
)
from headrace.pipeline.core.settings import Fraction, Natural, Positive, SomeTexts, settings

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
    """Removes lines with more than ``max_fraction`` capitals."""

    type: Literal["uppercase_line"] = "uppercase_line"
    max_fraction: Fraction = 0.5
    """Highest fraction of capitals (RefinedWeb: "mainly"; DCLM: 0.5)."""

    def apply(self, line: str) -> str | None:
        return None if ratio(sum(map(str.isupper, line)), len(line)) > self.max_fraction else line


@settings
class NumericLine(LineRule):
    """Removes lines of digits."""

    type: Literal["numeric_line"] = "numeric_line"

    def apply(self, line: str) -> str | None:
        return None if line.isdigit() else line


@settings
class CounterLine(LineRule):
    """Removes lines that are only a counter, such as “3 likes”."""

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
    """Removes lines that consist of the remains of a menu or button.

    Cuts ``phrase``, in any case, out of short lines. A line that is empty afterwards is removed.
    """

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
        fraction = ratio(before - after, before)
        too_many = fraction > self.max_removed_fraction
        if too_many or not text:
            return Drop(f"{self.type}.removed_words", f"{fraction * too_many:.4f}")
        for rule, number in removed.items():
            count_removed(document, self.reason(rule), number)
        document.text = text
        return None


_ADDRESS = re.compile(
    r"(?:(?<![^\S\n])[^\S\n]+)?\b(?:(?:https?|ftp)://|www\.)[^\s<>\"']*[^\s<>\"'.,;:!?)\]}]", re.IGNORECASE
)
"""A URL with the white space before it. The lookbehind starts a match only at the beginning of a run of white space, so
the time for a run grows linearly with its length."""


@filter_settings
class WithoutAddresses(Filter):
    """Removes URLs (``http://…``, ``https://…``, ``ftp://…``, ``www.…``) and shortens runs of line feeds. Drops only
    pages that are empty afterwards.

    Source: Penedo et al. 2023 ("The RefinedWeb Dataset for Falcon LLM"), section 3.1: no URLs, at most two line feeds
    in a row. The paper does not give its regular expression. Here names without scheme or ``www.`` are kept, and so is
    punctuation after a URL.
    """

    explanations: ClassVar[Explanations] = {
        "": ("Drops pages that hold only web addresses.", "nothing else is on the page"),
    }
    type: Literal["without_addresses"] = "without_addresses"
    max_line_feeds: Natural = 2
    """Longest run of line feeds that is kept (RefinedWeb: 2)."""

    def judge(self, document: Document) -> Drop | None:
        text = _ADDRESS.sub("", document.text)
        text = re.sub(rf"\n{{{self.max_line_feeds + 1},}}", "\n" * self.max_line_feeds, text)
        if not text.strip():
            return Drop(self.type, "nothing else")
        document.text = text
        return None

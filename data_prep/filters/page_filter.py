"""Base classes of rules that judge a page by its statistics, and of filters that apply a list of them.

    text ── PageStatistics ──> rule, rule, … ──> the first rule that fails is the reason of the drop

MassiveText's and FineWeb's filters are such lists (quality_rules.py). A filter chooses whose way of counting its rules
use.
"""

import abc
import dataclasses
import math
from collections.abc import Callable
from typing import ClassVar, Literal

from datatrove.data import Document

from headrace.data_prep.document import Drop
from headrace.data_prep.filters.filter import AS_STORED, Filter, ValueKinds, Values, limits_in
from headrace.data_prep.filters.page_statistics import (
    DatatroveStatistics,
    PageStatistics,
    ScriptStatistics,
)

Counting = Literal["paper", "datatrove", "scripts"]
"""The way of counting: as the Gopher paper words it; as datatrove's code does for English; the same with words of any
script, by rules of characters."""
STATISTICS: dict[Counting, Callable[[str], PageStatistics]] = {
    "paper": PageStatistics,
    "datatrove": DatatroveStatistics,
    "scripts": ScriptStatistics,
}
Bounds = tuple[float, float]
"""The lowest and the highest number that passes."""


class PageRule(abc.ABC):
    """Judges one page. Subclasses are ``@settings`` classes; their ``type`` tag is the reason of a dropped page."""

    type: str
    measures_by: ClassVar[tuple[str, ...]] = ()
    """The settings ``min_…`` and ``max_…`` that decide what it measures. The others are thresholds."""
    meaning: ClassVar[str] = AS_STORED
    """The template of the number of a page that fails (explanations.py)."""

    @property
    def reason(self) -> str:
        """The name of the rule in reasons, with what distinguishes it from rules of the same type: ``top_ngram_2``."""
        detail = getattr(self, "part", None) or getattr(self, "words", None)
        return f"{self.type}_{detail}" if isinstance(detail, (str, int)) else self.type

    @property
    def thresholds(self) -> dict[str, float]:
        """The numbers ``min_…`` and ``max_…`` that decide whether a page fails."""
        return {name: limit for name, limit in limits_in(self).items() if name not in self.measures_by}

    def with_thresholds(self, other: "PageRule | None") -> "PageRule":
        """Returns the rule with the thresholds of ``other``, 1 without it: it measures the same."""
        return dataclasses.replace(self, **{name: getattr(other, name, 1) for name in self.thresholds})  # type: ignore[type-var]

    @property
    def value_names(self) -> tuple[str, ...]:
        """The names of what it measures."""
        return (self.reason,)

    @abc.abstractmethod
    def measured(self, page: PageStatistics) -> tuple[float, ...]:
        """Returns what it measures, a number for each of ``value_names``."""

    @property
    def bounds(self) -> tuple[Bounds, ...]:
        """The bounds of each number that it measures; those of the only one are its thresholds."""
        limits = self.thresholds.items()
        lowest, highest = ([limit for name, limit in limits if name.startswith(kind)] for kind in ("min_", "max_"))
        return (([*lowest, -math.inf][0], [*highest, math.inf][0]),)

    def failure(self, page: PageStatistics) -> str | None:
        """Returns the first number of the page that is out of its bounds, or None."""
        for number, (lowest, highest) in zip(self.measured(page), self.bounds, strict=True):
            if not lowest <= number <= highest:
                return str(number) if isinstance(number, int) else f"{number:.4f}"
        return None


class PageFilter(Filter):
    """A filter that drops pages which fail one of ``rules``. Its values are what each rule measures."""

    type: str
    rules: tuple[PageRule, ...]
    counting: Counting
    """The way of counting words, lines and characters."""

    @property
    def revision(self) -> int:
        """1 with words of any script. In revision 0, these knew stop words and ends of lines only as written."""
        return int(self.counting == "scripts")

    def english_rules(self, document: Document) -> tuple[str, ...]:
        """Returns the filter where nltk's Punkt and Treebank split the words: they are for English."""
        return (self.type,) if self.counting == "datatrove" else ()

    def judge(self, document: Document) -> Drop | None:
        """Returns the Drop of the first of ``rules`` that the document fails, or None."""
        page = STATISTICS[self.counting](document.text)
        for rule in self.rules:
            value = rule.failure(page)
            if value is not None:
                return Drop(f"{self.type}.{rule.reason}", value)
        return None

    def without_thresholds(self) -> Filter:
        usual = {rule.reason: rule for rule in type(self)().rules}
        rules = tuple(rule.with_thresholds(usual.get(rule.reason)) for rule in self.rules)
        return dataclasses.replace(self, rules=rules)  # type: ignore[type-var]

    @property
    def value_kinds(self) -> ValueKinds:
        return {name: float for rule in self.rules for name in rule.value_names}

    def values(self, document: Document) -> Values:
        page = STATISTICS[self.counting](document.text)
        measured = (zip(rule.value_names, rule.measured(page), strict=True) for rule in self.rules)
        return {name: number for numbers in measured for name, number in numbers}

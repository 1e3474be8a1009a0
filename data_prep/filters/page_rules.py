"""Base class of rules that judge a page by its statistics, and the function that applies a list of them.

    text ── PageStatistics ──> rule, rule, … ──> the first rule that fails is the reason of the drop

MassiveText's and FineWeb's filters are such lists. A filter chooses whose way of counting its rules use.
"""

import abc
from collections.abc import Callable
from typing import Literal

from datatrove.data import Document

from headrace.data_prep.document import Drop
from headrace.data_prep.filters.page_statistics import DatatroveStatistics, PageStatistics

Counting = Literal["paper", "datatrove"]
"""The way of counting: as the Gopher paper words it, or as datatrove's code does."""
STATISTICS: dict[Counting, Callable[[str], PageStatistics]] = {
    "paper": PageStatistics,
    "datatrove": DatatroveStatistics,
}


class PageRule(abc.ABC):
    """Judges one page. Subclasses are ``@settings`` classes; their ``type`` tag is the reason of a dropped page."""

    type: str

    @property
    def reason(self) -> str:
        """The name of the rule in reasons, with what distinguishes it from rules of the same type: ``top_ngram_2``."""
        detail = getattr(self, "part", None) or getattr(self, "words", None)
        return f"{self.type}_{detail}" if isinstance(detail, (str, int)) else self.type

    @abc.abstractmethod
    def failure(self, page: PageStatistics) -> str | None:
        """Returns the value by which the page fails, or None."""


def first_failure(
    filter_type: str, rules: tuple[PageRule, ...], document: Document, counting: Counting = "paper"
) -> Drop | None:
    """Returns the Drop of the first of ``rules`` that the document fails, or None."""
    page = STATISTICS[counting](document.text)
    for rule in rules:
        value = rule.failure(page)
        if value is not None:
            return Drop(f"{filter_type}.{rule.reason}", value)
    return None

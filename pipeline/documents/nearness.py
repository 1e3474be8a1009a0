"""Kept pages whose values are near a threshold, computed again: no stage stores the values of pages that pass.

    text of a kept page before cleaning ── filters in order, each rule with thresholds that every page fails ──>
        gopher_quality.word_count 52, min_words=50 ──> distance (52 - 50) / 50

Global filters are left out, so lines that other pages have are still there when later rules measure. A rule that stores
no number, or has no threshold, measures nothing.
"""

import copy
import dataclasses
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from datatrove.data import Document

from headrace.data_prep.document import Drop
from headrace.data_prep.filters.filter import Filter, GlobalFilter, PageFailedError, limits_in
from headrace.data_prep.filters.page_rules import STATISTICS, PageRule
from headrace.pipeline.core.settings import LARGEST
from headrace.pipeline.documents.rule_numbers import is_stricter, number_in
from headrace.pipeline.documents.samples import alternately

MOST_DISTANT = 0.25
"""The largest ``distance`` of a value that is near its threshold."""


@dataclasses.dataclass(frozen=True)
class Nearness:
    """A value by which a page passed a rule, near one of its thresholds."""

    rule: str
    value: float
    name: str
    """The setting of the threshold."""
    limit: float

    @property
    def distance(self) -> float:
        """The distance of the value from the threshold, as a share of the threshold.

        Of a lowest fraction or score it is a share of what is left to 1, so that no perfect score is near.
        """
        is_lowest_fraction = self.name.startswith("min_") and 0 < self.limit < 1
        scale = 1 - self.limit if is_lowest_fraction else self.limit
        return abs(self.value - self.limit) / (scale or 1)

    def __str__(self) -> str:
        return f"{self.value:g}, threshold {self.name}={self.limit:g}"


@dataclasses.dataclass(frozen=True)
class FailingRule:
    """A filter or rule with one threshold such that every page fails it and so gives its value."""

    holder: Filter | PageRule
    owner: Filter
    """The filter that has the rule, or that is it."""
    name: str
    limit: float

    def nearness(self, document: Document) -> Nearness | None:
        """Returns the value of ``document``, if it has one that passes the threshold and is near it."""
        drop = self._judged(document)
        value = None if drop is None else number_in(drop.value)
        if drop is None or value is None or is_stricter(self.name, value, self.limit):
            return None
        nearness = Nearness(drop.rule, value, self.name, self.limit)
        return nearness if nearness.distance <= MOST_DISTANT else None

    def _judged(self, document: Document) -> Drop | None:
        if isinstance(self.holder, Filter):
            return self.holder.judge(copy.deepcopy(document))
        page = STATISTICS[getattr(self.owner, "counting", "datatrove")](document.text)
        value = self.holder.failure(page)
        return None if value is None else Drop(f"{self.owner.type}.{self.holder.reason}", value)


def failing_rules(page_filter: Filter) -> list[FailingRule]:
    """Returns the rules of ``page_filter``, and itself, once for each threshold, which every page fails."""
    holders: list[Filter | PageRule] = [page_filter]
    holders += [rule for rule in getattr(page_filter, "rules", ()) if isinstance(rule, PageRule)]
    return [
        FailingRule(_failing(holder, name), page_filter, name, limit)
        for holder in holders
        for name, limit in limits_in(holder).items()
    ]


def _failing(holder: Filter | PageRule, name: str) -> Any:
    """Returns a copy of ``holder`` with the threshold ``name`` beyond every value.

    It is copied, because a new one is checked: settings with which every page is dropped are refused then.
    """
    failing = copy.copy(holder)
    object.__setattr__(failing, name, LARGEST if name.startswith("min_") else -1)
    return failing


def near_thresholds(
    filters: Sequence[Filter | GlobalFilter], originals: Iterable[Document], number: int
) -> list[tuple[str, Nearness]]:
    """Returns the ids of up to ``number`` of the pages ``originals`` whose values are nearest to thresholds.

    The nearest of each rule in turn, so that no rule takes all places.

    Args:
        filters: those of cleaning.
        originals: kept pages as they were before cleaning.
        number: the most pages.
    """
    passing = [page_filter for page_filter in filters if isinstance(page_filter, Filter)]
    measuring = [(page_filter, failing_rules(page_filter)) for page_filter in passing]
    by_rule: dict[str, list[tuple[float, str, Nearness]]] = defaultdict(list)
    for document in originals:
        for nearness in _values(copy.deepcopy(document), measuring):
            by_rule[nearness.rule].append((nearness.distance, document.id, nearness))
    ranked = [sorted(by_rule[rule], key=lambda entry: entry[:2]) for rule in sorted(by_rule)]
    nearest: dict[str, Nearness] = {}
    for _, identity, nearness in alternately(ranked):
        if len(nearest) < number:
            nearest.setdefault(identity, nearness)
    return list(nearest.items())


def _values(document: Document, measuring: Sequence[tuple[Filter, Sequence[FailingRule]]]) -> Iterator[Nearness]:
    """Yields what is near a threshold of ``document`` on its way through the filters, which may rewrite it."""
    try:
        for page_filter, rules in measuring:
            yield from filter(None, (rule.nearness(document) for rule in rules))
            if page_filter.judge(document) is not None:  # a part that a global filter removes would have saved it
                return
    except PageFailedError:  # it was kept, so this code of the user's depends on more than the page
        return

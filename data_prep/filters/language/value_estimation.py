"""Estimates the values of rules for a language from its own pages and from pages in English.

    stop words     the most frequent words: those above ``MIN_SHARE`` of all words, and at least ``FEWEST_WORDS``
    thresholds     the number that as large a share of the language's pages fails as of the English ones fails the rule

The idea is FineWeb2's (Penedo et al. 2025, "FineWeb2: One Pipeline to Scale Them All"): thresholds and stop words of a
language from its statistics compared with those of English. The formulas and numbers here are this project's. A
threshold that (almost) no English page fails has no quantile. It is multiplied by the ratio of the medians instead.
"""

import copy
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from headrace.data_prep.filters.filter import Filter
from headrace.data_prep.filters.gopher.stop_words import StopWords
from headrace.data_prep.filters.language.language_values import LanguageValues, adapted
from headrace.data_prep.filters.page_rules import STATISTICS, Counting, PageRule
from headrace.data_prep.filters.page_statistics import PageStatistics

MIN_SHARE = 0.008
"""Lowest share of a stop word among the words with letters."""
FEWEST_WORDS, MOST_WORDS = 8, 40
"""Stop words of a language; Gopher has eight."""
FEWEST_PAGES = 100
"""A language with fewer pages has no estimate."""
NEVER = 1e18
"""A limit that no page meets."""
LIMITS = ("min_", "max_")


def frequent_words(pages: Iterable[Sequence[str]]) -> list[str]:
    """Returns the stop words of ``pages``, each a list of words: most frequent first, in lower case."""
    counts = Counter(word.lower() for page in pages for word in page if any(map(str.isalpha, word)))
    ranked = sorted(counts, key=lambda word: (-counts[word], word))
    frequent = [word for word in ranked if counts[word] >= MIN_SHARE * counts.total()]
    return ranked[: min(max(len(frequent), FEWEST_WORDS), MOST_WORDS)]


def limits_of_rule(rule: PageRule) -> dict[str, float]:
    """Returns the limits of ``rule``: its numbers ``min_…`` and ``max_…``."""
    fields = vars(rule).items()
    return {name: float(value) for name, value in fields if name.startswith(LIMITS) and isinstance(value, (int, float))}


def number_on(page: PageStatistics, rule: PageRule, limit: str) -> float | None:
    """Returns the number of ``page`` that ``rule`` compares with ``limit``; None when it compares none.

    A rule gives its number when a page fails. So it is asked with a limit that no page meets, and no other limit.
    """
    asked = copy.copy(rule)
    for name in limits_of_rule(rule):
        is_floor = name.startswith("min_")
        value = NEVER if is_floor == (name == limit) else -NEVER
        object.__setattr__(asked, name, value)
    failure = asked.failure(page)
    return None if failure is None else float(failure)


def transferred(limit: float, is_floor: bool, reference: "np.ndarray", own: "np.ndarray") -> float:
    """Returns the limit that does to the numbers ``own``, float (n,), what ``limit`` does to ``reference``."""
    share = float(np.mean(reference < limit if is_floor else reference > limit))
    if share * len(reference) >= 1:
        return float(np.quantile(own, share if is_floor else 1 - share))
    middle = float(np.median(reference))
    return limit * float(np.median(own)) / middle if middle else limit


def numbers(texts: Sequence[str], filters: Sequence[Filter]) -> "dict[tuple[int, str], np.ndarray]":
    """Returns the numbers of all ``texts``, float (n,), by the index of the rule in ``counted_rules`` and its limit."""
    rules = list(counted_rules(filters))
    values: dict[tuple[int, str], list[float]] = {}
    for text in texts:
        pages = {counting: STATISTICS[counting](text) for _, counting in rules}
        for index, (rule, counting) in enumerate(rules):
            for limit in limits_of_rule(rule):
                number = number_on(pages[counting], rule, limit)
                if number is not None:
                    values.setdefault((index, limit), []).append(number)
    return {key: np.array(column) for key, column in values.items()}


def counted_rules(filters: Sequence[Filter]) -> Iterator[tuple[PageRule, Counting]]:
    """Yields the rules of ``filters`` that judge a page by a number, each with its way of counting."""
    for page_filter in filters:
        counting: Counting = getattr(page_filter, "counting", "paper")
        for rule in getattr(page_filter, "rules", ()):
            if isinstance(rule, PageRule) and not isinstance(rule, StopWords):
                yield rule, counting


def estimated(
    pages: Mapping[str, Sequence[str]], filters: Sequence[Filter], reference: str, per_word: Mapping[str, float]
) -> dict[str, Any]:
    """Returns the values of each language of ``pages`` in the form of language_values.json.

    Args:
        pages: texts by language; one with fewer than ``FEWEST_PAGES`` is left out.
        filters: filters with the limits for ``reference``.
        reference: the language whose limits are known.
        per_word: letters of a word of the languages that are written without spaces. The values are then for letters.
    """
    known = numbers(pages[reference], filters)
    limits = [limits_of_rule(rule) for rule, _ in counted_rules(filters)]
    values: dict[str, Any] = {}
    for language in sorted(pages.keys() - {reference}):
        if len(pages[language]) >= FEWEST_PAGES:
            own_filters = [adapted(page_filter, in_words(per_word.get(language, 1.0))) for page_filter in filters]
            own = numbers(pages[language], own_filters)
            new = {
                (index, limit): in_bounds(
                    limit,
                    transferred(limits[index][limit], limit.startswith("min_"), known[index, limit], column),
                    limits[index][limit],
                )
                for (index, limit), column in own.items()
            }
            values[language] = {"rules": changes(filters, own_filters, new) | stop_words(pages[language], filters)}
    return values


def in_words(letters: float) -> LanguageValues:
    """Returns values that change nothing but the number of letters of a word."""
    return LanguageValues(characters_per_word=letters)


def changes(
    filters: Sequence[Filter], own_filters: Sequence[Filter], new: Mapping[tuple[int, str], float]
) -> dict[str, dict[str, Any]]:
    """Returns the settings of each rule of ``filters``: the ``new`` limits, and the words of n-grams that differ."""
    rules: dict[str, dict[str, Any]] = {}
    pairs = zip(counted_rules(filters), counted_rules(own_filters), strict=True)
    for index, ((rule, _), (own, _)) in enumerate(pairs):
        settings: dict[str, Any] = {limit: number for (place, limit), number in new.items() if place == index}
        if (length := getattr(own, "words", None)) != getattr(rule, "words", None):
            settings["words"] = length
        if settings:
            rules[rule.reason] = settings
    return rules


def stop_words(texts: Sequence[str], filters: Sequence[Filter]) -> dict[str, dict[str, Any]]:
    """Returns the stop words of ``texts`` if ``filters`` have a rule for them."""
    for page_filter in filters:
        if any(isinstance(rule, StopWords) for rule in getattr(page_filter, "rules", ())):
            counting = STATISTICS[getattr(page_filter, "counting", "paper")]
            return {"stop_words": {"words": frequent_words(counting(text).counted_words for text in texts)}}
    return {}


def in_bounds(name: str, number: float, limit: float) -> float:
    """Returns ``number`` for the limit ``name``, which is ``limit`` in English: a fraction is at most 1, a number as
    large as a count is whole, others have three digits."""
    if name.endswith("fraction"):
        number = min(number, 1.0)
    return round(number) if limit >= 20 else float(f"{number:.3g}")

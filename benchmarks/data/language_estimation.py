"""Estimates the values of rules for each language of a run from its own pages and from those in English.

    python -m benchmarks.data.language_estimation RUN --to values.json [--root runs]

The run has cleaning=multilingual. Written is a copy of its values by language, with new ones for each language of which
it has enough pages, kept and dropped; ``cleaning.filters.by_language.path=values.json`` uses them. Documents that
by_language drops for want of values have a language, too: a first run gives the values of new languages, which a second
one reads.

    stop words     the most frequent words: those above ``MIN_SHARE`` of all words, and at least ``FEWEST_WORDS``
    thresholds     the number that as large a share of the language's pages fails as of the English ones fails the rule

The idea is FineWeb2's (Penedo et al. 2025, "FineWeb2: One Pipeline to Scale Them All"): thresholds and stop words of a
language from its statistics compared with those of English. The formulas and numbers here are this project's. A
threshold that (almost) no English page fails has no quantile. It is multiplied by the ratio of the medians instead.
"""

import argparse
import itertools
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from headrace.data_prep.filters.filter import Filter
from headrace.data_prep.filters.language.by_language import ByLanguage, LanguageValues, adapted, read_values
from headrace.data_prep.filters.language.language_codes import language_named
from headrace.data_prep.filters.page_filter import STATISTICS, Counting, PageRule
from headrace.data_prep.filters.quality_rules import StopWords
from headrace.data_prep.text.scripts import main_script
from headrace.pipeline.command_line.request import run_of
from headrace.pipeline.core.errors import ConfigError, HeadraceError
from headrace.pipeline.core.json_files import write_json
from headrace.pipeline.core.settings import plain
from headrace.pipeline.documents.lookup import cleaning_of, document_stage
from headrace.pipeline.documents.stored_documents import KINDS, located
from headrace.pipeline.run.planner import Run

MIN_SHARE = 0.008
"""Lowest share of a stop word among the words with letters."""
FEWEST_WORDS, MOST_WORDS = 8, 40
"""Stop words of a language; Gopher has eight."""
REFERENCE = "en_Latn"
"""The language of the limits of a list of filters."""
MOST_PAGES = 2_000
"""Pages of a language that are measured: its first ones."""
FEWEST_PAGES = 100
"""A language with fewer pages has no estimate."""

RuleNumbers = dict[tuple[int, str], "np.ndarray"]
"""(index of a rule in ``counted_rules``, name of its threshold) → what the rule compares with it, float (pages,)."""


def frequent_words(pages: Iterable[Sequence[str]]) -> list[str]:
    """Returns the stop words of ``pages``, each a list of words: most frequent first, in lower case."""
    counts = Counter(word.lower() for page in pages for word in page if any(map(str.isalpha, word)))
    ranked = sorted(counts, key=lambda word: (-counts[word], word))
    frequent = [word for word in ranked if counts[word] >= MIN_SHARE * counts.total()]
    return ranked[: min(max(len(frequent), FEWEST_WORDS), MOST_WORDS)]


def transferred(limit: float, is_floor: bool, reference: "np.ndarray", own: "np.ndarray") -> float:
    """Returns the limit that does to the numbers ``own``, float (n,), what ``limit`` does to ``reference``."""
    share = float(np.mean(reference < limit if is_floor else reference > limit))
    if share * len(reference) >= 1:
        return float(np.quantile(own, share if is_floor else 1 - share))
    middle = float(np.median(reference))
    return limit * float(np.median(own)) / middle if middle else limit


def numbers(texts: Sequence[str], filters: Sequence[Filter]) -> RuleNumbers:
    """Returns what the rules of ``filters`` measure of ``texts``."""
    rules = list(counted_rules(filters))
    pages = [{counting: STATISTICS[counting](text) for _, counting in rules} for text in texts]
    values: RuleNumbers = {}
    for index, (rule, counting) in enumerate(rules):
        measured = np.array([rule.measured(page[counting]) for page in pages], float)
        for place, limit in enumerate(rule.thresholds):
            values[index, limit] = measured[:, min(place, measured.shape[1] - 1)]
    return values


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
    values: dict[str, Any] = {}
    for language in sorted(pages.keys() - {reference}):
        if len(pages[language]) >= FEWEST_PAGES:
            letters = LanguageValues(characters_per_word=per_word.get(language, 1.0))
            own_filters = [adapted(page_filter, letters) for page_filter in filters]
            own = numbers(pages[language], own_filters)
            values[language] = {
                "rules": changes(filters, own_filters, known, own) | stop_words(pages[language], filters)
            }
    return values


def changes(
    filters: Sequence[Filter], own_filters: Sequence[Filter], known: RuleNumbers, own: RuleNumbers
) -> dict[str, dict[str, Any]]:
    """Returns the settings of each rule of ``filters``: the new limits, and the words of n-grams that differ."""
    rules: dict[str, dict[str, Any]] = {}
    pairs = zip(counted_rules(filters), counted_rules(own_filters), strict=True)
    for index, ((rule, _), (adapted_rule, _)) in enumerate(pairs):
        new: dict[str, Any] = {}
        for name, limit in rule.thresholds.items():
            number = transferred(limit, name.startswith("min_"), known[index, name], own[index, name])
            new[name] = in_bounds(name, number, limit)
        if (length := getattr(adapted_rule, "words", None)) != getattr(rule, "words", None):
            new["words"] = length
        if new:
            rules[rule.reason] = new
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


def language_estimates(run: Run) -> tuple[dict[str, Any], dict[str, Any]]:
    """Returns the values that ``by_language`` of ``run`` reads, and those of each language with enough documents.

    Both have the form of language_values.json. The limits of the filters of ``by_language`` are those for English.

    Raises:
        ConfigError: when the run has no ``by_language``, or there are too few documents in English.
        ArtifactError: when clean is not finished.
    """
    artifact = document_stage("clean", run.stages)
    router = next((judge for judge in cleaning_of(run.stages).filters if isinstance(judge, ByLanguage)), None)
    if router is None:
        raise ConfigError("RUN", "has no filter by_language", "give a run with cleaning=multilingual")
    pages: dict[str, list[str]] = {}
    for _, document in itertools.chain.from_iterable(located(artifact, kind) for kind in KINDS):
        if language := language_named(document):
            texts = pages.setdefault(f"{language}_{main_script(document.text)}", [])
            if len(texts) < MOST_PAGES:
                texts.append(document.text)
    if len(english := pages.get(REFERENCE, [])) < FEWEST_PAGES:
        problem = f"has {len(english)} documents in English, whose limits are known; {FEWEST_PAGES} are needed"
        raise ConfigError("RUN", problem, "add English documents to the source")
    values = read_values(router.path)
    per_word = {name: of_language.characters_per_word for name, of_language in values.items()}
    return plain(dict(values)), estimated(pages, router.filters, REFERENCE, per_word)


def main(arguments: Sequence[str] | None = None) -> None:
    """Writes the values of a run as the command line asks; ends with a message when it cannot."""
    parser = argparse.ArgumentParser(description="Estimates the values of rules for each language of a run.")
    parser.add_argument("run", help="its name, id or path")
    parser.add_argument("--to", type=Path, required=True, help="the file to write")
    parser.add_argument("--root", default="runs", help="the folder with the run")
    given = parser.parse_args(arguments)
    try:
        values, estimates = language_estimates(run_of([f"root={given.root}"], given.run))
        write_json(given.to, values | estimates)
    except HeadraceError as error:
        parser.error(str(error))
    for language, settings in estimates.items():
        words = settings["rules"].get(StopWords.type, {}).get("words", [])
        print(f"{language}  {len(settings['rules'])} rules, {len(words)} stop words: {', '.join(words[:10])}")
    print(f"written  {given.to}")


if __name__ == "__main__":
    main()

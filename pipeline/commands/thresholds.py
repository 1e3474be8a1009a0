"""``headrace thresholds``: how many pages another threshold of a rule or column would drop or keep.

headrace thresholds gopher_quality.word_count             the values of the pages that the rule dropped
headrace thresholds gopher_quality.word_count --at 30     how many of them a threshold of 30 would drop
headrace thresholds language --at 0.9                     also how many kept pages, because their scores are stored
headrace thresholds column.quality --at 0.8               the values that keep each share of documents; what 0.8 keeps
headrace thresholds by_language --to values.json          writes thresholds and stop words of each language of the run

Nothing is computed again: each dropped page stores the number by which it failed. Pages that pass the rule at another
threshold may still be dropped by later rules. Pages that the rule kept have no stored number, except for languages, so
a stricter threshold needs a run: its command is printed. A column has the values of all documents of unique: min and
max are those of the rule threshold of selection.rules, with the documents that it keeps of those with a value.

With --to, a copy of the run's values by language is written, with new ones for each language of which it has enough
pages: a threshold is the number that as large a share of them fails as of those in English, stop words are the most
frequent words. cleaning.filters.by_language.path=values.json uses them. Documents that by_language drops for want of
values have a language, too: a first run gives the values of new languages, which a second one reads.
"""

import fractions
import itertools
import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import click
import numpy as np
from datatrove.data import Document

from headrace.data_prep.clean import Cleaning
from headrace.data_prep.column import Column
from headrace.data_prep.columns.scorer import ColumnValues, has_value, read_values
from headrace.data_prep.filters.filter import deciding
from headrace.data_prep.filters.language import by_language
from headrace.data_prep.filters.language.by_language import ByLanguage
from headrace.data_prep.filters.language.language_codes import language_named
from headrace.data_prep.filters.language.value_estimation import FEWEST_PAGES, estimated
from headrace.data_prep.filters.page_rules import PageRule
from headrace.data_prep.filters.quality_rules import StopWords
from headrace.data_prep.selection_rules.rules import Limit
from headrace.data_prep.text.scripts import main_script
from headrace.pipeline.command_line.declaration import NewFile, command, run_option
from headrace.pipeline.command_line.request import run_of
from headrace.pipeline.configuration.setting_names import FILTERS
from headrace.pipeline.core.artifact import Artifact
from headrace.pipeline.core.errors import ConfigError
from headrace.pipeline.core.json_files import write_json
from headrace.pipeline.core.settings import NaturalNumber, plain, value_of
from headrace.pipeline.core.stage import OF_KIND, kind_of
from headrace.pipeline.documents.drop_rules import is_stricter, limits_of, number_of, threshold_holder
from headrace.pipeline.documents.lookup import cleaning_of, column_named, document_stage
from headrace.pipeline.documents.stored_documents import located
from headrace.pipeline.output import terminal
from headrace.pipeline.output.terminal import Fact
from headrace.pipeline.report.about import start_command
from headrace.pipeline.run.planner import Run

REFERENCE = "en_Latn"
"""The language of the limits of a list of filters."""
MOST_PAGES = 2_000
"""Pages of a language that are measured: its first ones."""


def language_estimates(cleaning: Cleaning, documents: Iterable[Document]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Returns the values that ``by_language`` reads, and those of each language with enough ``documents``.

    Both have the form of language_values.json.

    The limits of the filters of ``by_language`` in ``cleaning`` are those for English.

    Raises:
        ConfigError: when ``cleaning`` has no ``by_language``, or there are too few documents in English.
    """
    router = next((own for own in cleaning.filters if isinstance(own, ByLanguage)), None)
    if router is None:
        raise ConfigError("RULE", "the run has no filter by_language", "give a run with cleaning=multilingual")
    pages: dict[str, list[str]] = {}
    for document in documents:
        if language := language_named(document):
            texts = pages.setdefault(f"{language}_{main_script(document.text)}", [])
            if len(texts) < MOST_PAGES:
                texts.append(document.text)
    if len(english := pages.get(REFERENCE, [])) < FEWEST_PAGES:
        problem = f"{len(english)} documents in English, whose limits are known; {FEWEST_PAGES} are needed"
        raise ConfigError("--to", problem, "add English documents to the source")
    values = by_language.read_values(router.path)
    per_word = {name: own.characters_per_word for name, own in values.items()}
    return plain(dict(values)), estimated(pages, router.filters, REFERENCE, per_word)


SCORES = ("language", "language_fasttext")
"""Filters that also store their number in the pages that they keep, as metadata ``language_score``."""
WORDS_SHOWN = 10
PERCENTS_KEPT = (1, 5, 10, 20, 30, 50, 70, 90, 99)
PERCENTILES = (0, 10, 25, 50, 75, 90, 100)


@command
@click.argument("rule", metavar="RULE")
@click.option("--at", metavar="NUMBER", default="", help="The other threshold.")
@click.option("--to", metavar="FILE", type=NewFile(), help="For by_language: the file for the values of each language.")
@run_option
def thresholds(overrides: Sequence[str], rule: str, at: str, to: Path | None, run: str) -> None:
    """Prints how many pages another threshold of RULE, or of column.NAME, would drop or keep, from stored values."""
    if to and rule != ByLanguage.type:
        raise ConfigError("--to", f"is for {ByLanguage.type} (got {rule!r})", f"give the rule {ByLanguage.type}")
    terminal.show(written(run_of(overrides, run), to) if to else explain(run_of(overrides, run), rule, at))


def written(run: Run, to: Path) -> Iterator[Fact]:
    """Writes the values of each language of ``run`` to the file ``to`` and yields the stop words of those estimated.

    Raises:
        ConfigError: when the run has too few documents in English, or no filter ``by_language``.
        ArtifactError: when clean is not finished.
    """
    artifact, cleaning = document_stage("clean", run.stages), cleaning_of(run.stages)
    documents = itertools.chain(documents_of(artifact, "documents"), documents_of(artifact, "dropped"))
    values, estimates = language_estimates(cleaning, documents)
    write_json(to, values | estimates)
    for language, own in estimates.items():
        words = own["rules"].get(StopWords.type, {}).get("words", [])
        yield language, f"{len(own['rules'])} rules, {len(words)} stop words: {', '.join(words[:WORDS_SHOWN])}"
    yield "written", str(to)


def explain(run: Run, rule: str, at: str = "") -> Iterator[Fact]:
    """Yields the thresholds and the values of ``rule`` that ``run`` stored, and what the threshold ``at`` would drop.

    Raises:
        ConfigError: when clean dropped nothing by ``rule``, it has no threshold, or ``at`` is not a number.
        ArtifactError: when clean is not finished.
    """
    if kind_of(rule) == Column.name:
        value = float(value_of(Limit, at, "--at")) if at else None
        yield from shares_kept(column_named(rule.partition(OF_KIND)[2], run.stages, "RULE"), value)
        return
    artifact, cleaning = document_stage("clean", run.stages), cleaning_of(run.stages)
    limits = limits_of(artifact, cleaning, rule)
    other = float(value_of(NaturalNumber, at, "--at")) if at else None
    values = [
        (number, document.metadata["drop"]["value"])
        for document in documents_of(artifact, "dropped")
        if (number := number_of(document, rule)) is not None
    ]
    if not values:
        raise ConfigError("RULE", f"{rule!r} stores no number", "give a rule that measures, such as c4_lines.sentences")
    yield "rule", rule
    languages = languages_of(cleaning, rule)
    numbers = [number for number, value in values if languages is None or value.partition(" ")[0] in languages]
    if len(numbers) < len(values):
        yield "other languages", f"{len(values) - len(numbers):,} pages were dropped for their language, at any number"
    computed = {
        name: limit
        for name, limit in limits.items()
        if other is not None and (rule in SCORES or not is_stricter(name, limit, other))
    }
    for name, limit in limits.items():
        failed = np.array([number for number in numbers if is_stricter(name, number, limit)])
        if len(failed):
            yield name, f"{limit:g}: {len(failed):,} pages were dropped, with these numbers"
            for percent, value in zip(PERCENTILES, np.percentile(failed, PERCENTILES), strict=True):
                yield "value", f"{percent:>4} % have at most {value:g}"
        elif rule in SCORES:
            yield name, f"{limit:g}: no page was dropped for its number"
        if other is not None and name in computed and len(failed):
            still = sum(is_stricter(name, number, other) for number in failed)
            yield f"at {other:g}", f"{still:,} of them are dropped, {len(failed) - still:,} pass this rule"
    if other is not None and rule in SCORES:
        scores = [document.metadata.get("language_score", 1.0) for document in documents_of(artifact, "documents")]
        lost = sum(score < other for score in scores)
        yield f"at {other:g}", f"of {len(scores):,} pages that were kept, {lost:,} are dropped"
    if other is not None and not computed:
        yield from stricter(run, cleaning, rule, limits, other)


def languages_of(cleaning: Cleaning, rule: str) -> Collection[str] | None:
    """Returns the languages that ``rule`` keeps; None: all, or it does not identify languages."""
    owners = deciding(rule, cleaning.filters) if rule in SCORES else []
    return next((getattr(owner, "languages", None) for owner in owners), None)


def stricter(run: Run, cleaning: Cleaning, rule: str, limits: Mapping[str, float], other: float) -> Iterator[Fact]:
    """Yields why ``run`` does not tell what ``other`` drops, which is stricter than all ``limits``, and the commands
    that do."""
    shown = " and ".join(f"{name}={limit:g}" for name, limit in limits.items())
    yield f"at {other:g}", f"is stricter than {shown}, and no number is stored of pages that passed: it needs a run"
    kept = [override for override in run.overrides if not override.startswith(("until=", "name="))]
    for name in limits:
        changed = f"{setting_of_limit(cleaning, rule, name)}={other:g}"
        yield "command", start_command([*kept, changed, "until=clean"], run.config_dir)


def documents_of(artifact: Artifact, kind: str) -> Iterator[Document]:
    """Yields all documents of ``kind``."""
    return (document for _, document in located(artifact, kind))


def shares_kept(column: Artifact, at: float | None = None) -> Iterator[Fact]:
    """Yields thresholds of ``column`` by the share of documents that they keep, and what the threshold ``at`` keeps."""
    values = np.concatenate([read_values(column, shard) for shard in range(column.shard_count)])
    ordered = np.sort(values[has_value(values)])
    yield "documents", f"{len(values):,}, {len(values) - len(ordered):,} of them without a value"
    for percent in PERCENTS_KEPT if len(ordered) else ():
        number = math.ceil(fractions.Fraction(percent, 100) * len(ordered))
        yield f"share {percent} %", kept_by(ordered, float(ordered[-number]), float(ordered[number - 1]))
    if at is not None:
        yield f"at {at:.6g}", kept_by(ordered, at, at)


def kept_by(ordered: ColumnValues, low: float, high: float) -> str:
    """Returns how many of the ``ordered`` values a threshold with min = ``low`` keeps, and one with max = ``high``."""
    at_least, at_most = len(ordered) - np.searchsorted(ordered, low), np.searchsorted(ordered, high, "right")
    limits = (("min", low, int(at_least)), ("max", high, int(at_most)))
    return " | ".join(f"{name}={limit!r}: {n:,} ({n / max(len(ordered), 1):.1%})" for name, limit, n in limits)


def setting_of_limit(cleaning: Cleaning, rule: str, limit: str) -> str:
    """Returns the setting ``limit`` of ``rule`` with its path, as it is given on the command line."""
    holder, owner = threshold_holder(cleaning, rule), deciding(rule, cleaning.filters)[0].type
    if owner == ByLanguage.type:
        entry, reason = rule.split(".")[1], getattr(holder, "reason", getattr(holder, "type", ""))
        return ".".join([f"+{FILTERS}", owner, "languages", entry, reason, limit])
    path = [FILTERS, owner, *(["rules", holder.type] if isinstance(holder, PageRule) else []), limit]
    return ".".join(path)

"""``headrace thresholds``: how many pages another threshold of a rule would drop, from the values that clean stored.

headrace thresholds gopher_quality.word_count             the values of the pages that the rule dropped
headrace thresholds gopher_quality.word_count --at 30     how many of them a threshold of 30 would drop
headrace thresholds language --at 0.9                     also how many kept pages, because their scores are stored

Nothing is computed again: each dropped page stores the number by which it failed. Pages that pass the rule at another
threshold may still be dropped by later rules. Pages that the rule kept have no stored number, except for languages, so
a stricter threshold needs a run.
"""

from collections.abc import Iterator, Sequence

import click
import numpy as np
from datatrove.data import Document

from headrace.data_prep.document import read_documents
from headrace.pipeline.command_line.declaration import command, run_option
from headrace.pipeline.command_line.request import run_of
from headrace.pipeline.core.artifact import Artifact
from headrace.pipeline.core.errors import ConfigError
from headrace.pipeline.core.settings import NaturalNumber, value_of
from headrace.pipeline.output import facts
from headrace.pipeline.output.facts import Fact
from headrace.pipeline.report.documents.document_samples import names
from headrace.pipeline.run.planned_stage import PlannedStage
from headrace.pipeline.tracing.lookup import cleaning_of, document_stage
from headrace.pipeline.tracing.rule_numbers import limits_of, number_of

SCORES = ("language", "language_fasttext")
"""Filters that also store their number in the pages that they keep, as metadata ``language_score``."""
PERCENTILES = (0, 10, 25, 50, 75, 90, 100)


@command
@click.argument("rule", metavar="RULE")
@click.option("--at", metavar="NUMBER", default="", help="The other threshold.")
@run_option
def thresholds(overrides: Sequence[str], rule: str, at: str, run: str) -> None:
    """Prints how many pages another threshold of RULE would drop, from stored values."""
    facts.show(explain(run_of(overrides, run).stages, rule, at))


def explain(stages: Sequence[PlannedStage], rule: str, at: str = "") -> Iterator[Fact]:
    """Yields the thresholds and the stored values of ``rule``, and what the threshold ``at`` would drop.

    Raises:
        ConfigError: when clean dropped nothing by ``rule``, it has no threshold, or ``at`` is not a number.
        ArtifactError: when clean is not finished.
    """
    artifact = document_stage("clean", stages)
    limits = limits_of(artifact, cleaning_of(stages), rule)
    other = float(value_of(NaturalNumber, at, "--at")) if at else None
    values = [
        number for document in documents_of(artifact, "dropped") if (number := number_of(document, rule)) is not None
    ]
    if not values:
        raise ConfigError("RULE", f"{rule!r} stores no number", "give a rule that measures, such as c4_lines.sentences")
    yield "rule", rule
    for name, limit in limits.items():
        is_least = name.startswith("min_")
        failed = np.array([value for value in values if (value < limit if is_least else value > limit)])
        if len(failed):
            yield name, f"{limit:g}: {len(failed):,} pages were dropped, with these numbers"
            for percent, value in zip(PERCENTILES, np.percentile(failed, PERCENTILES), strict=True):
                yield "value", f"{percent:>4} % have at most {value:g}"
            if other is not None:
                still = int((failed < other if is_least else failed > other).sum())
                yield f"at {other:g}", f"{still:,} of them are dropped, {len(failed) - still:,} pass this rule"
    if other is not None and rule in SCORES:
        scores = [document.metadata.get("language_score", 1.0) for document in documents_of(artifact, "documents")]
        yield (
            f"at {other:g}",
            f"{sum(score < other for score in scores):,} of {len(scores):,} kept pages are dropped, too",
        )


def documents_of(artifact: Artifact, kind: str) -> Iterator[Document]:
    """Yields all documents of ``kind``."""
    return (document for name in names(artifact, kind) for document in read_documents(artifact.path(name)))

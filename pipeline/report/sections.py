"""The content of the report's page: the sections of all stages, the title and the conclusions.

    Artifact.counts, metrics.jsonl, scores.json, dropped/*, removed/* ──> {"title": …, "funnel": …, "drops": …, …}

Each section is made in the module of its stages, and shown by the template of the same name; report.html orders them. A
section is None when the run has not the artifacts that it needs. A number that an artifact lacks is left out.
"""

from collections import Counter
from typing import Any

from headrace.data_prep.clean import Cleaning
from headrace.data_prep.filters.explanations import explained
from headrace.pipeline.core.metrics_file import read_metrics
from headrace.pipeline.core.stage import Inputs
from headrace.pipeline.documents.audit_estimates import COLUMNS
from headrace.pipeline.report.about import About, settings_of
from headrace.pipeline.report.cleaning_section import (
    classifier_section,
    funnel_section,
    kept_section,
    left_out_section,
    stage_drops,
)
from headrace.pipeline.report.documents_section import (
    columns_section,
    duplicates_section,
    selection_section,
    tokens_section,
)
from headrace.pipeline.report.formatting import PageTable, Statistic, decimal, known, percent, short
from headrace.pipeline.report.funnel import kept_sentence
from headrace.pipeline.report.score_sentences import score_sentences
from headrace.pipeline.report.score_table import ScoreTable
from headrace.pipeline.report.stage_warnings import all_warnings
from headrace.pipeline.report.training_section import (
    FinetunedScores,
    Metrics,
    held_out,
    training_section,
    training_sentence,
)


def sections(inputs: Inputs, cleaning: Cleaning, about: About) -> dict[str, Any]:
    """Returns the values of the template: name → content."""
    metrics = read_metrics(inputs["weights"].path("metrics.jsonl")) if "weights" in inputs else []
    table = ScoreTable.of(inputs["scores"]) if "scores" in inputs else None
    dropping = stage_drops(inputs, cleaning)
    return {
        "about": about,
        "title": _title(inputs, metrics, table),
        "conclusions": conclusions(inputs, metrics, table),
        "warnings": all_warnings(inputs),
        "funnel": funnel_section(inputs),
        "dropping": dropping,
        "unreadable": dropping.get("texts"),
        "left_out": left_out_section(inputs),
        "classifier": classifier_section(inputs),
        "drops": dropping.get("clean"),
        "kept": kept_section(inputs),
        "duplicates": duplicates_section(inputs),
        "removed_duplicates": dropping.get("unique"),
        "audit": PageTable(COLUMNS, about.audit.rows, labels=2) if about.audit else None,
        "document_columns": columns_section(inputs),
        "selection": selection_section(inputs),
        "tokens": tokens_section(inputs),
        "training": training_section(inputs.get("weights"), metrics),
        "finetuned": FinetunedScores.of(inputs["finetuned"]) if "finetuned" in inputs else None,
        "scores": table,
        "stages": [settings_of(name, artifact) for name, artifact in inputs.items()],
        "explained": lambda rule: explained(rule, cleaning.filters),
    }


def _title(inputs: Inputs, metrics: Metrics, table: ScoreTable | None) -> dict[str, Any]:
    """Returns one line about the whole run, and its main numbers."""
    names = ("texts", "clean", "unique", "tokens", "weights")
    texts, clean, unique, tokens, weights = (inputs[name].counts if name in inputs else Counter() for name in names)
    measured = held_out(metrics, table)
    documents = unique.get("kept", clean.get("kept"))
    parts = {"records": texts.get("records_in"), "documents": documents, "tokens": tokens.get("tokens")}
    statistics = [
        Statistic("records read", short(None if weights else texts.get("records_in"))),
        Statistic("documents kept", short(None if unique and weights else clean.get("kept"))),
        Statistic("unique documents", short(unique.get("kept"))),
        Statistic("tokens", short(tokens.get("tokens"))),
        Statistic("parameters", short(weights.get("parameters"))),
        Statistic(measured.name, decimal(measured.loss), f"nats per token, {measured.text}"),
        Statistic("bits per byte", decimal(measured.bits_per_byte), measured.text),
    ]
    statistics += [
        Statistic(row.title, percent(row.metric.value), f"random {percent(row.metric.random)}")
        for row in (table.headlines() if table is not None else ())
    ]
    facts = [f"{short(number)} {name}" for name, number in parts.items() if number is not None]
    return {
        "summary": " → ".join([*facts, "one model"] if "weights" in inputs else facts),
        "statistics": known(statistics),
        "addresses": [(name, inputs[name].folder.name) for name in ("weights", "scores") if name in inputs],
    }


def conclusions(inputs: Inputs, metrics: Metrics, table: ScoreTable | None) -> list[str]:
    """Returns sentences about the finished stages ``inputs`` of a run; none about a stage that it lacks.

    Of 14,203 records, 9,812 were kept: 2.31 M tokens.
    A model of 1.12 M parameters read 1.64 M tokens; its loss fell from 7.62 in step 1 to 3.31 …
    """
    of_scores = score_sentences(table) if table else []
    return [*kept_sentence(inputs), *training_sentence(inputs, metrics, table), *of_scores]

"""Collects the content of each section of the page from the artifacts: plain values, figures and samples.

    Artifact.counts, metrics.jsonl, scores.json, dropped/*, removed/* ──> {"title": …, "funnel": …, "drops": …, …}

A section is None when the run has not the artifacts that it needs. A number that an artifact lacks is left out. The
documents that each stage dropped, and the parts that it removed, stand there by rule, with samples (``StageDrops``).
"""

import dataclasses
from collections import Counter
from collections.abc import Sequence
from typing import Any

from headrace.data_prep.clean import Clean, Cleaning
from headrace.data_prep.filters.explanations import explained
from headrace.data_prep.filters.filter import REMOVED_UNITS
from headrace.pipeline.core.artifact import Artifact
from headrace.pipeline.core.metrics_file import read_metrics
from headrace.pipeline.core.stage import Inputs, counted
from headrace.pipeline.documents import near_duplicates
from headrace.pipeline.documents.samples import KEPT_SAMPLES, SamplePair, side_by_side, split_pages
from headrace.pipeline.report import shot_gains
from headrace.pipeline.report.about import About
from headrace.pipeline.report.classifier_section import classifier_section
from headrace.pipeline.report.column_section import column_sections, selection_section
from headrace.pipeline.report.conclusions import conclusions
from headrace.pipeline.report.figures import drawing
from headrace.pipeline.report.finetuning import FinetunedScores
from headrace.pipeline.report.formatting import count, decimal, flat, percent, short
from headrace.pipeline.report.funnel import (
    COLUMNS,
    DROPPED,
    CountRow,
    LanguageFunnel,
    StageFunnel,
    count_rows,
    funnel,
    histogram,
    language_funnels,
    shortened,
    steps,
)
from headrace.pipeline.report.openness import openness
from headrace.pipeline.report.origins import origins
from headrace.pipeline.report.run_statistics import Statistic, counts_of, known, token_statistics, totals
from headrace.pipeline.report.score_table import ScoreTable, columns
from headrace.pipeline.report.stage_warnings import all_warnings
from headrace.pipeline.report.training_section import held_out, training

LANGUAGES_SHOWN = 12
RULES_OF_LANGUAGE = 3


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
        "funnel": funnel_section(inputs) if "texts" in inputs else None,
        "dropping": dropping,
        "unreadable": dropping.get("texts"),
        "left_out": _left_out(inputs["texts"]) if "texts" in inputs else None,
        "classifier": classifier_section(inputs["classifier"]) if "classifier" in inputs else None,
        "drops": dropping.get("clean"),
        "kept": _kept(inputs["clean"].counts) if "clean" in inputs else None,
        "duplicates": _duplicates(inputs) if "duplicates" in inputs else None,
        "removed_duplicates": dropping.get("unique"),
        "document_columns": column_sections(inputs),
        "selection": selection_section(inputs),
        "tokens": token_statistics(inputs),
        "training": training(inputs["weights"], metrics) if "weights" in inputs else None,
        "finetuned": FinetunedScores.of(inputs["finetuned"]) if "finetuned" in inputs else None,
        "scores": table,
        "openness": openness(inputs),
        "stages": [_stage(name, artifact) for name, artifact in inputs.items()],
        "columns": columns,
        "gain_note": shot_gains.NOTE,
        "explained": lambda rule: explained(rule, cleaning.filters),
    }


def _title(inputs: Inputs, metrics: Sequence[dict[str, Any]], table: ScoreTable | None) -> dict[str, Any]:
    """Returns one line about the whole run, and its main numbers."""
    names = ("texts", "clean", "unique", "tokens", "weights")
    texts, clean, unique, tokens, weights = (counts_of(inputs, name) for name in names)
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
        "summary": " → ".join([*facts, *(["one model"] if "weights" in inputs else [])]),
        "statistics": known(statistics),
        "addresses": [(name, inputs[name].folder.name) for name in ("weights", "scores") if name in inputs],
    }


def funnel_section(inputs: Inputs) -> dict[str, Any]:
    """Returns the documents after each step, as a figure and a table, and the numbers of tokens and rows."""
    funnel_steps = steps(funnel(inputs))
    columns = [
        column
        for column in COLUMNS
        if not column.is_optional or any(column.value(step) is not None for step in funnel_steps)
    ]
    return {
        "figure": drawing.funnel([(step.name, step.documents) for step in funnel_steps]),
        "steps": funnel_steps,
        "titles": [column.title for column in columns],
        "rows": [(step.name, [column.text(column.value(step)) for column in columns]) for step in funnel_steps],
        "statistics": totals(inputs),
    }


def _left_out(texts: Artifact) -> dict[str, Any] | None:
    """Returns how much of the text of HTML pages extraction left out, and pages that lost most and least."""
    left_out, kept = (texts.counts[f"characters_{kind}"] for kind in ("left_out", "kept"))
    if not left_out:
        return None
    share = percent(left_out / (left_out + kept))
    truncated = count(texts.counts["truncated"]) if texts.counts["truncated"] else None
    return {"share": share, "characters": short(left_out), "truncated": truncated, "pages": split_pages(texts)}


def _kept(clean: Counter[str]) -> dict[str, Any]:
    languages = count_rows(clean, "language:", counted(clean, "language:"))
    return {
        "lengths": drawing.bar_chart("lengths", _lengths(clean), "characters (lower bound)", "documents"),
        "languages": shortened(languages, LANGUAGES_SHOWN),
        "funnels": [_language_row(language) for language in language_funnels(clean)],
    }


def _language_row(language: LanguageFunnel) -> list[str]:
    """Returns the cells of the table of languages: name, documents judged, kept, their share, most frequent rules."""
    rules = ", ".join(f"{rule} {count(number)}" for rule, number in language.dropped.most_common(RULES_OF_LANGUAGE))
    return [language.name, count(language.read), count(language.kept), percent(language.kept / language.read), rules]


def _duplicates(inputs: Inputs) -> dict[str, Any]:
    """Returns clusters and pairs of duplicates."""
    sizes = near_duplicates.cluster_sizes(inputs["duplicates"])
    return {
        "pairs": near_duplicates.sample(inputs["clean"], inputs["duplicates"]),
        "origins": origins(inputs["clean"], inputs["unique"]) if "unique" in inputs else {},
        "clusters": drawing.bar_chart("clusters", sizes, "documents in a cluster", "clusters"),
    }


def _stage(name: str, artifact: Artifact) -> dict[str, Any]:
    manifest = artifact.manifest
    settings = list(flat(artifact.settings))
    counts = sorted(artifact.counts.items())
    files = manifest["files"].values()
    size = sum(file["bytes"] for file in files)
    return {
        "name": name,
        "address": artifact.folder.name,
        "version": manifest.get("version"),
        "size": f"{size / 1e6:,.1f} MB in {count(len(files))} files",
        "settings": settings,
        "counts": [(key, count(n)) for key, n in counts if ":" not in key],
    }


def _lengths(clean: Counter[str]) -> list[tuple[str, int]]:
    """Returns the number of documents by length; each interval is named by its smallest number of characters."""
    return [(_power(low), n) for low, n in histogram(clean, "length:")]


def _power(low: int) -> str:
    """Returns a power of two with a unit: 2048 → ``2K``."""
    return f"{low >> 20}M" if low >= 1 << 20 else f"{low >> 10}K" if low >= 1 << 10 else str(low)


Samples = dict[str, list[SamplePair]]
"""Pairs of a kept and a dropped document, by rule."""


@dataclasses.dataclass(frozen=True)
class StageDrops:
    """The documents that a stage dropped, and the parts of documents that it removed."""

    rules: list[CountRow]
    total: int
    """The number of dropped documents."""
    documents: int
    """The documents that the stage read."""
    removed: dict[str, list[CountRow]]
    """Units of text → the rules that removed such parts of documents."""
    samples: Samples

    @classmethod
    def of(cls, stage: StageFunnel, artifact: Artifact, texts: Artifact | None, cleaning: Cleaning) -> "StageDrops":
        """Returns what ``stage`` dropped; ``texts`` are the documents before ``cleaning``, None for their own stage."""
        rules, removed = count_rows(stage.counts, DROPPED, stage.read), _removed(stage.counts)
        dropping, removing = [row.name for row in rules], [row.name for rows in removed.values() for row in rows]
        kept, samples = KEPT_SAMPLES if stage.stage == Clean.name else 0, Samples()
        if dropping or removing:
            samples = side_by_side(artifact, texts, cleaning, dropping, removing, kept)
        return cls(rules, stage.dropped.total(), stage.read, removed, samples)


def stage_drops(inputs: Inputs, cleaning: Cleaning) -> dict[str, StageDrops]:
    """Returns what each stage of ``inputs`` that keeps and drops documents dropped, in the order of the line."""
    drops: dict[str, StageDrops] = {}
    for stage in funnel(inputs):
        if not stage.names.stores_documents:
            continue
        texts = inputs[next(iter(drops))] if drops else None
        drops[stage.stage] = StageDrops.of(stage, inputs[stage.stage], texts, cleaning)
    return drops


def _removed(counts: "Counter[str]") -> dict[str, list[CountRow]]:
    """Returns the parts of documents that each rule removed, by unit."""
    prefixes = {unit: f"removed_{unit}:" for unit in REMOVED_UNITS}
    rows = {unit: count_rows(counts, prefix, counted(counts, prefix)) for unit, prefix in prefixes.items()}
    return {unit: unit_rows for unit, unit_rows in rows.items() if unit_rows}

"""Collects the content of each section of the page from the artifacts: plain values, figures and samples.

    Artifact.counts, metrics.jsonl, scores.json, dropped/*, removed/* ──> {"title": …, "funnel": …, "drops": …, …}

A section is None when the run has not the artifacts that it needs. A number that an artifact lacks is left out.
"""

import dataclasses
from collections import Counter
from collections.abc import Sequence
from typing import Any

from headrace.data_prep.clean import Cleaning
from headrace.data_prep.filters.explanations import explained
from headrace.data_prep.filters.filter import REMOVED_UNITS
from headrace.pipeline.core.artifact import Artifact
from headrace.pipeline.core.metrics_file import read_metrics
from headrace.pipeline.core.stage import Inputs
from headrace.pipeline.report import shot_gains
from headrace.pipeline.report.about import About
from headrace.pipeline.report.conclusions import conclusions
from headrace.pipeline.report.count_rows import CountRow, count_rows, histogram, shortened
from headrace.pipeline.report.documents import document_samples, near_duplicates
from headrace.pipeline.report.documents.split_pages import split_pages
from headrace.pipeline.report.figures import drawing
from headrace.pipeline.report.finetuning import FinetunedScores
from headrace.pipeline.report.formatting import count, decimal, flat, percent, short
from headrace.pipeline.report.score_table import ScoreTable, columns
from headrace.pipeline.report.stage_warnings import all_warnings
from headrace.pipeline.report.statistic import Statistic, known
from headrace.pipeline.report.training_section import held_out, training

LANGUAGES_SHOWN = 12
REMOVED = {unit: f"removed_{unit}:" for unit in REMOVED_UNITS}
"""Parts of documents that rules remove → the prefix of their counts in ``clean``."""


@dataclasses.dataclass(frozen=True)
class Drops:
    """The documents that a stage dropped, by rule."""

    rules: list[CountRow]
    total: int
    documents: int
    """The documents that the stage read."""

    @classmethod
    def of(cls, counts: Counter[str], documents: int) -> "Drops":
        return cls(count_rows(counts, "dropped:", documents), sum_of(counts, "dropped:"), documents)


@dataclasses.dataclass(frozen=True)
class FunnelStep:
    """The documents after one step of the funnel; ``bytes`` of UTF-8 text."""

    name: str
    documents: int
    bytes: int | None

    @property
    def size(self) -> str:
        """The number of bytes as text; empty when it is not known."""
        return "" if self.bytes is None else short(self.bytes)


def sections(inputs: Inputs, cleaning: Cleaning, about: About) -> dict[str, Any]:
    """Returns the values of the template: name → content."""
    metrics = read_metrics(inputs["weights"].path("metrics.jsonl")) if "weights" in inputs else []
    table = ScoreTable.of(inputs["scores"]) if "scores" in inputs else None
    has_documents = "clean" in inputs
    return {
        "about": about,
        "title": _title(inputs, metrics, table),
        "conclusions": conclusions(inputs, metrics, table),
        "warnings": all_warnings(inputs),
        "funnel": _funnel(inputs) if "texts" in inputs else None,
        "unreadable": _unreadable(inputs["texts"], cleaning) if "texts" in inputs else None,
        "left_out": _left_out(inputs["texts"]) if "texts" in inputs else None,
        "drops": _drops(inputs, cleaning) if has_documents else None,
        "kept": _kept(inputs["clean"].counts) if has_documents else None,
        "duplicates": _duplicates(inputs, cleaning) if "duplicates" in inputs else None,
        "tokens": _tokens(inputs),
        "training": training(inputs["weights"], metrics) if "weights" in inputs else None,
        "finetuned": FinetunedScores.of(inputs["finetuned"]) if "finetuned" in inputs else None,
        "scores": table,
        "stages": [_stage(name, artifact) for name, artifact in inputs.items()],
        "columns": columns,
        "gain_note": shot_gains.NOTE,
        "explained": lambda rule: explained(rule, cleaning.filters),
    }


def sum_of(counts: Counter[str], prefix: str) -> int:
    """Returns the sum of the counts whose keys begin with ``prefix``."""
    return sum(n for key, n in counts.items() if key.startswith(prefix))


def _counts(inputs: Inputs, stage: str) -> Counter[str]:
    return inputs[stage].counts if stage in inputs else Counter()


def _title(inputs: Inputs, metrics: Sequence[dict[str, Any]], table: ScoreTable | None) -> dict[str, Any]:
    """Returns one line about the whole run, and its main numbers."""
    names = ("texts", "clean", "unique", "tokens", "weights")
    texts, clean, unique, tokens, weights = (_counts(inputs, name) for name in names)
    loss, bits, text = held_out(metrics, table)
    documents = unique.get("kept", clean.get("kept"))
    parts = {"records": texts.get("records_in"), "documents": documents, "tokens": tokens.get("tokens")}
    statistics = [
        Statistic("records read", short(None if weights else texts.get("records_in"))),
        Statistic("documents kept", short(None if unique and weights else clean.get("kept"))),
        Statistic("unique documents", short(unique.get("kept"))),
        Statistic("tokens", short(tokens.get("tokens"))),
        Statistic("parameters", short(weights.get("parameters"))),
        Statistic("validation loss", decimal(loss), "nats per token, " + text),
        Statistic("bits per byte", decimal(bits), text),
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


def _funnel(inputs: Inputs) -> dict[str, Any]:
    names = ("texts", "clean", "unique", "tokens", "packed")
    texts, clean, unique, tokens, packed = (_counts(inputs, name) for name in names)
    steps = [
        FunnelStep("records read", texts["records_in"], None),
        FunnelStep("readable", texts["kept"], texts.get("bytes_kept")),
    ]
    if "clean" in inputs:
        steps.append(FunnelStep("kept by cleaning", clean["kept"], clean.get("bytes_kept")))
    if "unique" in inputs:
        steps.append(FunnelStep("unique", unique["kept"], unique.get("bytes")))
    first = steps[0].documents
    rest = [
        Statistic("tokens", count(tokens.get("tokens")), "including one end-of-text token per document"),
        Statistic("training rows", count(packed.get("train_rows"))),
        Statistic("validation rows", count(packed.get("validation_rows"))),
    ]
    return {
        "figure": drawing.funnel([(step.name, step.documents) for step in steps]),
        "steps": steps,
        "rows": [
            (
                step.name,
                count(step.documents),
                percent(_ratio(step.documents, first)),
                "" if step.bytes is None else short(step.bytes),
            )
            for step in steps
        ],
        "has_bytes": any(step.bytes is not None for step in steps),
        "statistics": known(rest),
    }


def _unreadable(texts: Artifact, cleaning: Cleaning) -> dict[str, Any]:
    """Returns the records without a readable text, by reason, with samples."""
    drops = Drops.of(texts.counts, texts.counts["records_in"])
    rules = [row.name for row in drops.rules]
    return {"drops": drops, "samples": document_samples.side_by_side(texts, None, cleaning, rules, kept=0)}


def _left_out(texts: Artifact) -> dict[str, Any] | None:
    """Returns how much of the text of HTML pages extraction left out, and pages that lost most and least."""
    left_out, kept = (texts.counts[f"characters_{kind}"] for kind in ("left_out", "kept"))
    if not left_out:
        return None
    share = percent(left_out / (left_out + kept))
    return {"share": share, "characters": short(left_out), "pages": split_pages(texts)}


def _drops(inputs: Inputs, cleaning: Cleaning) -> dict[str, Any]:
    """Returns the documents that cleaning dropped, and the parts that it removed, by rule, with samples."""
    texts, artifact = inputs["texts"], inputs["clean"]
    counts = artifact.counts
    drops = Drops.of(counts, counts["documents_in"])
    removed = {unit: count_rows(counts, key, sum_of(counts, key)) for unit, key in REMOVED.items()}
    removing = [row.name for ranked in removed.values() for row in ranked]
    samples = document_samples.side_by_side(artifact, texts, cleaning, [row.name for row in drops.rules], removing)
    return {"drops": drops, "removed": {unit: rows for unit, rows in removed.items() if rows}, "samples": samples}


def _kept(clean: Counter[str]) -> dict[str, Any]:
    languages = count_rows(clean, "language:", sum_of(clean, "language:"))
    return {
        "lengths": drawing.bar_chart("lengths", _lengths(clean), "characters (lower bound)", "documents"),
        "languages": shortened(languages, LANGUAGES_SHOWN),
    }


def _duplicates(inputs: Inputs, cleaning: Cleaning) -> dict[str, Any]:
    """Returns clusters and pairs of duplicates, and the documents that were dropped as duplicates, by rule."""
    unique, sizes = _counts(inputs, "unique"), near_duplicates.cluster_sizes(inputs["duplicates"])
    drops = Drops.of(unique, unique["documents_in"])
    rules, texts = [row.name for row in drops.rules], inputs["texts"]
    return {
        "drops": drops if unique else None,
        "samples": document_samples.side_by_side(inputs["unique"], texts, cleaning, rules, kept=0) if rules else {},
        "pairs": near_duplicates.sample(inputs["clean"], inputs["duplicates"]),
        "clusters": drawing.bar_chart("clusters", sizes, "documents in a cluster", "clusters"),
    }


def _tokens(inputs: Inputs) -> list[Statistic]:
    """Returns the numbers about tokens and rows; none before the tokenizer."""
    tokenizer, tokens, packed = (_counts(inputs, name) for name in ("tokenizer", "tokens", "packed"))
    documents, positions = packed.get("train_documents"), packed["train_tokens"] + packed["train_padding"]
    statistics = [
        Statistic("vocabulary", count(tokenizer.get("vocabulary")), "tokens"),
        Statistic("bytes per token", decimal(_ratio(tokens.get("text_bytes"), tokens["tokens"]), 2), "of UTF-8 text"),
        Statistic("unknown", percent(_ratio(tokens.get("unknown_tokens"), tokens["tokens"])), "of all tokens"),
        Statistic("tokens per document", count(_ratio(tokens.get("tokens"), tokens["documents"])), "mean"),
        Statistic(
            "padding", percent(_ratio(packed.get("train_padding"), positions)), "of the positions of training rows"
        ),
        Statistic(
            "split documents", percent(_ratio(packed.get("train_split_documents"), documents)), "longer than a row"
        ),
        Statistic("held out", count(packed.get("validation_documents")), "documents for validation"),
    ]
    return known(statistics)


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


def _ratio(numerator: float | None, denominator: float | None) -> float | None:
    return numerator / denominator if numerator is not None and denominator else None


def _lengths(clean: Counter[str]) -> list[tuple[str, int]]:
    """Returns the number of documents by length; each interval is named by its smallest number of characters."""
    return [(_power(low), n) for low, n in histogram(clean, "length:")]


def _power(low: int) -> str:
    """Returns a power of two with a unit: 2048 → ``2K``."""
    return f"{low >> 20}M" if low >= 1 << 20 else f"{low >> 10}K" if low >= 1 << 10 else str(low)

"""Collects the content of each section of the page from the artifacts: plain values, figures and samples.

    Artifact.counts, metrics.jsonl, scores.json, dropped/*, removed/* ──> {"title": …, "funnel": …, "drops": …, …}

A value that an artifact lacks is None here and ``none`` on the page, so an incomplete run has a report, too.
"""

import dataclasses
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from headrace.data_prep.clean import Clean
from headrace.data_prep.filters.filter import REMOVED_UNITS
from headrace.pipeline.core.artifact import Artifact
from headrace.pipeline.core.metrics_file import read_metrics
from headrace.pipeline.core.stage import Inputs
from headrace.pipeline.report import document_samples, figures, near_duplicates
from headrace.pipeline.report.benchmark_curves import benchmark_curves
from headrace.pipeline.report.count_rows import CountRow, count_rows, histogram, shortened
from headrace.pipeline.report.formatting import count, decimal, flat, percent, short
from headrace.pipeline.report.phase_change import phase_change
from headrace.pipeline.report.score_history import Point, points
from headrace.pipeline.report.score_table import ScoreTable

LANGUAGES_SHOWN = 12
EPOCH_OF = "epoch:"
"""The prefix of the metrics that count the epochs of each source of a mixture."""
REMOVED = {unit: f"removed_{unit}:" for unit in REMOVED_UNITS}
"""Parts of documents that rules remove → the prefix of their counts in ``clean``."""


@dataclasses.dataclass(frozen=True)
class Statistic:
    """A number of the page with its label and a note, as text."""

    label: str
    value: str
    note: str = ""


@dataclasses.dataclass(frozen=True)
class Drops:
    """The documents that a stage dropped, by rule."""

    rules: list[CountRow]
    total: int
    documents: int
    """The documents that the stage read."""


@dataclasses.dataclass(frozen=True)
class FunnelStep:
    """The documents after one step of the funnel; ``bytes`` of UTF-8 text."""

    name: str
    documents: int
    bytes: int | None


def sections(inputs: Inputs, cleaning: Clean) -> dict[str, Any]:
    """Returns the values of the template: name → content."""
    clean, unique = inputs["clean"].counts, inputs["unique"].counts
    metrics = read_metrics(inputs["weights"].path("metrics.jsonl"))
    table = ScoreTable.of(inputs["scores"])
    sizes = near_duplicates.cluster_sizes(inputs["duplicates"])
    removed = {unit: count_rows(clean, key, sum_of(clean, key)) for unit, key in REMOVED.items()}
    drops, duplicates = _drops(clean, clean["records_in"]), _drops(unique, unique["documents_in"])
    return {
        "title": _title(inputs, metrics, table),
        "funnel": _funnel(inputs),
        "drops": drops,
        "removed": removed,
        "samples": _samples(inputs, cleaning, drops, removed, duplicates),
        "lengths": figures.bar_chart("lengths", _lengths(clean), "characters (lower bound)", "documents"),
        "languages": shortened(count_rows(clean, "language:", sum_of(clean, "language:")), LANGUAGES_SHOWN),
        "duplicates": duplicates,
        "pairs": near_duplicates.sample(inputs["clean"], inputs["duplicates"]),
        "clusters": figures.bar_chart("clusters", sizes, "documents in a cluster", "clusters"),
        "tokens": _tokens(inputs),
        "curves": _curves(metrics, points(inputs["weights"].folder)),
        "training": _training(metrics),
        "scores": table,
        "stages": [_stage(name, artifact) for name, artifact in inputs.items()],
    }


def sum_of(counts: Counter[str], prefix: str) -> int:
    """Returns the sum of the counts whose keys begin with ``prefix``."""
    return sum(n for key, n in counts.items() if key.startswith(prefix))


def last_of(metrics: Sequence[dict[str, Any]], name: str) -> float | None:
    """Returns the newest value of ``name`` in the log; None if there is none."""
    return next((row[name] for row in reversed(metrics) if row.get(name) is not None), None)


def held_out(metrics: Sequence[dict[str, Any]], table: ScoreTable) -> tuple[float | None, float | None, str]:
    """Returns loss, bits per byte, and the name of the text.

    The text is all held-out documents if these were scored, else the validation rows of the training.
    """
    if {"loss", "bits_per_byte"} <= table.held_out.keys():
        return table.held_out["loss"], table.held_out["bits_per_byte"], "all held-out text"
    return last_of(metrics, "validation_loss"), last_of(metrics, "bits_per_byte"), "held-out rows"


def series(metrics: Sequence[dict[str, Any]], name: str) -> figures.Points:
    """Returns (step, value) of every row that has ``name``."""
    return [(row["step"], row[name]) for row in metrics if row.get(name) is not None]


def _title(inputs: Inputs, metrics: Sequence[dict[str, Any]], table: ScoreTable) -> dict[str, Any]:
    tokens, weights = inputs["tokens"].counts, inputs["weights"].counts
    loss, bits, text = held_out(metrics, table)
    statistics = [
        Statistic("unique documents", short(inputs["unique"].counts.get("kept"))),
        Statistic("tokens", short(tokens.get("tokens"))),
        Statistic("parameters", short(weights.get("parameters"))),
        Statistic("validation loss", decimal(loss), "nats per token, " + text),
        Statistic("bits per byte", decimal(bits), text),
    ]
    headlines = [
        Statistic(row.title, percent(row.metric.value), f"random {percent(row.metric.random)}")
        for row in table.headlines()
    ]
    return {
        "statistics": statistics + headlines,
        "records": short(inputs["clean"].counts["records_in"]),
        "tokens": short(tokens["tokens"]),
        "addresses": [(name, inputs[name].folder.name) for name in ("weights", "scores")],
    }


def _funnel(inputs: Inputs) -> dict[str, Any]:
    clean, unique, tokens, packed = (inputs[name].counts for name in ("clean", "unique", "tokens", "packed"))
    steps = [
        FunnelStep("records read", clean["records_in"], clean.get("bytes_in")),
        FunnelStep("kept by cleaning", clean["kept"], clean.get("bytes_kept")),
        FunnelStep("unique", unique["kept"], unique.get("bytes")),
    ]
    first = steps[0].documents
    rows = [
        (step.name, count(step.documents), percent(_ratio(step.documents, first)), short(step.bytes)) for step in steps
    ]
    rest = [
        Statistic("tokens", count(tokens.get("tokens")), "including one end-of-text token per document"),
        Statistic("training rows", count(packed.get("train_rows"))),
        Statistic("validation rows", count(packed.get("validation_rows"))),
    ]
    return {"figure": figures.funnel([(step.name, step.documents) for step in steps]), "rows": rows, "statistics": rest}


def _drops(counts: Counter[str], documents: int) -> Drops:
    return Drops(count_rows(counts, "dropped:", documents), sum_of(counts, "dropped:"), documents)


def _samples(
    inputs: Inputs, clean: Clean, drops: Drops, removed: Mapping[str, list[CountRow]], duplicates: Drops
) -> dict[str, list[document_samples.SamplePair]]:
    """Returns samples of documents that rules of cleaning dropped or shortened, and that deduplication dropped."""
    removing = [row.name for ranked in removed.values() for row in ranked]
    found = document_samples.side_by_side(inputs["clean"], clean, [row.name for row in drops.rules], removing)
    return found | document_samples.side_by_side(
        inputs["unique"], clean, [row.name for row in duplicates.rules], kept=0
    )


def _tokens(inputs: Inputs) -> list[Statistic]:
    tokens, packed = inputs["tokens"].counts, inputs["packed"].counts
    text_bytes, documents = tokens.get("text_bytes"), packed["train_documents"]
    positions = packed["train_tokens"] + packed["train_padding"]
    return [
        Statistic("vocabulary", count(inputs["tokenizer"].counts.get("vocabulary")), "tokens"),
        Statistic("bytes per token", decimal(_ratio(text_bytes, tokens["tokens"]), 2), "of UTF-8 text"),
        Statistic("tokens per document", count(_ratio(tokens["tokens"], tokens["documents"])), "mean"),
        Statistic("padding", percent(_ratio(packed["train_padding"], positions)), "of the positions of training rows"),
        Statistic("split documents", percent(_ratio(packed["train_split_documents"], documents)), "longer than a row"),
        Statistic("held out", count(packed.get("validation_documents")), "documents for validation"),
    ]


def _training(metrics: Sequence[dict[str, Any]]) -> list[Statistic]:
    speeds = sorted(value for _, value in series(metrics, "tokens_per_second"))
    return [
        Statistic("steps", count(metrics[-1]["step"] if metrics else None)),
        *epochs(metrics),
        Statistic("training loss", decimal(last_of(metrics, "loss")), "last logged, nats per token"),
        Statistic("speed", count(speeds[len(speeds) // 2] if speeds else None), "tokens per second, median"),
    ]


def epochs(metrics: Sequence[dict[str, Any]]) -> list[Statistic]:
    """Returns the number of epochs: of each source of a mixture, else of the training rows."""
    sources = [name.removeprefix(EPOCH_OF) for row in metrics[-1:] for name in row if name.startswith(EPOCH_OF)]
    if not sources:
        return [Statistic("epochs", decimal(last_of(metrics, "epoch"), 2), "over the training rows")]
    return [
        Statistic(f"epochs of {source}", decimal(last_of(metrics, EPOCH_OF + source), 2), "a source of the mixture")
        for source in sources
    ]


def _curves(metrics: Sequence[dict[str, Any]], scored: Sequence[Point]) -> dict[str, Any]:
    norm, validation = series(metrics, "gradient_norm"), series(metrics, "validation_loss")
    return {
        "loss": figures.loss(series(metrics, "loss"), validation),
        "benchmarks": benchmark_curves(scored),
        "phases": phase_change(validation, scored),
        "learning_rate": figures.curve("learning_rate", series(metrics, "learning_rate"), "learning rate"),
        "gradient_norm": figures.curve("gradient_norm", norm, "gradient norm"),
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


def _ratio(numerator: float | None, denominator: float | None) -> float | None:
    return numerator / denominator if numerator is not None and denominator else None


def _lengths(clean: Counter[str]) -> list[tuple[str, int]]:
    """Returns the number of documents by length; each interval is named by its smallest number of characters."""
    return [(_power(low), n) for low, n in histogram(clean, "length:")]


def _power(low: int) -> str:
    """Returns a power of two with a unit: 2048 → ``2K``."""
    return f"{low >> 20}M" if low >= 1 << 20 else f"{low >> 10}K" if low >= 1 << 10 else str(low)

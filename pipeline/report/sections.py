"""Collects the content of each section of the page from artifacts: plain values, figures and samples.

    Artifact.counts, metrics.jsonl, scores.json, dropped/*, removed/* ──> {"title": …, "funnel": …, "drops": …, …}

A value that an artifact lacks is None here and ``none`` on the page.
"""

import dataclasses
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from headrace.data_prep.clean import Clean
from headrace.pipeline.core.artifact import Artifact
from headrace.pipeline.core.metrics_file import read_metrics
from headrace.pipeline.core.stage import Inputs
from headrace.pipeline.report import figures, pairs, samples
from headrace.pipeline.report.benchmark_curves import benchmark_curves
from headrace.pipeline.report.formatting import count, decimal, flat, percent, short
from headrace.pipeline.report.phases import phase_change
from headrace.pipeline.report.score_history import Point, points
from headrace.pipeline.report.scores import ScoreTable
from headrace.pipeline.report.tallies import Tally, histogram, shortened, tallies

LANGUAGES_SHOWN = 12
EPOCH_OF = "epoch:"
"""The prefix of the metrics with the number of epochs over one source of a mixture."""
REMOVED = {"lines": "removed_lines:", "sentences": "removed_sentences:"}
"""Parts of documents that rules remove, and the prefix of their counts in ``clean``."""


@dataclasses.dataclass(frozen=True)
class Fact:
    """One number with its name, as text."""

    label: str
    value: str
    note: str = ""


@dataclasses.dataclass(frozen=True)
class Drops:
    """The documents that a stage dropped, by rule."""

    rules: list[Tally]
    total: int
    of: int


@dataclasses.dataclass(frozen=True)
class Step:
    """The documents that are left after one step of the funnel; ``bytes`` of UTF-8 text."""

    name: str
    documents: int
    bytes: int | None


def sections(inputs: Inputs, cleaning: Clean) -> dict[str, Any]:
    """Returns all content of the page, by its name in the template."""
    clean, unique = inputs["clean"].counts, inputs["unique"].counts
    metrics = read_metrics(inputs["weights"].path("metrics.jsonl"))
    table = ScoreTable.of(inputs["scores"])
    sizes = pairs.cluster_sizes(inputs["duplicates"])
    removed = {unit: tallies(clean, key, sum_of(clean, key)) for unit, key in REMOVED.items()}
    drops, duplicates = _drops(clean, clean["records_in"]), _drops(unique, unique["documents_in"])
    return {
        "title": _title(inputs, metrics, table),
        "funnel": _funnel(inputs),
        "drops": drops,
        "removed": removed,
        "samples": _samples(inputs, cleaning, drops, removed, duplicates),
        "lengths": figures.columns("lengths", _lengths(clean), "characters, at least", "documents"),
        "languages": shortened(tallies(clean, "language:", sum_of(clean, "language:")), LANGUAGES_SHOWN),
        "duplicates": duplicates,
        "pairs": pairs.sample(inputs["clean"], inputs["duplicates"]),
        "clusters": figures.columns("clusters", sizes, "documents in a cluster", "clusters"),
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
    """Returns the newest value of ``name`` in the log."""
    return next((row[name] for row in reversed(metrics) if row.get(name) is not None), None)


def held_out(metrics: Sequence[dict[str, Any]], table: ScoreTable) -> tuple[float | None, float | None, str]:
    """Returns loss, bits per byte and their text: all held-out text if it was scored, else held-out rows."""
    if {"loss", "bits_per_byte"} <= table.held_out.keys():
        return table.held_out["loss"], table.held_out["bits_per_byte"], "all held-out text"
    return last_of(metrics, "validation_loss"), last_of(metrics, "bits_per_byte"), "held-out rows"


def series(metrics: Sequence[dict[str, Any]], name: str) -> figures.Points:
    """Returns ``(step, value)`` of every row that has ``name``."""
    return [(row["step"], row[name]) for row in metrics if row.get(name) is not None]


def _title(inputs: Inputs, metrics: Sequence[dict[str, Any]], table: ScoreTable) -> dict[str, Any]:
    tokens, weights = inputs["tokens"].counts, inputs["weights"].counts
    loss, bits, where = held_out(metrics, table)
    facts = [
        Fact("unique documents", short(inputs["unique"].counts.get("kept"))),
        Fact("tokens", short(tokens.get("tokens"))),
        Fact("parameters", short(weights.get("parameters"))),
        Fact("validation loss", decimal(loss), "nats per token, " + where),
        Fact("bits per byte", decimal(bits), where),
    ]
    headlines = [
        Fact(row.title, percent(row.metric.value), f"random {percent(row.metric.random)}") for row in table.headlines()
    ]
    return {
        "facts": facts + headlines,
        "records": short(inputs["clean"].counts["records_in"]),
        "tokens": short(tokens["tokens"]),
        "addresses": [(name, inputs[name].folder.name) for name in ("weights", "scores")],
    }


def _funnel(inputs: Inputs) -> dict[str, Any]:
    clean, unique, tokens, packed = (inputs[name].counts for name in ("clean", "unique", "tokens", "packed"))
    steps = [
        Step("records read", clean["records_in"], clean.get("bytes_in")),
        Step("kept by cleaning", clean["kept"], clean.get("bytes_kept")),
        Step("unique", unique["kept"], unique.get("bytes")),
    ]
    first = steps[0].documents
    rows = [
        (step.name, count(step.documents), percent(_ratio(step.documents, first)), short(step.bytes)) for step in steps
    ]
    rest = [
        Fact("tokens", count(tokens.get("tokens")), "with one end of text per document"),
        Fact("training rows", count(packed.get("train_rows"))),
        Fact("validation rows", count(packed.get("validation_rows"))),
    ]
    return {"figure": figures.funnel([(step.name, step.documents) for step in steps]), "rows": rows, "facts": rest}


def _drops(counts: Counter[str], of: int) -> Drops:
    return Drops(tallies(counts, "dropped:", of), sum_of(counts, "dropped:"), of)


def _samples(
    inputs: Inputs, clean: Clean, drops: Drops, removed: Mapping[str, list[Tally]], duplicates: Drops
) -> dict[str, list[samples.Pair]]:
    """Returns examples of the effect of each cleaning rule, and documents that deduplication dropped."""
    removing = [tally.name for ranked in removed.values() for tally in ranked]
    found = samples.side_by_side(inputs["clean"], clean, [tally.name for tally in drops.rules], removing)
    return found | samples.side_by_side(inputs["unique"], clean, [tally.name for tally in duplicates.rules], kept=0)


def _tokens(inputs: Inputs) -> list[Fact]:
    tokens, packed = inputs["tokens"].counts, inputs["packed"].counts
    text_bytes, documents = tokens.get("text_bytes"), packed["train_documents"]
    places = packed["train_tokens"] + packed["train_padding"]
    return [
        Fact("vocabulary", count(inputs["tokenizer"].counts.get("vocabulary")), "tokens"),
        Fact("bytes per token", decimal(_ratio(text_bytes, tokens["tokens"]), 2), "of UTF-8 text"),
        Fact("tokens per document", count(_ratio(tokens["tokens"], tokens["documents"])), "mean"),
        Fact("padding", percent(_ratio(packed["train_padding"], places)), "of the positions of training rows"),
        Fact("split documents", percent(_ratio(packed["train_split_documents"], documents)), "longer than a row"),
        Fact("held out", count(packed.get("validation_documents")), "documents for validation"),
    ]


def _training(metrics: Sequence[dict[str, Any]]) -> list[Fact]:
    speeds = sorted(value for _, value in series(metrics, "tokens_per_second"))
    return [
        Fact("steps", count(metrics[-1]["step"] if metrics else None)),
        *epochs(metrics),
        Fact("training loss", decimal(last_of(metrics, "loss")), "last logged, nats per token"),
        Fact("speed", count(speeds[len(speeds) // 2] if speeds else None), "tokens per second, median"),
    ]


def epochs(metrics: Sequence[dict[str, Any]]) -> list[Fact]:
    """Returns the number of epochs: over each source of a mixture, or over the run's own rows."""
    sources = [name.removeprefix(EPOCH_OF) for row in metrics[-1:] for name in row if name.startswith(EPOCH_OF)]
    if not sources:
        return [Fact("epochs", decimal(last_of(metrics, "epoch"), 2), "over the training rows")]
    return [
        Fact(f"epochs of {source}", decimal(last_of(metrics, EPOCH_OF + source), 2), "a source of the mixture")
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
    settings = [(key, value) for key, value in flat(artifact.settings)]
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


def _ratio(top: float | None, bottom: float | None) -> float | None:
    return top / bottom if top is not None and bottom else None


def _lengths(clean: Counter[str]) -> list[tuple[str, int]]:
    """Returns documents by length; the name of an interval is its lowest number of characters."""
    return [(_power(low), n) for low, n in histogram(clean, "length:")]


def _power(low: int) -> str:
    """Formats ``2048`` as ``2K``."""
    return f"{low >> 20}M" if low >= 1 << 20 else f"{low >> 10}K" if low >= 1 << 10 else str(low)

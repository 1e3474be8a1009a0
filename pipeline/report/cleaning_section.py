"""The sections of raw pages and of cleaning: the funnel, unreadable records, what extraction left out, the classifier,
dropped documents by rule, and what was kept. cleaning.html shows them.

The documents that a stage dropped, and the parts that it removed, stand there by rule, with samples.
"""

import dataclasses
from collections import Counter
from collections.abc import Mapping
from typing import Any

from headrace.data_prep.classifier import JUDGEMENT
from headrace.data_prep.clean import Clean, Cleaning
from headrace.data_prep.filters.filter import REMOVED_UNITS
from headrace.pipeline.core.artifact import Artifact
from headrace.pipeline.core.json_files import read_json
from headrace.pipeline.core.stage import Inputs, counted
from headrace.pipeline.documents.samples import KEPT_SAMPLES, SamplePair, side_by_side, split_pages
from headrace.pipeline.report import drawing
from headrace.pipeline.report.formatting import PageTable, Statistic, count, decimal, known, percent, short
from headrace.pipeline.report.funnel import (
    COLUMNS,
    DROPPED,
    CountRow,
    StageFunnel,
    count_rows,
    funnel,
    histogram,
    language_funnels,
    shortened,
    steps,
)

LANGUAGES_SHOWN = 12
RULES_OF_LANGUAGE = 3
NGRAMS_SHOWN = 12


def funnel_section(inputs: Inputs) -> dict[str, Any] | None:
    """Returns the documents after each step, as a figure and a table, and the numbers of tokens and rows."""
    if "texts" not in inputs:
        return None
    funnel_steps = steps(funnel(inputs))
    columns = [
        column
        for column in COLUMNS
        if not column.is_optional or any(column.value(step) is not None for step in funnel_steps)
    ]
    tokens, packed = (inputs[name].counts if name in inputs else Counter() for name in ("tokens", "packed"))
    statistics = [
        Statistic("tokens", count(tokens.get("tokens")), "including one end-of-text token per document"),
        Statistic("training rows", count(packed.get("train_rows"))),
        Statistic("validation rows", count(packed.get("validation_rows"))),
    ]
    return {
        "figure": drawing.funnel([(step.name, step.documents) for step in funnel_steps]),
        "steps": funnel_steps,
        "table": PageTable(
            ["step", *(column.title for column in columns)],
            [[step.name, *(column.text(column.value(step)) for column in columns)] for step in funnel_steps],
        ),
        "statistics": known(statistics),
    }


def left_out_section(inputs: Inputs) -> dict[str, Any] | None:
    """Returns how much of the text of HTML pages extraction left out, and pages that lost most and least."""
    counts = inputs["texts"].counts if "texts" in inputs else Counter()
    left_out, kept = (counts[f"characters_{kind}"] for kind in ("left_out", "kept"))
    if not left_out:
        return None
    share = percent(left_out / (left_out + kept))
    truncated = count(counts["truncated"]) if counts["truncated"] else None
    return {
        "share": share,
        "characters": short(left_out),
        "truncated": truncated,
        "pages": split_pages(inputs["texts"]),
    }


def classifier_section(inputs: Inputs) -> dict[str, Any] | None:
    """Returns the main numbers of the classifier that the run trained, and a part for each class."""
    if "classifier" not in inputs:
        return None
    values, counts = read_json(inputs["classifier"].path(JUDGEMENT)), inputs["classifier"].counts
    held = values["held_out"]
    accuracy = held["accuracy"]
    interval = f"95 % interval {percent(accuracy['low'])} to {percent(accuracy['high'])}"
    areas = [Statistic(f"AUC of {row['name']}", decimal(row["auc"]["value"])) for row in held["classes"]]
    statistics = [
        Statistic("texts trained on", short(counts["trained"])),
        Statistic("texts held out", short(held["texts"])),
        Statistic("accuracy", percent(accuracy["value"]), "" if accuracy["value"] is None else interval),
        Statistic("calibration error", decimal(held["calibration_error"]), "expected"),
        *(areas[-1:] if len(areas) == 2 else areas),
    ]
    classes = [_class(row, values["distinctive"][row["name"]]) for row in held["classes"]]
    return {"statistics": statistics, "classes": classes, "is_unfinished": bool(counts["not_converged"])}


@dataclasses.dataclass(frozen=True)
class ClassPart:
    """The part of the page about one class against the others."""

    name: str
    figure: drawing.Figure | None
    """Precision by recall; None without a held-out text of the class."""
    table: PageTable
    """The shares that each threshold keeps."""
    ngrams: list[str]
    """The n-grams that tell most, each with its part of the distance between the mean margins."""


def _class(judged: Mapping[str, Any], ngrams: list[dict[str, Any]]) -> ClassPart:
    """Returns the part of a class, of its judgement and its n-grams in judgement.json."""
    rows, name = judged["thresholds"], judged["name"]
    points = sorted((row["recall"], row["precision"]) for row in rows if row["recall"] is not None)
    columns = {"share": "kept", "precision": "precision", "recall": "of the class", "others": "of the others"}
    cells = [[f"{row['score']:.6f}", *(percent(row[column]) for column in columns)] for row in rows]
    return ClassPart(
        name,
        drawing.curve(f"classifier-{name}", points, f"precision of {name}", "recall"),
        PageTable(["min_score", *columns.values()], cells, labels=0),
        [f"{entry['ngram']} {entry['distance']:+.3f}" for entry in ngrams[:NGRAMS_SHOWN]],
    )


def kept_section(inputs: Inputs) -> dict[str, Any] | None:
    """Returns the lengths and languages of what cleaning kept, and the funnel of each language."""
    if "clean" not in inputs:
        return None
    counts = inputs["clean"].counts
    lengths = [(_power(low), number) for low, number in histogram(counts, "length:")]
    languages = count_rows(counts, "language:", counted(counts, "language:"))
    funnels = [
        [
            language.name,
            count(language.read),
            count(language.kept),
            percent(language.kept / language.read),
            ", ".join(f"{rule} {count(number)}" for rule, number in language.dropped.most_common(RULES_OF_LANGUAGE)),
        ]
        for language in language_funnels(counts)
    ]
    return {
        "lengths": drawing.bar_chart("lengths", lengths, "characters (lower bound)", "documents"),
        "languages": shortened(languages, LANGUAGES_SHOWN),
        "funnels": PageTable(["language", "judged", "kept", "share", "dropped by"], funnels, texts=1),
    }


def _power(low: int) -> str:
    """Returns a power of two with a unit: 2048 → ``2K``."""
    return f"{low >> 20}M" if low >= 1 << 20 else f"{low >> 10}K" if low >= 1 << 10 else str(low)


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
    samples: dict[str, list[SamplePair]]

    @classmethod
    def of(cls, stage: StageFunnel, artifact: Artifact, texts: Artifact | None, cleaning: Cleaning) -> "StageDrops":
        """Returns what ``stage`` dropped; ``texts`` are the documents before ``cleaning``, None for their own stage."""
        rules, removed = count_rows(stage.counts, DROPPED, stage.read), _removed(stage.counts)
        dropping, removing = [row.name for row in rules], [row.name for rows in removed.values() for row in rows]
        kept = KEPT_SAMPLES if stage.stage == Clean.name else 0
        has_samples = dropping or removing
        samples = side_by_side(artifact, texts, cleaning, dropping, removing, kept) if has_samples else {}
        return cls(rules, stage.dropped.total(), stage.read, removed, samples)


def stage_drops(inputs: Inputs, cleaning: Cleaning) -> dict[str, StageDrops]:
    """Returns what each stage of ``inputs`` that keeps and drops documents dropped, in the order of the line."""
    stages = [stage for stage in funnel(inputs) if stage.names.stores_documents]
    return {
        stage.stage: StageDrops.of(stage, inputs[stage.stage], inputs[stages[0].stage] if number else None, cleaning)
        for number, stage in enumerate(stages)
    }


def _removed(counts: "Counter[str]") -> dict[str, list[CountRow]]:
    """Returns the parts of documents that each rule removed, by unit."""
    prefixes = {unit: f"removed_{unit}:" for unit in REMOVED_UNITS}
    rows = {unit: count_rows(counts, prefix, counted(counts, prefix)) for unit, prefix in prefixes.items()}
    return {unit: unit_rows for unit, unit_rows in rows.items() if unit_rows}

"""The section of the classifier that the run trained: precision and recall, calibration, thresholds."""

import dataclasses
from collections.abc import Mapping
from typing import Any

from headrace.data_prep.classifier import JUDGEMENT
from headrace.pipeline.core.artifact import Artifact
from headrace.pipeline.core.json_files import read_json
from headrace.pipeline.report.figures import drawing
from headrace.pipeline.report.formatting import decimal, percent, short
from headrace.pipeline.report.run_statistics import Statistic

NGRAMS_SHOWN = 12


@dataclasses.dataclass(frozen=True)
class ClassSection:
    """The part of the page about one class against the others."""

    name: str
    figure: Any
    """Precision by recall; None without a held-out text of the class."""
    rows: list[list[str]]
    """Threshold, share of the texts that it keeps, precision, shares of the class and of the others that it keeps."""
    ngrams: list[str]
    """The n-grams that tell most, each with its part of the distance between the mean margins."""


def classifier_section(classifier: Artifact) -> dict[str, Any]:
    """Returns the main numbers of the stage ``classifier``, and a section for each class."""
    values = read_json(classifier.path(JUDGEMENT))
    held, counts = values["held_out"], classifier.counts
    accuracy = held["accuracy"]
    interval = f"95 % interval {percent(accuracy['low'])} to {percent(accuracy['high'])}"
    own = [Statistic(f"AUC of {row['name']}", decimal(row["auc"]["value"])) for row in held["classes"]]
    statistics = [
        Statistic("texts trained on", short(counts["trained"])),
        Statistic("texts held out", short(held["texts"])),
        Statistic("accuracy", percent(accuracy["value"]), interval if accuracy["value"] is not None else ""),
        Statistic("calibration error", decimal(held["calibration_error"]), "expected"),
        *(own[-1:] if len(own) == 2 else own),
    ]
    classes = [class_section(row, values["distinctive"][row["name"]]) for row in held["classes"]]
    return {"statistics": statistics, "classes": classes, "is_unfinished": bool(counts["not_converged"])}


def class_section(judged: Mapping[str, Any], ngrams: list[dict[str, Any]]) -> ClassSection:
    """Returns the section of a class, of its judgement and its n-grams in judgement.json."""
    rows, name = judged["thresholds"], judged["name"]
    points = sorted((row["recall"], row["precision"]) for row in rows if row["recall"] is not None)
    shares = ("share", "precision", "recall", "others")
    return ClassSection(
        name,
        drawing.curve(f"classifier-{name}", points, f"precision of {name}", "recall"),
        [[f"{row['score']:.6f}", *(percent(row[share]) for share in shares)] for row in rows],
        [f"{entry['ngram']} {entry['distance']:+.3f}" for entry in ngrams[:NGRAMS_SHOWN]],
    )

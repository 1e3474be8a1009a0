"""The section of the training: its numbers, the first row, the tree of branches, and its curves, from metrics.jsonl.

{"step": 120, "loss": 3.41, "epoch": 1.2, …} ──> steps 120   epochs 1.20   training loss 3.410   loss curve …
"""

import base64
import dataclasses
from collections.abc import Sequence
from typing import Any

from headrace.pipeline.core.artifact import Artifact
from headrace.pipeline.core.json_files import read_json
from headrace.pipeline.report.figures import drawing
from headrace.pipeline.report.figures.benchmark_curves import benchmark_curves
from headrace.pipeline.report.figures.context_loss import context_loss
from headrace.pipeline.report.figures.phase_change import phase_change
from headrace.pipeline.report.figures.row_picture import svg
from headrace.pipeline.report.figures.score_history import Point, points
from headrace.pipeline.report.figures.training_tree import training_tree
from headrace.pipeline.report.formatting import count, decimal
from headrace.pipeline.report.run_statistics import Statistic, known
from headrace.pipeline.report.score_table import ScoreTable
from headrace.train.row_example import RowExample
from headrace.train.weights import ROW

EPOCH_OF = "epoch:"
"""The prefix of the metrics that count the epochs of each source of a mixture."""


def training(weights: Artifact, metrics: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Returns the content of the section: statistics, the tree of branches, the first row, and the curves."""
    speeds = sorted(value for _, value in series(metrics, "tokens_per_second"))
    statistics = [
        Statistic("steps", count(metrics[-1]["step"] if metrics else None)),
        Statistic("of the trunk", count(weights.counts.get("trunk_steps")), "steps before this branch began"),
        *epochs(metrics),
        Statistic("training loss", decimal(last_of(metrics, "loss")), "last logged, nats per token"),
        Statistic("speed", count(speeds[len(speeds) // 2] if speeds else None), "tokens per second, median"),
    ]
    tree = training_tree(weights.folder)
    curves = _curves(metrics, points(weights.folder))
    return {"statistics": known(statistics), "tree": tree, "row": _row(weights), **curves}


def epochs(metrics: Sequence[dict[str, Any]]) -> list[Statistic]:
    """Returns the number of epochs: of each source of a mixture, else of the training rows."""
    sources = [name.removeprefix(EPOCH_OF) for row in metrics[-1:] for name in row if name.startswith(EPOCH_OF)]
    if not sources:
        return [Statistic("epochs", decimal(last_of(metrics, "epoch"), 2), "over the training rows")]
    return [
        Statistic(f"epochs of {source}", decimal(last_of(metrics, EPOCH_OF + source), 2), "a source of the mixture")
        for source in sources
    ]


def last_of(metrics: Sequence[dict[str, Any]], name: str) -> float | None:
    """Returns the newest value of ``name`` in the log; None if there is none."""
    return next((row[name] for row in reversed(metrics) if row.get(name) is not None), None)


@dataclasses.dataclass(frozen=True)
class HeldOutLoss:
    """The loss of text that was not trained on. Its name says of which: one model has both losses."""

    name: str
    """``held-out loss``: of all held-out documents. ``validation loss``: of the rows that training validates on."""
    loss: float | None
    bits_per_byte: float | None
    text: str


def held_out(metrics: Sequence[dict[str, Any]], table: ScoreTable | None) -> HeldOutLoss:
    """Returns the loss of all held-out documents if these were scored, else of the validation rows of the training."""
    if table is not None and {"loss", "bits_per_byte"} <= table.held_out.keys():
        return HeldOutLoss(
            "held-out loss", table.held_out["loss"], table.held_out["bits_per_byte"], "all held-out text"
        )
    own = last_of(metrics, "validation_loss"), last_of(metrics, "bits_per_byte")
    return HeldOutLoss("validation loss", *own, "held-out rows")


def series(metrics: Sequence[dict[str, Any]], name: str) -> drawing.Points:
    """Returns (step, value) of every row that has ``name``."""
    return [(row["step"], row[name]) for row in metrics if row.get(name) is not None]


def _row(weights: Artifact) -> str | None:
    """Returns the picture of the first row as a data URL; None if the training wrote none."""
    if ROW not in weights.manifest["files"]:
        return None
    example = RowExample.of_json(read_json(weights.path(ROW)))
    if not example.tokens():
        return None
    picture = svg("the first row of the training", example).encode()
    return "data:image/svg+xml;base64," + base64.b64encode(picture).decode()


def _curves(metrics: Sequence[dict[str, Any]], scored: Sequence[Point]) -> dict[str, Any]:
    norm, validation = series(metrics, "gradient_norm"), series(metrics, "validation_loss")
    return {
        "loss": drawing.loss(series(metrics, "loss"), validation),
        "benchmarks": benchmark_curves(scored),
        "phases": phase_change(validation, scored),
        "context_loss": context_loss(scored),
        "learning_rate": drawing.curve("learning_rate", series(metrics, "learning_rate"), "learning rate"),
        "gradient_norm": drawing.curve("gradient_norm", norm, "gradient norm"),
    }

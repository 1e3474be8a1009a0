"""The section of a fine-tuning: its scores over the seeds, and the curves of the validation.

metric      mean ± interval     seed 1   seed 2   seed 3      one seed alone has no mean
accuracy    91.3 % ± 0.9 %      91.1     91.7     91.1
"""

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import plotly.graph_objects as go

from headrace.pipeline.core.artifact import Artifact
from headrace.pipeline.core.json_files import read_json
from headrace.pipeline.core.metrics_file import read_metrics
from headrace.pipeline.report.figures.drawing import (
    LEGEND_PIXELS,
    PANEL_PIXELS,
    SERIES,
    Figure,
    panel_figure,
    panel_grid,
)
from headrace.pipeline.report.formatting import decimal
from headrace.train.finetune.seed_scores import COVERAGE, OWN_FORMAT

SCORES = "scores.json"
DIGITS = 4
FEW_UPDATES = 100
"""Fewer updates of a seed are named."""


@dataclasses.dataclass(frozen=True)
class FinetunedScores:
    """The scores of a fine-tuning as text."""

    task: str
    header: list[str]
    rows: list[list[str]]
    notes: list[str]
    figure: Figure | None
    model: Path
    """The folder of the model of the best seed."""

    @classmethod
    def of(cls, artifact: Artifact) -> "FinetunedScores":
        scores = read_json(artifact.path(SCORES))
        seeds = [entry["seed"] for entry in scores["seeds"]]
        means = len(seeds) > 1
        header = ["metric", *["mean"] * means, *(f"seed {seed}" for seed in seeds)]
        rows = [
            [name, *[_interval(row)] * means, *map(_shown, row["values"])] for name, row in scores["scores"].items()
        ]
        curves = _curves(artifact, scores["metric"], seeds)
        return cls(scores["task"], header, rows, list(_notes(scores)), curves, artifact.folder / "hf")


def _shown(value: float) -> str:
    return decimal(value, DIGITS)


def _interval(row: Mapping[str, Any]) -> str:
    width = row["half_width"]
    return _shown(row["mean"]) + ("" if width is None else f" ± {_shown(width)}")


def _notes(scores: Mapping[str, Any]) -> Iterator[str]:
    examples, cut = scores["examples"], scores["cut"]
    yield f"{examples['train']:,} examples of training, {examples['validation']:,} of validation"
    if majority := scores.get("majority"):
        share = f"{majority['share']:.1%} of the examples of validation"
        yield f"for comparison: the most frequent class is that of {share} ({majority['class']})"
    steps = [entry["steps"] for entry in scores["seeds"] if entry.get("steps", FEW_UPDATES) < FEW_UPDATES]
    if steps:
        yield f"only {min(steps)} updates: more epochs, or a higher finetune.optimizer.learning_rate, may teach more"
    if len(scores["seeds"]) > 1:
        yield f"±: half of the {COVERAGE:.0%} interval of the mean over seeds (Student's t)"
    averaged = scores["seeds"][0].get("averaged_steps")
    best = f"best checkpoint by {scores['metric']} of validation"
    chosen = f"mean of the last {len(averaged)} checkpoints" if averaged else best
    yield f"{chosen}; the model of seed {scores['best_seed']} is in hf/"
    for metric, signature in scores["seeds"][0].get("signatures", {}).items():
        yield f"{metric} of sacrebleu: {signature}"
    if parameters := scores.get("parameters"):
        yield f"{parameters['trained']:,} of {parameters['all']:,} parameters are trained, the others are frozen"
    if scores.get("own_format"):
        yield OWN_FORMAT
    if any(cut.values()):
        yield f"texts cut to finetune.context: {cut['train']:,} of training, {cut['validation']:,} of validation"
    if unread := scores.get("unread_words"):
        yield f"words beyond finetune.context: {unread['train']:,} of training, {unread['validation']:,} of validation"
    if scores["overlapping"]:
        yield f"left out of training, because validation has them: {scores['overlapping']:,}"
    for split, reasons in scores["dropped"].items():
        shown = ", ".join(f"{reason} {number:,}" for reason, number in reasons.items())
        yield f"lines of {split} that hold no example: {shown}"


def _curves(artifact: Artifact, metric: str, seeds: Sequence[int]) -> Figure | None:
    """Returns loss and ``metric`` of the validation over the steps, one line a seed."""
    names = ("validation_loss", f"validation_{metric}")
    chart = panel_grid([name.replace("_", " ") for name in names], len(names))
    for number, seed in enumerate(seeds):
        rows = read_metrics(artifact.path(f"seed_{seed}/metrics.jsonl"))
        for column, name in enumerate(names, 1):
            points = [(row["step"], row[name]) for row in rows if name in row]
            line = go.Scatter(
                x=[step for step, _ in points],
                y=[value for _, value in points],
                name=f"seed {seed}",
                mode="lines+markers",
                line={"color": SERIES[number % len(SERIES)]},
                showlegend=column == 1,
            )
            chart.add_trace(line, row=1, col=column)
    chart.update_xaxes(title_text="optimizer step", row=1)
    label = f"Loss and {metric} of validation by optimizer step"
    return panel_figure("finetuned", chart, PANEL_PIXELS + LEGEND_PIXELS, label, len(names))

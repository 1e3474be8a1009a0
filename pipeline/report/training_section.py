"""The sections of the training and of fine-tuning: numbers, curves, origins of a branch, scores by seed.

training.html shows them.

    {"step": 120, "loss": 3.41, "epoch": 1.2, …} ──> steps 120   epochs 1.20   training loss 3.410   loss curve …
    metric      mean ± interval     seed 1   seed 2   seed 3      one seed alone has no mean
    accuracy    91.3 % ± 0.9 %      91.1     91.7     91.1
"""

import dataclasses
import itertools
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from headrace.pipeline.core.artifact import Artifact
from headrace.pipeline.core.json_files import read_json
from headrace.pipeline.core.metrics_file import read_metrics
from headrace.pipeline.core.setting_classes import shown
from headrace.pipeline.core.statistics import COVERAGE
from headrace.pipeline.report import drawing
from headrace.pipeline.report.drawing import LEGEND_PIXELS, PANEL_PIXELS, SERIES, Figure
from headrace.pipeline.report.formatting import PageTable, Statistic, count, decimal, known, short
from headrace.pipeline.report.score_figures import benchmark_curves
from headrace.pipeline.report.score_history import points
from headrace.pipeline.report.score_table import ScoreTable
from headrace.train.finetune.seed_files import OWN_FORMAT
from headrace.train.weights import ORIGIN

Metrics = Sequence[Mapping[str, Any]]
"""The rows of metrics.jsonl."""
EPOCH_OF = "epoch:"
"""The prefix of the metrics that count the epochs of each source of a mixture."""
FEW_UPDATES = 100
"""Fewer updates of a seed of fine-tuning are named."""


def training_section(weights: Artifact | None, metrics: Metrics) -> dict[str, Any] | None:
    """Returns the numbers and curves of the training, and what it went on from; None without one."""
    if weights is None:
        return None
    speeds = sorted(value for _, value in series(metrics, "tokens_per_second"))
    statistics = [
        Statistic("steps", count(metrics[-1]["step"] if metrics else None)),
        Statistic("of the trunk", count(weights.counts.get("trunk_steps")), "steps before this branch began"),
        *epochs(metrics),
        Statistic("training loss", decimal(last_of(metrics, "loss")), "last logged, nats per token"),
        Statistic("speed", count(speeds[len(speeds) // 2] if speeds else None), "tokens per second, median"),
    ]
    validation = series(metrics, "validation_loss")
    return {
        "statistics": known(statistics),
        "origins": origins(weights),
        "loss": drawing.loss(series(metrics, "loss"), validation),
        "benchmarks": benchmark_curves(points(weights.folder)),
        "learning_rate": drawing.curve("learning_rate", series(metrics, "learning_rate"), "learning rate"),
        "gradient_norm": drawing.curve("gradient_norm", series(metrics, "gradient_norm"), "gradient norm"),
    }


def epochs(metrics: Metrics) -> list[Statistic]:
    """Returns the number of epochs: of each source of a mixture, else of the training rows."""
    sources = [name.removeprefix(EPOCH_OF) for row in metrics[-1:] for name in row if name.startswith(EPOCH_OF)]
    if not sources:
        return [Statistic("epochs", decimal(last_of(metrics, "epoch"), 2), "over the training rows")]
    return [
        Statistic(f"epochs of {source}", decimal(last_of(metrics, EPOCH_OF + source), 2), "a source of the mixture")
        for source in sources
    ]


def last_of(metrics: Metrics, name: str) -> float | None:
    """Returns the newest value of ``name`` in the log; None if there is none."""
    return next((row[name] for row in reversed(metrics) if row.get(name) is not None), None)


def series(metrics: Metrics, name: str) -> drawing.Points:
    """Returns (step, value) of every row that has ``name``."""
    return [(row["step"], row[name]) for row in metrics if row.get(name) is not None]


@dataclasses.dataclass(frozen=True)
class HeldOutLoss:
    """The loss of text that was not trained on. Its name says of which: one model has both losses."""

    name: str
    """``held-out loss``: of all held-out documents. ``validation loss``: of the rows that training validates on."""
    loss: float | None
    bits_per_byte: float | None
    text: str


def held_out(metrics: Metrics, table: ScoreTable | None) -> HeldOutLoss:
    """Returns the loss of all held-out documents if these were scored, else of the validation rows of the training."""
    scored = table.held_out if table is not None else {}
    if {"loss", "bits_per_byte"} <= scored.keys():
        return HeldOutLoss("held-out loss", scored["loss"], scored["bits_per_byte"], "all held-out text")
    loss, bits_per_byte = last_of(metrics, "validation_loss"), last_of(metrics, "bits_per_byte")
    return HeldOutLoss("validation loss", loss, bits_per_byte, "held-out rows")


def origins(weights: Artifact) -> PageTable | None:
    """Returns the checkpoints of other trainings that this one goes on from, the first one first; None without any."""
    if ORIGIN not in weights.manifest["files"]:
        return None
    rows = []
    for origin in read_json(weights.path(ORIGIN))["origins"]:
        changed = [
            f"{name}: {'default' if ours is None else shown(ours)}" for name, (_, ours) in origin["changed"].items()
        ]
        rows.append([origin["weights"], count(origin["step"]), ", ".join(changed)])
    return PageTable(["went on from the weights", "at step", "with other settings"], rows, texts=1)


@dataclasses.dataclass(frozen=True)
class FinetunedScores:
    """The scores of a fine-tuning as text."""

    task: str
    table: PageTable
    notes: list[str]
    figure: Figure | None
    model: Path
    """The folder of the model of the best seed."""

    @classmethod
    def of(cls, artifact: Artifact) -> "FinetunedScores":
        scores = read_json(artifact.path("scores.json"))
        seeds = [entry["seed"] for entry in scores["seeds"]]
        has_mean = len(seeds) > 1
        header = ["metric", *(["mean"] if has_mean else []), *(f"seed {seed}" for seed in seeds)]
        rows = [
            [name, *([_mean(row)] if has_mean else []), *(decimal(value, 4) for value in row["values"])]
            for name, row in scores["scores"].items()
        ]
        curves = _validation_curves(artifact, scores["metric"], seeds)
        return cls(scores["task"], PageTable(header, rows), list(_notes(scores)), curves, artifact.folder / "hf")


def _mean(row: Mapping[str, Any]) -> str:
    width = row["half_width"]
    return decimal(row["mean"], 4) + ("" if width is None else f" ± {decimal(width, 4)}")


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
        by_reason = ", ".join(f"{reason} {number:,}" for reason, number in reasons.items())
        yield f"lines of {split} that hold no example: {by_reason}"


def _validation_curves(artifact: Artifact, metric: str, seeds: Sequence[int]) -> Figure | None:
    """Returns loss and ``metric`` of the validation over the steps, one line a seed."""
    names = ("validation_loss", f"validation_{metric}")
    chart = drawing.panel_grid([name.replace("_", " ") for name in names], len(names))
    for seed, colour in zip(seeds, itertools.cycle(SERIES)):
        rows = read_metrics(artifact.path(f"seed_{seed}/metrics.jsonl"))
        for column, name in enumerate(names, 1):
            curve = [(row["step"], row[name]) for row in rows if name in row]
            chart.add_trace(drawing.line(f"seed {seed}", curve, colour, showlegend=column == 1), row=1, col=column)
    chart.update_xaxes(title_text="optimizer step", row=1)
    label = f"Loss and {metric} of validation by optimizer step"
    return drawing.panel_figure("finetuned", chart, PANEL_PIXELS + LEGEND_PIXELS, label, len(names))


def training_sentence(inputs: Mapping[str, Artifact], metrics: Metrics, table: ScoreTable | None) -> Iterator[str]:
    """Yields the sentence on what the training read and how its loss changed; none without a logged loss."""
    losses = [(row["step"], row["loss"]) for row in metrics if row.get("loss") is not None]
    if not losses:
        return
    counts, held_out = inputs["weights"].counts, _held_out_loss(metrics, table)
    (first_step, first), (last_step, last) = losses[0], losses[-1]
    end, where = (last, f"in step {last_step:,}") if held_out is None else (held_out, "on held-out text")
    read = f"A model of {short(counts['parameters'])} parameters read {short(counts['target_tokens'])} tokens"
    if len(losses) == 1 and held_out is None:
        yield f"{read}; its loss was {first:.2f} nats per token in step {first_step:,}."
        return
    begin = f"from {first:.2f} nats per token in step {first_step:,} to"
    yield f"{read}; its loss {'fell' if end < first else 'rose'} {begin} {end:.2f} {where}."


def _held_out_loss(metrics: Metrics, table: ScoreTable | None) -> float | None:
    """Returns the loss of held-out text that compares with those of the steps; None when it is not known.

    The scores have -ln p of text. A training whose loss is another one, of denoising or of labels, logs no bits per
    byte; then it is the loss that the training logged itself.
    """
    own = [row["validation_loss"] for row in metrics if row.get("validation_loss") is not None]
    if own and not any("bits_per_byte" in row for row in metrics):
        return float(own[-1])
    return table.held_out.get("loss") if table else None

"""The sections of the training and of fine-tuning: numbers, curves, the tree of branches, a row, scores by seed.

training.html shows them.

    {"step": 120, "loss": 3.41, "epoch": 1.2, …} ──> steps 120   epochs 1.20   training loss 3.410   loss curve …
    checkpoints/*/manifest.json of all weights ── origins ──> trunk ─────┬────────
                                                                         └── branch
    metric      mean ± interval     seed 1   seed 2   seed 3      one seed alone has no mean
    accuracy    91.3 % ± 0.9 %      91.1     91.7     91.1
"""

import base64
import contextlib
import dataclasses
import itertools
import math
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import plotly.graph_objects as go

from headrace.pipeline.core.artifact import Artifact
from headrace.pipeline.core.errors import ArtifactError
from headrace.pipeline.core.json_files import read_json
from headrace.pipeline.core.metrics_file import metrics_path, read_metrics
from headrace.pipeline.core.setting_classes import shown
from headrace.pipeline.core.statistics import COVERAGE
from headrace.pipeline.report import drawing
from headrace.pipeline.report.drawing import BLUE, INK, LEGEND_PIXELS, MUTED, PANEL_PIXELS, SERIES, Figure, base_layout
from headrace.pipeline.report.formatting import PageTable, Statistic, count, decimal, known
from headrace.pipeline.report.row_picture import svg
from headrace.pipeline.report.score_figures import benchmark_curves
from headrace.pipeline.report.score_history import Point, points
from headrace.pipeline.report.score_table import ScoreTable
from headrace.train.checkpoint.names import CHECKPOINTS, checkpoints
from headrace.train.checkpoint.state import State
from headrace.train.checkpoint.store import read_state
from headrace.train.evaluation.benchmarks.language_modelling import LOSS_BY_INDEX, Octave, octave_of
from headrace.train.finetune.seed_scores import OWN_FORMAT
from headrace.train.row_example import RowExample
from headrace.train.weights import ROW

Metrics = Sequence[Mapping[str, Any]]
"""The rows of metrics.jsonl."""
EPOCH_OF = "epoch:"
"""The prefix of the metrics that count the epochs of each source of a mixture."""
FEW_UPDATES = 100
"""Fewer updates of a seed of fine-tuning are named."""


Curve = Mapping[Octave, float]
"""The loss of each octave of indices, in nats per token, in their order."""
MOST_CURVES = len(SERIES)
"""The curves of losses by index that are drawn, and the number of colours."""


def training_section(weights: Artifact | None, metrics: Metrics) -> dict[str, Any] | None:
    """Returns the numbers and curves of the training, the first row, and the tree of branches; None without one."""
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
    validation, scored = series(metrics, "validation_loss"), points(weights.folder)
    return {
        "statistics": known(statistics),
        "tree": training_tree(weights.folder),
        "row": _row(weights),
        "loss": drawing.loss(series(metrics, "loss"), validation),
        "benchmarks": benchmark_curves(scored),
        "context_loss": context_loss(scored),
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


def _row(weights: Artifact) -> str | None:
    """Returns the picture of the first row as a data URL; None if the training wrote none."""
    if ROW not in weights.manifest["files"]:
        return None
    example = RowExample.of_json(read_json(weights.path(ROW)))
    if not example.tokens():
        return None
    picture = svg("the first row of the training", example).encode()
    return "data:image/svg+xml;base64," + base64.b64encode(picture).decode()


def context_loss(points: Sequence[Point]) -> Figure | None:
    """Returns the loss by the index of a token in its context, of some steps, and its derivatives of all; None without
    two octaves. Of several sources (evaluations with different settings) the one with the most points is shown.

    The derivative is by the logarithm of the index: the difference between the losses of two neighbouring octaves,
    over that of the logarithms of their middles (Olsson et al. 2022, Argument 1).
    """
    measured = [point for point in points if point.metric.name == LOSS_BY_INDEX]
    source = Counter(point.source for point in measured).most_common(1)
    by_step: dict[int, dict[Octave, float]] = defaultdict(dict)
    for point in measured:
        if point.source == source[0][0]:
            by_step[point.step][octave_of(point.metric.group)] = point.metric.value
    curves: dict[int, Curve] = {step: dict(sorted(by_step[step].items())) for step in sorted(by_step)}
    if min(map(len, curves.values()), default=0) < 2:
        return None
    titles = ["loss by the token's index, nats per token", "derivative by the logarithm of the index"]
    chart = drawing.panel_grid(titles, 1)
    steps = list(curves)
    chosen = sorted({steps[round(at * (len(steps) - 1) / (MOST_CURVES - 1))] for at in range(MOST_CURVES)})
    for color, step in zip(SERIES, chosen, strict=False):
        curve = [(middle(octave), loss) for octave, loss in curves[step].items()]
        hover = "%{y:.4~g}, token %{x:.0f}"
        chart.add_trace(drawing.line(f"step {step:,}", curve, color, size=5, hovertemplate=hover), 1, 1)
    derivatives = {step: derivatives_of(curve) for step, curve in curves.items()}
    for color, between in zip(itertools.cycle(SERIES), derivatives[steps[0]]):
        values = [(step, derivatives[step].get(between, math.nan)) for step in steps]
        hover = "%{y:.4~g}, step %{x}"
        chart.add_trace(drawing.line(f"at token {between}", values, color, size=5, hovertemplate=hover), 2, 1)
    chart.update_xaxes(type="log", title_text="index of the token", row=1)
    chart.update_xaxes(title_text="optimizer step", row=2)
    label = "Loss by the token's index in its context, and its derivative"
    return drawing.panel_figure("context_loss", chart, 2 * PANEL_PIXELS + 2 * LEGEND_PIXELS, label, 1)


def middle(octave: Octave) -> float:
    """Returns the geometric mean of the first and the last index."""
    return math.sqrt(octave[0] * octave[1])


def derivatives_of(curve: Curve) -> dict[int, float]:
    """Returns the derivative of the loss by the natural logarithm of the index, in nats per token for each factor e.

    It is given at the first index of each octave but the first one.
    """
    return {
        late[0]: (curve[late] - curve[early]) / math.log(middle(late) / middle(early))
        for early, late in itertools.pairwise(curve)
    }


@dataclasses.dataclass(frozen=True)
class Training:
    """One training of the tree of those that go on from one another's checkpoints."""

    address: str
    parent: str
    """The address of the weights that it went on from; empty for the trunk."""
    from_step: int
    steps: int
    """The last step that is known."""
    changed: str
    """The settings that differ from those of its parent, with their values here."""
    loss: str
    """The last validation loss; empty when there is none, or its file is damaged."""

    @classmethod
    def of(cls, folder: Path, state: State) -> "Training":
        """Returns the training in ``folder``, which is in ``state``."""
        origin: Mapping[str, Any] = state.origins[-1] if state.origins else {"weights": "", "step": 0, "changed": {}}
        losses: drawing.Points = []
        with contextlib.suppress(ArtifactError):  # a report does not fail because another training is damaged
            losses = series(read_metrics(metrics_path(folder)), "validation_loss")
        changed = ", ".join(
            f"{name}: {'default' if ours is None else shown(ours)}" for name, (_, ours) in origin["changed"].items()
        )
        loss = decimal(losses[-1][1]) if losses else ""
        return cls(folder.name, origin["weights"], origin["step"], state.step, changed, loss)


def training_tree(weights: Path) -> dict[str, Any] | None:
    """Returns the figure and the trainings of the tree that the training in the folder ``weights`` belongs to.

    None when it went on from no other, and none from it. Only trainings below the root at this time are on it.
    """
    trainings = {training.address: training for training in tree_of(weights)}
    if len(trainings) < 2:
        return None
    ordered = list(_in_order(trainings, ""))
    return {"figure": _tree(ordered, weights.name), "trainings": ordered, "shown": weights.name}


def tree_of(weights: Path) -> list[Training]:
    """Returns all trainings that have the same trunk as ``weights``, those among them that were removed first."""
    states = {path.parents[1]: state for path, state in _states(weights.parent)}
    if weights not in states:
        return []
    trunk = _trunk(weights, states[weights])
    kin = {folder: state for folder, state in states.items() if _trunk(folder, state) == trunk}
    existing = [Training.of(folder, state) for folder, state in kin.items()]
    known_addresses, lost = {training.address for training in existing}, dict[str, Training]()
    for state in kin.values():
        for before, origin in zip([None, *state.origins], state.origins, strict=False):
            if (address := origin["weights"]) not in known_addresses:  # its folder was removed
                parent, start = (before["weights"], before["step"]) if before else ("", 0)
                steps = max(origin["step"], lost[address].steps if address in lost else 0)
                lost[address] = Training(address, parent, start, steps, "removed", "")
    return [*lost.values(), *existing]


def _states(folder: Path) -> Iterator[tuple[Path, State]]:
    """Yields the newest checkpoint of each training in ``folder``, with its state; without damaged ones."""
    for training in sorted(folder.glob("*")):
        if by_step := checkpoints(training / CHECKPOINTS):
            newest = by_step[max(by_step)]
            with contextlib.suppress(ArtifactError, FileNotFoundError):  # damaged, or pruned in the meantime
                yield newest, read_state(newest)


def _trunk(folder: Path, state: State) -> str:
    return str(state.origins[0]["weights"]) if state.origins else folder.name


def _in_order(trainings: dict[str, Training], parent: str) -> Iterator[Training]:
    """Yields each training before those that went on from it, later ones first: so no line crosses another."""
    children = [training for training in trainings.values() if training.parent == parent]
    for training in sorted(children, key=lambda training: (-training.from_step, training.steps, training.address)):
        yield training
        yield from _in_order(trainings, training.address)


def _tree(trainings: Sequence[Training], shown_address: str) -> Figure:
    """Returns a line for each training, from the line of its parent on; the one that is shown is in colour."""
    lines = {training.address: number for number, training in enumerate(trainings)}
    traces = []
    for training in trainings:
        at, is_shown = lines[training.address], training.address == shown_address
        start = [(training.from_step, lines[training.parent])] if training.parent else []
        ends = [*start, (training.from_step, at), (training.steps, at)]
        colour, hidden = BLUE if is_shown else MUTED, len(ends) - 1
        traces.append(
            go.Scatter(
                x=[x for x, _ in ends],
                y=[y for _, y in ends],
                mode="lines+markers+text",
                line={"color": colour, "width": 3 if is_shown else 2},
                marker={"color": colour, "size": [*([0] * hidden), 7]},
                text=[*([""] * hidden), training.address],
                textposition="top left",
                textfont={"color": INK, "size": 11},
                hovertemplate=f"weights/{training.address}<br>"
                f"steps {training.from_step} to {training.steps}<extra></extra>",
            )
        )
    layout = base_layout(34 * len(trainings) + 60, x="step")
    layout["yaxis"].update(visible=False, range=[len(trainings) - 0.5, -0.9])
    layout["xaxis"].update(rangemode="tozero")
    label = "Trainings by their steps, each beginning at the checkpoint that it went on from"
    return drawing.figure_of("tree", traces, layout, label)


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

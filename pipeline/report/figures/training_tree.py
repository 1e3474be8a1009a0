"""The trainings that go on from one another's checkpoints, as a figure and a table: those below the root at this time.

checkpoints/*/manifest.json of all weights ── origins ──> trunk ─────┬────────
                                                                     └── branch
"""

import contextlib
import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import plotly.graph_objects as go

from headrace.pipeline.core.errors import ArtifactError
from headrace.pipeline.core.metrics_file import metrics_path, read_metrics
from headrace.pipeline.core.setting_classes import shown
from headrace.pipeline.report.figures.drawing import BLUE, INK, MUTED, Figure, base_layout
from headrace.pipeline.report.formatting import decimal
from headrace.train.checkpoint.names import CHECKPOINTS, checkpoints
from headrace.train.checkpoint.state import State
from headrace.train.checkpoint.store import read_state

LINE_PIXELS = 34
AXIS_PIXELS = 60


@dataclasses.dataclass(frozen=True)
class Training:
    """One training of the tree."""

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


def training_tree(weights: Path) -> dict[str, Any] | None:
    """Returns the figure and the trainings of the tree that the training in the folder ``weights`` belongs to.

    None when it went on from no other, and none from it.
    """
    trainings = {training.address: training for training in tree_of(weights)}
    if len(trainings) < 2:
        return None
    ordered = list(_in_order(trainings, ""))
    return {"figure": _figure(ordered, weights.name), "trainings": ordered, "own": weights.name}


def tree_of(weights: Path) -> list[Training]:
    """Returns the other trainings that have the same trunk as ``weights``."""
    states = {path.parents[1]: state for path, state in _states(weights.parent)}
    if weights not in states:
        return []
    trunk = _trunk(weights, states[weights])
    kin = {folder: state for folder, state in states.items() if _trunk(folder, state) == trunk}
    existing = [_training(folder, state) for folder, state in kin.items()]
    known, lost = {training.address for training in existing}, dict[str, Training]()
    for state in kin.values():
        for before, origin in zip([None, *state.origins], state.origins, strict=False):
            if (address := origin["weights"]) not in known:  # its folder was removed
                parent, start = (before["weights"], before["step"]) if before else ("", 0)
                steps = max(origin["step"], lost[address].steps if address in lost else 0)
                lost[address] = Training(address, parent, start, steps, "removed", "")
    return [*lost.values(), *existing]


def _states(folder: Path) -> Iterator[tuple[Path, State]]:
    """Yields the newest checkpoint of each training in ``folder``, with its state; without damaged ones."""
    for training in sorted(folder.glob("*")):
        if by_step := checkpoints(training / CHECKPOINTS):
            newest = by_step[max(by_step)]
            try:
                yield newest, read_state(newest)
            except (ArtifactError, FileNotFoundError):  # damaged, or pruned in the meantime
                continue


def _trunk(folder: Path, state: State) -> str:
    return str(state.origins[0]["weights"]) if state.origins else folder.name


def _training(folder: Path, state: State) -> Training:
    origin: Mapping[str, Any] = state.origins[-1] if state.origins else {"weights": "", "step": 0, "changed": {}}
    rows: list[dict[str, Any]] = []
    with contextlib.suppress(ArtifactError):  # a report does not fail because another training is damaged
        rows = read_metrics(metrics_path(folder))
    losses = [row["validation_loss"] for row in rows if "validation_loss" in row]
    changed = ", ".join(
        f"{name}: {'default' if ours is None else shown(ours)}" for name, (_, ours) in origin["changed"].items()
    )
    return Training(
        folder.name, origin["weights"], origin["step"], state.step, changed, decimal(losses[-1]) if losses else ""
    )


def _in_order(trainings: dict[str, Training], parent: str) -> Iterator[Training]:
    """Yields each training before those that went on from it, later ones first: so no line crosses another."""
    children = [training for training in trainings.values() if training.parent == parent]
    for training in sorted(children, key=lambda training: (-training.from_step, training.steps, training.address)):
        yield training
        yield from _in_order(trainings, training.address)


def _figure(trainings: Sequence[Training], own: str) -> Figure:
    lines = {training.address: number for number, training in enumerate(trainings)}
    traces = []
    for training in trainings:
        line, colour = lines[training.address], BLUE if training.address == own else MUTED
        start = [(training.from_step, lines[training.parent])] if training.parent else []
        points = [*start, (training.from_step, line), (training.steps, line)]
        traces.append(
            go.Scatter(
                x=[x for x, _ in points],
                y=[y for _, y in points],
                mode="lines+markers+text",
                line={"color": colour, "width": 3 if training.address == own else 2},
                marker={"color": colour, "size": [*([0] * (len(points) - 1)), 7]},
                text=[*([""] * (len(points) - 1)), training.address],
                textposition="top left",
                textfont={"color": INK, "size": 11},
                hovertemplate=f"weights/{training.address}<br>"
                f"steps {training.from_step} to {training.steps}<extra></extra>",
            )
        )
    layout = base_layout(LINE_PIXELS * len(trainings) + AXIS_PIXELS, x="step")
    layout["yaxis"].update(visible=False, range=[len(trainings) - 0.5, -0.9])
    layout["xaxis"].update(rangemode="tozero")
    label = "Trainings by their steps, each beginning at the checkpoint that it went on from"
    return Figure("tree", layout["height"], label, go.Figure(traces, layout).to_json())

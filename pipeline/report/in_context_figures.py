"""Draws in-context learning over a training: the loss by the index of a token, and the phase change of Olsson et al.

The derivative of the loss is by the logarithm of the index: the difference between the losses of two neighbouring
octaves, over that of the logarithms of their middles (Olsson et al. 2022, Argument 1). In the phase change induction
heads form within a short stretch of the training; in it the in-context-learning score falls, and the loss has a bump.
"""

import itertools
import math
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence

import plotly.graph_objects as go

from headrace.pipeline.core.statistics import Z95
from headrace.pipeline.report.drawing import (
    BLUE,
    LEGEND_PIXELS,
    MUTED,
    PALE,
    PANEL_PIXELS,
    SERIES,
    Figure,
    Points,
    line,
    panel_figure,
    panel_grid,
    thinned,
)
from headrace.pipeline.report.score_history import Point
from headrace.train.evaluation.benchmarks.in_context import LOSS_BY_INDEX, Octave, octave_of
from headrace.train.evaluation.score_rows import Metric

Curve = Mapping[Octave, float]
"""The loss of each octave of indices, in nats per token, in their order."""
MOST_CURVES = len(SERIES)
SCORE, MATCHING = "in_context_score", "prefix_matching"


def of_one_source(points: Sequence[Point], is_shown: Callable[[Metric], bool]) -> list[Point]:
    """Returns the points of shown metrics by step. Of several sources (evaluations with different settings), those of
    the one with the most points."""
    shown = [point for point in points if is_shown(point.metric)]
    sources = Counter(point.source for point in shown)
    most = max(sources, key=lambda source: sources[source], default="")
    return sorted((point for point in shown if point.source == most), key=lambda point: point.step)


def context_loss(points: Sequence[Point]) -> Figure | None:
    """Returns the curves of some steps and the derivatives of all; None without two octaves."""
    by_step: dict[int, dict[Octave, float]] = defaultdict(dict)
    for point in of_one_source(points, lambda metric: metric.name == LOSS_BY_INDEX):
        by_step[point.step][octave_of(point.metric.group)] = point.metric.value
    curves: dict[int, Curve] = {step: dict(sorted(losses.items())) for step, losses in by_step.items()}
    if min(map(len, curves.values()), default=0) < 2:
        return None
    titles = ["loss by the token's index, nats per token", "derivative by the logarithm of the index"]
    chart = panel_grid(titles, 1)
    steps = list(curves)
    chosen = sorted({steps[round(at * (len(steps) - 1) / (MOST_CURVES - 1))] for at in range(MOST_CURVES)})
    for color, step in zip(SERIES, chosen, strict=False):
        curve = [(middle(octave), loss) for octave, loss in curves[step].items()]
        hover = "%{y:.4~g}, token %{x:.0f}"
        chart.add_trace(line(f"step {step:,}", curve, color, size=5, hovertemplate=hover), 1, 1)
    derivatives = {step: derivatives_of(curve) for step, curve in curves.items()}
    for color, between in zip(itertools.cycle(SERIES), derivatives[steps[0]]):
        values = [(step, derivatives[step].get(between, math.nan)) for step in steps]
        hover = "%{y:.4~g}, step %{x}"
        chart.add_trace(line(f"at token {between}", values, color, size=5, hovertemplate=hover), 2, 1)
    chart.update_xaxes(type="log", title_text="index of the token", row=1)
    chart.update_xaxes(title_text="optimizer step", row=2)
    label = "Loss by the token's index in its context, and its derivative"
    return panel_figure("context_loss", chart, 2 * PANEL_PIXELS + 2 * LEGEND_PIXELS, label, 1)


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


def phase_change(loss: Points, points: Sequence[Point]) -> Figure | None:
    """Returns validation loss, in-context-learning score and heads over optimizer steps; None without score and
    heads."""
    shown = of_one_source(
        points, lambda metric: metric.name == SCORE or (metric.name == MATCHING and metric.group != "")
    )
    if not shown:
        return None
    scores = [point.metric for point in shown if point.metric.name == SCORE]
    heads: dict[str, list[tuple[float, float]]] = defaultdict(list)
    for point in shown:
        if point.metric.name == MATCHING:
            heads[point.metric.group].append((point.step, point.metric.value))
    score = [(point.step, point.metric.value) for point in shown if point.metric.name == SCORE]
    errors = [Z95 * (metric.standard_error or 0) for metric in scores]
    bars = {"type": "data", "array": errors, "color": BLUE, "thickness": 1, "width": 0}
    panels = {
        "validation loss, nats per token": [_quiet("validation loss", thinned(loss), MUTED)] if loss else [],
        "in-context-learning score: loss at a late token minus at an early one": (
            [_quiet("in-context-learning score", score, BLUE).update(error_y=bars)] if score else []
        ),
        "prefix matching of each head": _heads(heads),
    }
    filled = {title: traces for title, traces in panels.items() if traces}
    chart = panel_grid(list(filled), 1, shared_xaxes=True)
    for row, traces in enumerate(filled.values(), start=1):
        for trace in traces:
            chart.add_trace(trace, row, 1)
    if heads:
        chart.update_yaxes(range=[0, 1], row=len(filled))
    chart.update_xaxes(title_text="optimizer step", row=len(filled))
    chart.update_layout(legend_traceorder="reversed")
    label = "In-context learning and induction heads by optimizer step"
    return panel_figure("phase_change", chart, len(filled) * PANEL_PIXELS + LEGEND_PIXELS, label, 1)


def _heads(heads: Mapping[str, Points]) -> "list[go.Scatter]":
    """Returns a line for each head; the best are drawn last, above the others."""
    ranked = sorted(heads, key=lambda head: heads[head][-1][1])
    colors = dict(zip(reversed(ranked), SERIES, strict=False))
    lines = [_quiet(head.replace("_", " "), heads[head], colors.get(head, PALE)) for head in ranked]
    return [
        drawn.update(showlegend=head in colors, line_width=2 if head in colors else 1)
        for head, drawn in zip(ranked, lines, strict=True)
    ]


def _quiet(name: str, values: Points, color: str) -> "go.Scatter":
    """Returns a line that is not in the legend."""
    mode, hover = "lines" if len(values) > 1 else "markers", "%{y:.4~g} at step %{x}"
    return line(name, values, color, mode=mode, showlegend=False, hovertemplate=hover)

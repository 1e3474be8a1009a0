"""Draws the loss by the index of a token in its context, and the derivative of that curve over the steps of a training.

The derivative is by the logarithm of the index: the difference between the losses of two neighbouring octaves,
over that of the logarithms of their middles (Olsson et al. 2022, Argument 1).
"""

import itertools
import math
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence

import plotly.graph_objects as go

from headrace.pipeline.report.figures.drawing import (
    LEGEND_PIXELS,
    PANEL_PIXELS,
    SERIES,
    Figure,
    panel_figure,
    panel_grid,
)
from headrace.pipeline.report.figures.score_history import Point
from headrace.train.evaluation.benchmarks.in_context import LOSS_BY_INDEX, Octave, octave_of

Curve = Mapping[Octave, float]
"""The loss of each octave of indices, in nats per token, in their order."""
MOST_CURVES = len(SERIES)


def context_loss(points: Sequence[Point]) -> Figure | None:
    """Returns the curves of some steps and the derivatives of all; None without two octaves.

    Of several sources (evaluations with different settings) the one with the most points is shown.
    """
    measured = [point for point in points if point.metric.name == LOSS_BY_INDEX]
    if not measured:
        return None
    (source, _), *_ = Counter(point.source for point in measured).most_common(1)
    by_step: dict[int, dict[Octave, float]] = defaultdict(dict)
    for point in measured:
        if point.source == source:
            by_step[point.step][octave_of(point.metric.group)] = point.metric.value
    curves: dict[int, Curve] = {step: dict(sorted(by_step[step].items())) for step in sorted(by_step)}
    if min(map(len, curves.values())) < 2:
        return None
    titles = ["loss by the token's index, nats per token", "derivative by the logarithm of the index"]
    chart = panel_grid(titles, 1)
    steps = list(curves)
    chosen = sorted({steps[round(at * (len(steps) - 1) / (MOST_CURVES - 1))] for at in range(MOST_CURVES)})
    for color, step in zip(SERIES, chosen, strict=False):
        middles = [middle(octave) for octave in curves[step]]
        chart.add_trace(_line(f"step {step:,}", middles, list(curves[step].values()), color, "token %{x:.0f}"), 1, 1)
    derivatives = {step: derivatives_of(curve) for step, curve in curves.items()}
    for number, between in enumerate(derivatives[steps[0]]):
        values = [derivatives[step].get(between, math.nan) for step in steps]
        chart.add_trace(_line(f"at token {between}", steps, values, SERIES[number % len(SERIES)], "step %{x}"), 2, 1)
    chart.update_xaxes(type="log", title_text="index of the token", row=1)
    chart.update_xaxes(title_text="optimizer step", row=2)
    height = 2 * PANEL_PIXELS + 2 * LEGEND_PIXELS
    return panel_figure(
        "context_loss", chart, height, "Loss by the token's index in its context, and its derivative", 1
    )


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


def _line(name: str, x: Sequence[float], y: Sequence[float], color: str, place: str) -> "go.Scatter":
    return go.Scatter(
        x=list(x),
        y=list(y),
        name=name,
        mode="lines+markers",
        line={"color": color, "width": 2},
        marker={"color": color, "size": 5},
        hovertemplate=f"%{{y:.4~g}}, {place}",
    )

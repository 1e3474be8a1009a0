"""Draws in-context learning over a training: the loss by the index of a token.

The derivative of the loss is by the logarithm of the index: the difference between the losses of two neighbouring
octaves, over that of the logarithms of their middles (Olsson et al. 2022, Argument 1).
"""

import itertools
import math
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence

from headrace.pipeline.report.drawing import (
    LEGEND_PIXELS,
    PANEL_PIXELS,
    SERIES,
    Figure,
    line,
    panel_figure,
    panel_grid,
)
from headrace.pipeline.report.score_history import Point
from headrace.train.evaluation.benchmarks.language_modelling import LOSS_BY_INDEX, Octave, octave_of
from headrace.train.evaluation.score_rows import Metric

Curve = Mapping[Octave, float]
"""The loss of each octave of indices, in nats per token, in their order."""
MOST_CURVES = len(SERIES)


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

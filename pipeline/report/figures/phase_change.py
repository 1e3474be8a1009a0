"""Draws the in-context-learning score and each head's prefix matching over the steps of a training.

The "phase change" of Olsson et al. 2022 (Argument 1): induction heads form within a short stretch of the training; in
it the in-context-learning score falls, and the loss has a bump.
"""

from collections import Counter, defaultdict
from collections.abc import Sequence

import plotly.graph_objects as go

from headrace.pipeline.core.statistics import Z95
from headrace.pipeline.report.figures.drawing import (
    BLUE,
    LEGEND_PIXELS,
    MUTED,
    PALE,
    PANEL_PIXELS,
    SERIES,
    Figure,
    Points,
    panel_figure,
    panel_grid,
    thinned,
)
from headrace.pipeline.report.figures.score_history import Point
from headrace.train.evaluation.score_rows import Metric

SCORE, MATCHING = "in_context_score", "prefix_matching"


def phase_change(loss: Points, points: Sequence[Point]) -> Figure | None:
    """Returns validation loss, in-context-learning score and heads over optimizer steps.

    None if there are neither scores nor heads. If there are several sources (evaluations with different settings), the
    source with the most points is shown.
    """
    scored = [point for point in points if _is_shown(point.metric)]
    if not scored:
        return None
    (source, _), *_ = Counter(point.source for point in scored).most_common(1)
    shown = sorted((point for point in scored if point.source == source), key=lambda point: point.step)
    scores = [point for point in shown if point.metric.name == SCORE]
    heads: dict[str, list[Point]] = defaultdict(list)
    for point in shown:
        if point.metric.name == MATCHING:
            heads[point.metric.group].append(point)
    panels = {
        "validation loss, nats per token": [_line("validation loss", thinned(loss), MUTED)] if loss else [],
        "in-context-learning score: loss at a late token minus at an early one": [_score(scores)] if scores else [],
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
    height = len(filled) * PANEL_PIXELS + LEGEND_PIXELS
    label = "In-context learning and induction heads by optimizer step"
    return panel_figure("phase_change", chart, height, label, 1)


def _is_shown(metric: Metric) -> bool:
    """Whether ``metric`` is the in-context-learning score, or prefix matching of one head."""
    return metric.name == SCORE or (metric.name == MATCHING and bool(metric.group))


def _score(points: Sequence[Point]) -> "go.Scatter":
    line = _line("in-context-learning score", [(point.step, point.metric.value) for point in points], BLUE)
    errors = [Z95 * (point.metric.standard_error or 0) for point in points]
    return line.update(error_y={"type": "data", "array": errors, "color": BLUE, "thickness": 1, "width": 0})


def _heads(heads: dict[str, list[Point]]) -> "list[go.Scatter]":
    """Returns a line for each head; the best are drawn last, above the others."""
    ranked = sorted(heads, key=lambda head: heads[head][-1].metric.value)
    colors = dict(zip(reversed(ranked), SERIES, strict=False))
    lines = []
    for head in ranked:
        name, values = head.replace("_", " "), [(point.step, point.metric.value) for point in heads[head]]
        line = _line(name, values, colors.get(head, PALE))
        lines.append(line.update(showlegend=head in colors, line_width=2 if head in colors else 1))
    return lines


def _line(name: str, values: Points, color: str) -> "go.Scatter":
    return go.Scatter(
        x=[step for step, _ in values],
        y=[value for _, value in values],
        name=name,
        mode="lines" if len(values) > 1 else "markers",
        line={"color": color, "width": 2},
        marker={"color": color, "size": 6},
        showlegend=False,
        hovertemplate="%{y:.4~g} at step %{x}",
    )

"""Draws a panel for each benchmark: its main metric over the steps of the training, with intervals.

Scores by the training itself and by ``headrace watch --score`` are separate lines. Random guessing is a dotted line for
shares; for other metrics it would be far outside the range of the scores.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

import plotly.graph_objects as go

from headrace.pipeline.report.figures.drawing import (
    COLUMNS,
    LEGEND_PIXELS,
    MUTED,
    PANEL_PIXELS,
    SERIES,
    Figure,
    panel_figure,
    panel_grid,
)
from headrace.pipeline.report.figures.score_history import Point

Curves = Mapping[str, Mapping[str, list[Point]]]
"""Benchmark → source → its points, by step."""


def main_metrics(points: Sequence[Point]) -> Curves:
    """Returns the first metric of each benchmark on all items, by source and step."""
    firsts: dict[str, str] = {}
    curves: dict[str, dict[str, list[Point]]] = defaultdict(lambda: defaultdict(list))
    for point in sorted(points, key=lambda point: point.step):
        if not point.metric.group and firsts.setdefault(point.benchmark, point.metric.name) == point.metric.name:
            curves[point.benchmark][point.source].append(point)
    return curves


def benchmark_curves(points: Sequence[Point]) -> Figure | None:
    """Returns a panel for each benchmark in the order of their names; None when nothing was scored."""
    curves = main_metrics(points)
    if not curves:
        return None
    sources = sorted({point.source for point in points})
    columns, names = min(COLUMNS, len(curves)), sorted(curves)
    firsts = {name: next(iter(curves[name].values()))[0].metric for name in names}
    chart = panel_grid([f"{name} {firsts[name].name}".replace("_", " ") for name in names], columns)
    for number, name in enumerate(names):
        cell = {"row": number // columns + 1, "col": number % columns + 1}
        if firsts[name].kind.is_share:
            chart.add_trace(_guess(curves[name]), **cell)
            chart.update_yaxes(tickformat=".0%", **cell)
        for source, line in curves[name].items():
            chart.add_trace(_line(source, line, sources), **cell)
    for source in sources:
        chart.add_trace(_line(source, [], sources).update(showlegend=True), row=1, col=1)
    rows = -(-len(names) // columns)
    chart.update_xaxes(title_text="optimizer step", row=rows)
    return panel_figure(
        "benchmarks", chart, rows * PANEL_PIXELS + LEGEND_PIXELS, "Benchmarks by optimizer step", columns
    )


def _line(source: str, line: Sequence[Point], sources: Sequence[str]) -> "go.Scatter":
    """Returns a curve with its intervals; without points it is for the legend."""
    nothing: list[Any] = [None]
    color = SERIES[sources.index(source) % len(SERIES)]
    values = [point.metric.value for point in line]
    ends = [point.metric.interval or (point.metric.value, point.metric.value) for point in line]
    return go.Scatter(
        x=[point.step for point in line] or nothing,
        y=values or nothing,
        name=source,
        mode="lines+markers",
        showlegend=False,
        line={"color": color, "width": 2},
        marker={"color": color, "size": 5},
        error_y={
            "type": "data",
            "array": [high - value for value, (_, high) in zip(values, ends, strict=True)],
            "arrayminus": [value - low for value, (low, _) in zip(values, ends, strict=True)],
            "color": color,
            "thickness": 1,
            "width": 0,
        },
        hovertemplate="%{y:.4~g} at step %{x}",
    )


def _guess(curves: Mapping[str, Sequence[Point]]) -> "go.Scatter":
    points = sorted((point for line in curves.values() for point in line), key=lambda point: point.step)
    return go.Scatter(
        x=[point.step for point in points],
        y=[point.metric.random for point in points],
        mode="lines",
        showlegend=False,
        line={"color": MUTED, "width": 1.5, "dash": "dot"},
        hoverinfo="skip",
    )

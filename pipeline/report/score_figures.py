"""Draws scores: accuracies with their intervals, by training steps, and differences between runs.

    accuracies        a row for each benchmark, a mark for each number of worked examples, random guessing
    benchmark_curves  a panel for each benchmark, a line for each source of scores over the steps of a training
    forest            a row for each score, a mark for the difference of each run from the first one

Intervals have 95 % confidence.
"""

import dataclasses
import itertools
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

import plotly.graph_objects as go

from headrace.pipeline.report.drawing import (
    BLUE,
    COLUMNS,
    LEGEND_PIXELS,
    LINE,
    MUTED,
    PANEL_PIXELS,
    SERIES,
    Figure,
    base_layout,
    error_bars,
    figure_of,
    guessing,
    line,
    panel_figure,
    panel_grid,
)
from headrace.pipeline.report.score_history import Point

ROW_PIXELS, MARK_PIXELS = 26, 8
"""The height of a row of accuracies, and what each mark in it adds."""
TITLED_PIXELS = 90
"""The height of a legend and of the title of an axis."""
PALEST = 0.35
"""The opacity of the marks with the fewest worked examples."""
NOTHING: tuple[tuple[Any, Any], ...] = ((None, None),)
"""The points of a line that is only in the legend."""


@dataclasses.dataclass(frozen=True)
class AccuracyMark:
    """One mark of the figure; ``interval`` is the 95 % confidence interval, ``random`` the accuracy of guessing."""

    name: str
    shots: int
    value: float
    interval: tuple[float, float] | None
    random: float | None


def accuracies(scores: Sequence[AccuracyMark]) -> Figure | None:
    """Returns a row for each name with a mark for each number of shots; None without scores."""
    if not scores:
        return None
    shots = sorted({score.shots for score in scores})
    rows = {name: number for number, name in enumerate(dict.fromkeys(score.name for score in scores))}
    row_pixels = ROW_PIXELS + MARK_PIXELS * len(shots)
    layout = _rows_layout(row_pixels * len(rows) + TITLED_PIXELS, list(rows), "score")
    layout.update(legend={"orientation": "h", "y": 1.0, "yanchor": "bottom", "x": 0})
    layout["yaxis"].update(showgrid=True)
    layout["xaxis"].update(range=[0, 1], tickformat=".0%", dtick=0.2)
    random = {score.name: score.random for score in scores if score.random is not None}
    guess = go.Scatter(
        x=list(random.values()),
        y=[rows[name] for name in random],
        name="random guessing",
        mode="markers",
        cliponaxis=False,
        marker={"symbol": "line-ns", "size": row_pixels / 2, "color": MUTED, "line": {"width": 2, "color": MUTED}},
        hovertemplate="%{x:.1%}",
    )
    marks = [
        _accuracies([score for score in scores if score.shots == number], rows, index, len(shots))
        for index, number in enumerate(shots)
    ]
    return figure_of("scores", [guess, *marks], layout, "Accuracies with 95 % intervals and random guessing")


def _rows_layout(height: int, rows: Sequence[str], x: str) -> dict[str, Any]:
    """Returns the layout of a figure with a line for each of ``rows``, the first one on top."""
    layout = base_layout(height, x=x)
    ticks = {"tickmode": "array", "tickvals": list(range(len(rows))), "ticktext": rows}
    layout["yaxis"].update(range=[len(rows) - 0.5, -0.5], **ticks)
    layout["xaxis"].update(showgrid=True, ticklabeloverflow="allow")
    layout["margin"].update(r=24)
    layout["showlegend"] = True
    return layout


def _accuracies(shown: Sequence[AccuracyMark], rows: Mapping[str, int], index: int, total: int) -> "go.Scatter":
    """Returns the marks of the number of shots with this ``index`` of the ``total`` numbers of shots."""
    share = index / (total - 1) if total > 1 else 1.0
    down = 0.7 * ((index + 0.5) / total - 0.5)
    number, values = shown[0].shots, [score.value for score in shown]
    examples = "1 shot" if number == 1 else f"{number} shots"
    return go.Scatter(
        x=values,
        y=[rows[score.name] + down for score in shown],
        name="this model" if total == 1 else examples,
        mode="markers",
        cliponaxis=False,
        opacity=PALEST + (1 - PALEST) * share,
        marker={"size": 9 if total == 1 else 7, "color": BLUE},
        error_x=error_bars(values, [score.interval for score in shown], BLUE, 1.5),
        hovertext=[score.name for score in shown],
        hovertemplate="%{hovertext}: %{x:.1%}",
    )


@dataclasses.dataclass(frozen=True)
class Interval:
    """The difference of a run from the first run in one row, with its confidence interval."""

    row: str
    run: str
    value: float
    low: float
    high: float
    stars: str
    """The stars of its significance; empty when it is not significant."""


def forest(id: str, intervals: Sequence[Interval], x: str) -> Figure | None:
    """Returns a line for each row with a mark for each run (Lewis and Clarke 2001); None without differences.

    Marks of differences that are not significant are hollow. ``x`` is the label of the axis.
    """
    if not intervals:
        return None
    rows, runs = (list(dict.fromkeys(getattr(interval, name) for interval in intervals)) for name in ("row", "run"))
    height = round(30 * max(2, len(rows)) * max(1.0, len(runs) / 2))
    layout = _rows_layout(height + TITLED_PIXELS, rows, x)
    layout["xaxis"].update(zeroline=True, zerolinecolor=LINE, zerolinewidth=2)
    layout["yaxis"].update(showgrid=False)
    layout["margin"].update(t=36)
    layout.update(legend={"orientation": "h", "yref": "container", "y": 1, "yanchor": "top", "x": 0})
    by_run = [[interval for interval in intervals if interval.run == run] for run in runs]
    traces = [_differences(number, shown, rows, len(runs)) for number, shown in enumerate(by_run)]
    return figure_of(id, traces, layout, f"Differences: {x}")


def _differences(number: int, shown: Sequence[Interval], rows: Sequence[str], runs: int) -> "go.Scatter":
    """Returns the marks of the run with index ``number`` of all ``runs``, a little above or below their rows."""
    color = SERIES[(number + 1) % len(SERIES)]
    above = 0.6 * ((number + 0.5) / runs - 0.5)
    values = [interval.value for interval in shown]
    symbols = ["circle" if interval.stars else "circle-open" for interval in shown]
    return go.Scatter(
        x=values,
        y=[rows.index(interval.row) + above for interval in shown],
        name=shown[0].run,
        mode="markers+text",
        text=[interval.stars for interval in shown],
        textposition="top center",
        textfont={"color": color},
        marker={"size": 9, "color": color, "symbol": symbols},
        error_x=error_bars(values, [(interval.low, interval.high) for interval in shown], color, 1.5),
        hovertemplate="%{x:+.4~g}",
    )


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
    """Returns a panel for each benchmark in the order of their names; None when nothing was scored.

    Random guessing is drawn for shares; for other metrics it would be far outside the range of the scores.
    """
    curves = main_metrics(points)
    if not curves:
        return None
    colours = dict(zip(sorted({point.source for point in points}), itertools.cycle(SERIES)))
    columns, names = min(COLUMNS, len(curves)), sorted(curves)
    firsts = {name: next(iter(curves[name].values()))[0].metric for name in names}
    chart = panel_grid([f"{name} {firsts[name].name}".replace("_", " ") for name in names], columns)
    for number, name in enumerate(names):
        cell = {"row": number // columns + 1, "col": number % columns + 1}
        if firsts[name].kind.is_share:
            of_all = sorted(itertools.chain(*curves[name].values()), key=lambda point: point.step)
            chart.add_trace(guessing([(point.step, point.metric.random) for point in of_all]), **cell)
            chart.update_yaxes(tickformat=".0%", **cell)
        for source, scored in curves[name].items():
            chart.add_trace(_by_steps(source, scored, colours[source]), **cell)
    for source, colour in colours.items():
        chart.add_trace(_by_steps(source, [], colour).update(showlegend=True), row=1, col=1)
    rows = -(-len(names) // columns)
    chart.update_xaxes(title_text="optimizer step", row=rows)
    height = rows * PANEL_PIXELS + LEGEND_PIXELS
    return panel_figure("benchmarks", chart, height, "Benchmarks by optimizer step", columns)


def _by_steps(source: str, scored: Sequence[Point], color: str) -> "go.Scatter":
    """Returns a curve with its intervals; without points it is for the legend."""
    metrics = [point.metric for point in scored]
    bars = error_bars([metric.value for metric in metrics], [metric.interval for metric in metrics], color)
    points = [(point.step, point.metric.value) for point in scored] or NOTHING
    hover = "%{y:.4~g} at step %{x}"
    return line(source, points, color, size=5, showlegend=False, error_y=bars, hovertemplate=hover)

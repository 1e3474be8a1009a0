"""Draws accuracy by the number of worked examples: groups the scores of a table into curves and panels.

    piqa_0shot  0  acc 0.55 ┐                      arithmetic_8shot / two_digit_addition  8  acc 0.31
    piqa_1shot  1  acc 0.57 ├─> a panel, a line             └─> a panel of its own, a line for each group
    piqa_8shot  8  acc 0.58 ┘

The curves are those of Brown et al. 2020 (GPT-3), figures 1.2 and 3.10. Some prompts may have lost examples because
they did not fit the window; the point of such a score is hollow.
"""

import dataclasses
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
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
from headrace.train.evaluation.score_rows import BenchmarkScores, Metric

DASHES = ("solid", "dash", "dot")
"""Line styles; the second and third are used when there are more lines than colours."""


@dataclasses.dataclass(frozen=True)
class Shot:
    """One score of a curve."""

    shots: int
    value: float
    interval: tuple[float, float] | None
    is_truncated: bool
    """Whether some prompts did not fit the window and lost examples."""


@dataclasses.dataclass(frozen=True)
class Panel:
    """The curves of one benchmark, by the names of models or of groups."""

    title: str
    random: float | None
    is_by_group: bool
    curves: dict[str, list[Shot]] = dataclasses.field(default_factory=dict)


def panels_of(models: Mapping[str, Sequence[BenchmarkScores]]) -> list[Panel]:
    """Returns a panel for each benchmark that was scored with two or more numbers of shots.

    It has a line for each of ``models`` (name → scores). After these, each benchmark with groups has for each model a
    panel with a line for each group.
    """
    panels: dict[tuple[bool, str], Panel] = {}
    for model, scores in models.items():
        for benchmark, metric, line in _lines(scores):
            title = f"{benchmark}, {model}" if metric.group and len(models) > 1 else benchmark
            is_by_group = bool(metric.group)
            panel = panels.setdefault((is_by_group, title), Panel(title, metric.random, is_by_group))
            panel.curves[metric.group or model] = line
    return [panels[key] for key in sorted(panels)]


def _lines(scores: Sequence[BenchmarkScores]) -> Iterator[tuple[str, Metric, list[Shot]]]:
    """Yields (benchmark, metric, curve) of the first share of right answers of each benchmark and group."""
    by_name: dict[str, dict[int, BenchmarkScores]] = defaultdict(dict)
    for benchmark_scores in scores:
        if benchmark_scores.metrics:
            by_name[benchmark_scores.base_name][benchmark_scores.shots] = benchmark_scores
    for benchmark, by_shots in by_name.items():
        scored = [by_shots[shots] for shots in sorted(by_shots)]
        shares = [metric for metric in scored[0].metrics if metric.kind.is_share]
        for metric in shares:
            if len(scored) > 1 and metric.name == shares[0].name:
                curve = [shot for benchmark_scores in scored for shot in _shots(benchmark_scores, metric)]
                yield benchmark, metric, curve


def _shots(scores: BenchmarkScores, like: Metric) -> Iterator[Shot]:
    """Yields the score of the metric with the name and group of ``like``."""
    for metric in scores.metrics:
        if (metric.name, metric.group) == (like.name, like.group):
            yield Shot(scores.shots, metric.value, metric.interval, bool(scores.tally.truncated_contexts))


def few_shot_figure(panels: Sequence[Panel]) -> Figure | None:
    """Returns a panel for each benchmark with a line for each model; None without panels."""
    if not panels:
        return None
    names = list(dict.fromkeys(name for panel in panels for name in panel.curves))
    columns = min(COLUMNS, len(panels))
    rows = -(-len(panels) // columns)
    chart = _of_shots(panels, names, panel_grid([panel.title.replace("_", " ") for panel in panels], columns), columns)
    chart.update_xaxes(title_text="worked examples", row=rows)
    height = rows * PANEL_PIXELS + LEGEND_PIXELS
    return panel_figure("few_shot", chart, height, "Accuracy by the number of worked examples", columns)


def group_figures(panels: Sequence[Panel]) -> list[Figure]:
    """Returns a figure for each of ``panels``, with a line for each group of its benchmark.

    There are too many lines to draw intervals.
    """
    return [_of_groups(f"few_shot_groups_{number}", panel) for number, panel in enumerate(panels)]


def _of_groups(id: str, panel: Panel) -> Figure:
    names = list(panel.curves)
    chart = _of_shots([panel], names, panel_grid([""], 1), 1)
    chart.update_traces(error_y={"visible": False})
    chart.update_xaxes(title_text="worked examples")
    height = 2 * PANEL_PIXELS + LEGEND_PIXELS * (1 + len(names) // 6)
    above = {"yref": "paper", "y": 1.0, "yanchor": "bottom"}
    label = f"{panel.title}: each group by the number of worked examples"
    return panel_figure(id, chart, height, label, 1, legend=above, margin={"t": 8})


def _of_shots(panels: Sequence[Panel], names: Sequence[str], chart: "go.Figure", columns: int) -> "go.Figure":
    """Returns ``chart`` with the curves of ``panels`` and a legend of their ``names``."""
    shots = [shot for panel in panels for curve in panel.curves.values() for shot in curve]
    order = [str(number) for number in sorted({shot.shots for shot in shots})]
    for number, panel in enumerate(panels):
        cell = {"row": number // columns + 1, "col": number % columns + 1}
        if panel.random is not None:
            chart.add_trace(_guess(order, [panel.random] * len(order)), **cell)
        for name, curve in panel.curves.items():
            chart.add_trace(_curve(name, curve, names.index(name)), **cell)
    for number, name in enumerate(names):
        chart.add_trace(_curve(name, [], number).update(showlegend=True), row=1, col=1)
    if any(shot.is_truncated for shot in shots):
        hollow = go.Scatter(x=[None], y=[None], mode="markers", name="some prompts did not fit the window")
        chart.add_trace(hollow.update(marker={"symbol": "circle-open", "size": 7, "color": MUTED}), row=1, col=1)
    if any(panel.random is not None for panel in panels):
        chart.add_trace(_guess([None], [None]).update(showlegend=True), row=1, col=1)
    chart.update_xaxes(type="category", categoryorder="array", categoryarray=order)
    chart.update_yaxes(tickformat=".0%", rangemode="tozero")
    return chart


def _curve(name: str, curve: Sequence[Shot], number: int) -> "go.Scatter":
    """Returns a curve with its intervals, or its legend without points. Scores with truncated prompts are hollow."""
    nothing: list[Any] = [None]
    color = SERIES[number % len(SERIES)]
    ends = [shot.interval or (shot.value, shot.value) for shot in curve]
    return go.Scatter(
        x=[str(shot.shots) for shot in curve] or nothing,
        y=[shot.value for shot in curve] or nothing,
        name=name.replace("_", " "),
        mode="lines+markers",
        showlegend=False,
        line={"color": color, "width": 2, "dash": DASHES[number // len(SERIES) % len(DASHES)]},
        marker={"color": color, "size": 7, "symbol": ["circle-open" if s.is_truncated else "circle" for s in curve]},
        error_y={
            "type": "data",
            "array": [high - shot.value for shot, (_, high) in zip(curve, ends, strict=True)],
            "arrayminus": [shot.value - low for shot, (low, _) in zip(curve, ends, strict=True)],
            "color": color,
            "thickness": 1,
            "width": 0,
        },
        hovertemplate="%{y:.1%} with %{x}",
    )


def _guess(x: Sequence[Any], y: Sequence[Any]) -> "go.Scatter":
    line = {"color": MUTED, "width": 1.5, "dash": "dot"}
    return go.Scatter(x=x, y=y, name="random guessing", mode="lines", showlegend=False, line=line, hoverinfo="skip")

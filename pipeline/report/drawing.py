"""Draws the figures as plotly's JSON. Colours and fonts are names of CSS variables, which page.js looks up.

So the same figure works on a light screen, on a dark screen and on paper. A figure without data is None.
"""

import dataclasses
import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import plotly.graph_objects as go

Points = Sequence[tuple[float, float]]
"""(step, value) of a curve."""

FONT = "var(--font)"
INK, MUTED, LINE, GRID = "var(--ink)", "var(--muted)", "var(--line)", "var(--grid)"
BLUE, RED, PALE = "var(--accent)", "var(--second)", "var(--bar)"
SERIES = tuple(f"var(--series-{letter})" for letter in "abcdefgh")
"""Colours of the lines of one figure; the first two are BLUE and RED."""

MAX_POINTS = 1_000
"""The number of points of a curve: about the width of a chart in pixels."""
MIN_BARS = 8
"""A bar chart has space for at least this number of bars, so that two bars are not too wide."""

COLUMNS = 3
"""The number of panels in a row."""
PANEL_PIXELS = 230
PANEL_MIN_WIDTH = 200
TITLE_PIXELS = 36
LEGEND_PIXELS = 40


@dataclasses.dataclass(frozen=True)
class Figure:
    """A figure ready for the page."""

    id: str
    height: int
    """In pixels."""
    label: str
    """A description for screen readers."""
    json: str
    """plotly's JSON."""
    min_width: int = 0
    """In pixels; a narrower page scrolls the figure."""


def funnel(steps: Sequence[tuple[str, int]]) -> Figure | None:
    """Returns the number of documents after each step; None without documents."""
    if not steps or not steps[0][1]:
        return None
    names, values = [name for name, _ in steps], [value for _, value in steps]
    bars = go.Funnel(
        y=names,
        x=values,
        texttemplate="%{value:,} · %{percentInitial:.1%}",
        textposition="auto",
        insidetextfont={"color": "var(--on-accent)"},
        marker={"color": BLUE, "line": {"width": 0}},
        connector={"fillcolor": "var(--surface)", "line": {"width": 0}},
        hovertemplate="%{y}: %{value:,}<br>%{percentPrevious:.1%} of the step before<extra></extra>",
    )
    layout = base_layout(60 * len(steps) + 20)
    layout["yaxis"].update(showgrid=False, ticklen=0)
    layout["xaxis"].update(visible=False)
    return figure_of("funnel", [bars], layout, "Documents left after each step")


def bar_chart(id: str, bars: Sequence[tuple[str, int]], x: str, y: str) -> Figure | None:
    """Returns a bar for each (name, count); None if all are 0. ``x`` and ``y`` are the labels of the axes."""
    if not any(n for _, n in bars):
        return None
    trace = go.Bar(
        x=[name for name, _ in bars],
        y=[n for _, n in bars],
        marker={"color": PALE, "line": {"width": 0}},
        hovertemplate="%{x}: %{y:,}<extra></extra>",
    )
    layout = base_layout(260, x=x, y=y)
    layout.update(bargap=0.08)
    layout["xaxis"].update(type="category", tickangle=0, range=[-0.5, max(len(bars), MIN_BARS) - 0.5])
    most = max(n for _, n in bars)
    layout["yaxis"].update(
        rangemode="tozero", tickformat=",~s" if most >= 1000 else ",d", dtick=1 if most < 5 else None
    )
    return figure_of(id, [trace], layout, f"{y} by {x}")


def loss(training: Points, validation: Points) -> Figure | None:
    """Returns training and validation loss over optimizer steps; None without points."""
    traces = [_curve("training", training, PALE, 1.5), _curve("validation", validation, RED, 2.5, markers=True)]
    return _losses(
        "loss", [trace for trace in traces if len(trace.x)], "Training and validation loss by optimizer step"
    )


def losses(runs: Mapping[str, Points], level: tuple[str, float] | None = None) -> Figure | None:
    """Returns the loss of each run (name → points) over optimizer steps in one figure; None without points.

    ``level`` is the name and the height of a dashed line to compare with.
    """
    curves = {name: points for name, points in runs.items() if points}
    traces = [
        _curve(name, curves[name], colour, 2, markers=True) for name, colour in zip(curves, itertools.cycle(SERIES))
    ]
    if level is not None and curves:
        steps = [step for points in curves.values() for step, _ in points]
        dashed = {"color": MUTED, "width": 1.5, "dash": "dash"}
        ends = {"x": [min(steps), max(steps)], "y": [level[1]] * 2}
        traces.append(go.Scatter(**ends, name=level[0], mode="lines", line=dashed, hovertemplate="%{y:.4~g}"))
    return _losses("losses", traces, "Loss of each run by optimizer step")


def _losses(id: str, traces: Sequence[Any], label: str) -> Figure | None:
    if not traces:
        return None
    layout = base_layout(340, x="optimizer step", y="nats per token")
    layout.update(showlegend=True, legend={"orientation": "h", "y": 1.02, "yanchor": "bottom", "x": 0, "title": None})
    return figure_of(id, traces, layout, label)


def curve(id: str, points: Points, label: str, x: str = "optimizer step") -> Figure | None:
    """Returns one quantity over ``x``; None without points."""
    if not points:
        return None
    return figure_of(id, [_curve(label, points, BLUE, 1.5)], base_layout(200, x=x), f"{label} by {x}")


def thinned(points: Points, limit: int = MAX_POINTS) -> Points:
    """Returns at most ``limit`` of the ``points``: the minimum and maximum of each block, so that no spike is lost."""
    if len(points) <= limit:
        return points
    block_size = -(-len(points) * 2 // (limit - 2))
    kept = {0, len(points) - 1}
    for start in range(0, len(points), block_size):
        block = range(start, min(start + block_size, len(points)))
        kept |= {min(block, key=lambda i: points[i][1]), max(block, key=lambda i: points[i][1])}
    return [points[i] for i in sorted(kept)]


def _curve(name: str, points: Points, color: str, width: float, markers: bool = False) -> "go.Scatter":
    shown = thinned(points)
    mode = "lines+markers" if markers and len(shown) <= 60 else "lines" if len(shown) > 1 else "markers"
    return line(name, shown, color, width, mode=mode)


def line(
    name: str, points: Sequence[tuple[Any, Any]], color: str, width: float = 2, size: float = 6, **options: Any
) -> "go.Scatter":
    """Returns a line through ``points`` with marks of ``size`` pixels; without points, its entry in the legend."""
    options = {"mode": "lines+markers", "hovertemplate": "%{y:.4~g}"} | options
    return go.Scatter(
        x=[x for x, _ in points],
        y=[y for _, y in points],
        name=name,
        line={"color": color, "width": width},
        marker={"color": color, "size": size},
        **options,
    )


def guessing(points: Sequence[tuple[Any, Any]]) -> "go.Scatter":
    """Returns the dotted line of random guessing."""
    dotted = {"color": MUTED, "width": 1.5, "dash": "dot"}
    x, y = [x for x, _ in points], [y for _, y in points]
    return go.Scatter(x=x, y=y, name="random guessing", mode="lines", showlegend=False, line=dotted, hoverinfo="skip")


def error_bars(
    values: Sequence[float], intervals: Sequence[tuple[float, float] | None], color: str, thickness: float = 1
) -> dict[str, Any]:
    """Returns the bars from ``values`` to the ends of their ``intervals``; none around a value without one."""
    ends = [interval or (value, value) for value, interval in zip(values, intervals, strict=True)]
    return {
        "type": "data",
        "array": [high - value for value, (_, high) in zip(values, ends, strict=True)],
        "arrayminus": [value - low for value, (low, _) in zip(values, ends, strict=True)],
        "color": color,
        "thickness": thickness,
        "width": 0,
    }


def base_layout(height: int, x: str = "", y: str = "") -> dict[str, Any]:
    """Returns the layout that all figures share; ``x`` and ``y`` are the labels of the axes."""
    axis = {
        "automargin": True,
        "zeroline": False,
        "exponentformat": "none",
        "fixedrange": True,
        "gridcolor": GRID,
        "linecolor": LINE,
        "tickcolor": LINE,
    }
    small = {"size": 12, "color": MUTED}
    return {
        "height": height,
        "template": "none",
        "margin": {"l": 4, "r": 12, "t": 8, "b": 4},
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
        "font": {"family": FONT, "size": 13, "color": INK},
        "hoverlabel": {"bgcolor": "var(--paper)", "bordercolor": LINE, "font": {"family": FONT, "color": INK}},
        "hovermode": "x unified" if x == "optimizer step" else "closest",
        "showlegend": False,
        "separators": ".,",
        "xaxis": {
            **axis,
            "title": {"text": x, "font": small},
            "tickfont": small,
            "showline": bool(x),
            "showgrid": False,
        },
        "yaxis": {**axis, "title": {"text": y, "font": small}, "tickfont": small, "showgrid": True},
    }


def panel_grid(titles: Sequence[str], columns: int, **options: Any) -> "go.Figure":
    """Returns empty panels with these ``titles``, ``columns`` in a row."""
    from plotly.subplots import make_subplots  # 0.2 s, which the summary of a run does not need

    rows = -(-len(titles) // columns)
    gap = 2 * TITLE_PIXELS / (rows * PANEL_PIXELS)
    return make_subplots(rows, columns, subplot_titles=titles, vertical_spacing=gap if rows > 1 else 0, **options)


def panel_figure(
    id: str, chart: "go.Figure", height: int, label: str, columns: int = COLUMNS, **layout_options: Any
) -> Figure:
    """Returns ``chart``, with this number of ``columns``, in the style of the page, with the legend on top.

    ``layout_options`` override parts of the layout.
    """
    layout = base_layout(height)
    axis_x, axis_y = layout.pop("xaxis"), layout.pop("yaxis")
    axis_x["title"].pop("text"), axis_y["title"].pop("text")
    layout["margin"].update(t=TITLE_PIXELS + LEGEND_PIXELS)
    legend = {"orientation": "h", "yref": "container", "y": 1, "yanchor": "top", "x": 0}
    chart.update_layout(layout, showlegend=True, legend=legend).update_layout(layout_options)
    chart.update_xaxes(axis_x)
    chart.update_yaxes(axis_y)
    chart.update_annotations(font={"size": 13, "color": INK})
    return Figure(id, height, label, chart.to_json(), PANEL_MIN_WIDTH * columns if columns > 1 else 0)


def figure_of(id: str, traces: Sequence[Any], layout: dict[str, Any], label: str) -> Figure:
    """Returns the figure of ``traces``, as high as its ``layout`` says."""
    return Figure(id, layout["height"], label, go.Figure(list(traces), layout).to_json())

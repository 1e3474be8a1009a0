"""The figures as plotly's JSON. Colours and fonts are names of CSS variables, which page.js looks up when it draws.

So one figure works on a light screen, a dark screen and paper. A figure without data is None; the page reports that.
"""

import dataclasses
from collections.abc import Sequence
from typing import Any

import plotly.graph_objects as go

Points = Sequence[tuple[float, float]]

FONT = "var(--font)"
INK, MUTED, LINE, GRID = "var(--ink)", "var(--muted)", "var(--line)", "var(--grid)"
BLUE, RED, PALE = "var(--accent)", "var(--second)", "var(--bar)"
SERIES = tuple(f"var(--series-{letter})" for letter in "abcdefgh")
"""Colours of the lines in one figure; the first two are BLUE and RED."""

MAX_POINTS = 1_000
"""The maximum number of points of a curve: about the width of a chart in pixels."""
LEAST_COLUMNS = 8
"""The minimum number of columns that a histogram has space for; a column of a histogram with two would be too wide."""


@dataclasses.dataclass(frozen=True)
class Figure:
    """A figure for the page: its id, height in pixels, label for screen readers and plotly's JSON.

    A page narrower than ``least_width``, in pixels, scrolls it.
    """

    id: str
    height: int
    label: str
    json: str
    least_width: int = 0


def funnel(steps: Sequence[tuple[str, int]]) -> Figure | None:
    """Returns the number of documents that are left after each step."""
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
    return _figure("funnel", [bars], layout, "Documents left after each step")


def columns(id: str, bars: Sequence[tuple[str, int]], x: str, y: str) -> Figure | None:
    """Returns a histogram over named intervals, ``(name of the interval, count)``; ``x`` and ``y`` name the axes."""
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
    layout["xaxis"].update(type="category", tickangle=0, range=[-0.5, max(len(bars), LEAST_COLUMNS) - 0.5])
    most = max(n for _, n in bars)
    layout["yaxis"].update(
        rangemode="tozero", tickformat=",~s" if most >= 1000 else ",d", dtick=1 if most < 5 else None
    )
    return _figure(id, [trace], layout, f"{y} by {x}")


def loss(training: Points, validation: Points) -> Figure | None:
    """Returns training and validation loss over optimizer steps."""
    if not training and not validation:
        return None
    traces = [_curve("training", training, PALE, 1.5), _curve("validation", validation, RED, 2.5, markers=True)]
    layout = base_layout(340, x="optimizer step", y="nats per token")
    layout.update(showlegend=True, legend={"orientation": "h", "y": 1.02, "yanchor": "bottom", "x": 0, "title": None})
    return _figure("loss", [t for t in traces if len(t.x)], layout, "Training and validation loss by optimizer step")


def curve(id: str, points: Points, label: str) -> Figure | None:
    """Returns one quantity over optimizer steps."""
    if not points:
        return None
    layout = base_layout(200, x="optimizer step")
    return _figure(id, [_curve(label, points, BLUE, 1.5)], layout, f"{label} by optimizer step")


def thinned(points: Points, limit: int = MAX_POINTS) -> Points:
    """Returns at most ``limit`` of ``points``: the lowest and highest of each interval, so that no spike is lost."""
    if len(points) <= limit:
        return points
    stretch = -(-len(points) * 2 // (limit - 2))
    kept = {0, len(points) - 1}
    for start in range(0, len(points), stretch):
        block = range(start, min(start + stretch, len(points)))
        kept |= {min(block, key=lambda i: points[i][1]), max(block, key=lambda i: points[i][1])}
    return [points[i] for i in sorted(kept)]


def _curve(name: str, points: Points, color: str, width: float, markers: bool = False) -> go.Scatter:
    shown = thinned(points)
    return go.Scatter(
        x=[x for x, _ in shown],
        y=[y for _, y in shown],
        name=name,
        mode="lines+markers" if markers and len(shown) <= 60 else "lines" if len(shown) > 1 else "markers",
        line={"color": color, "width": width},
        marker={"color": color, "size": 6},
        hovertemplate="%{y:.4~g}",
    )


def base_layout(height: int, x: str = "", y: str = "") -> dict[str, Any]:
    """Returns the layout that all figures share; ``x`` and ``y`` name the axes."""
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


def _figure(id: str, traces: Sequence[Any], layout: dict[str, Any], label: str) -> Figure:
    return Figure(id, layout["height"], label, go.Figure(list(traces), layout).to_json())

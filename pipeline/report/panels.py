"""Figures of several panels that share their look; accuracy by the number of worked examples as such panels.

Colours are names of CSS variables, as in figures.py.
"""

from collections.abc import Sequence
from typing import Any

import plotly.graph_objects as go
from plotly.subplots import make_subplots

from headrace.pipeline.report.few_shot import Panel, Shot
from headrace.pipeline.report.figures import INK, MUTED, SERIES, Figure, base_layout

COLUMNS = 3
PANEL_PIXELS = 230
PANEL_LEAST_WIDTH = 200
TITLE_PIXELS = 36
LEGEND_PIXELS = 40
DASHES = ("solid", "dash", "dot")
"""Dash patterns of the lines beyond the number of colours."""


def grid(titles: Sequence[str], columns: int, **options: Any) -> go.Figure:
    """Returns empty panels, ``columns`` of them in a row."""
    rows = -(-len(titles) // columns)
    gap = 2 * TITLE_PIXELS / (rows * PANEL_PIXELS)
    return make_subplots(rows, columns, subplot_titles=titles, vertical_spacing=gap if rows > 1 else 0, **options)


def finished(id: str, chart: go.Figure, height: int, label: str, columns: int = COLUMNS, **own: Any) -> Figure:
    """Gives ``chart``, with ``columns`` panels in a row, the layout of the page, except for its ``own`` layout."""
    layout = base_layout(height)
    axis_x, axis_y = layout.pop("xaxis"), layout.pop("yaxis")
    axis_x["title"].pop("text"), axis_y["title"].pop("text")
    layout["margin"].update(t=TITLE_PIXELS + LEGEND_PIXELS)
    legend = {"orientation": "h", "yref": "container", "y": 1, "yanchor": "top", "x": 0}
    chart.update_layout(layout, showlegend=True, legend=legend).update_layout(own)
    chart.update_xaxes(axis_x)
    chart.update_yaxes(axis_y)
    chart.update_annotations(font={"size": 13, "color": INK})
    return Figure(id, height, label, chart.to_json(), PANEL_LEAST_WIDTH * columns if columns > 1 else 0)


def few_shot(panels: Sequence[Panel]) -> Figure | None:
    """Returns a panel for each benchmark, with a line for each model."""
    if not panels:
        return None
    names = list(dict.fromkeys(name for panel in panels for name in panel.curves))
    columns = min(COLUMNS, len(panels))
    rows = -(-len(panels) // columns)
    chart = _of_shots(panels, names, grid([panel.title.replace("_", " ") for panel in panels], columns), columns)
    chart.update_xaxes(title_text="worked examples", row=rows)
    height = rows * PANEL_PIXELS + LEGEND_PIXELS
    return finished("few_shot", chart, height, "Accuracy by the number of worked examples", columns)


def few_shot_groups(panels: Sequence[Panel]) -> list[Figure]:
    """Returns a figure for each of ``panels``, with a line for each group of its benchmark, without intervals."""
    return [_of_groups(f"few_shot_groups_{number}", panel) for number, panel in enumerate(panels)]


def _of_groups(id: str, panel: Panel) -> Figure:
    names = list(panel.curves)
    chart = _of_shots([panel], names, grid([""], 1), 1)
    chart.update_traces(error_y={"visible": False})
    chart.update_xaxes(title_text="worked examples")
    height = 2 * PANEL_PIXELS + LEGEND_PIXELS * (1 + len(names) // 6)
    above = {"yref": "paper", "y": 1.0, "yanchor": "bottom"}
    label = f"{panel.title}: each group by the number of worked examples"
    return finished(id, chart, height, label, 1, legend=above, margin={"t": 8})


def _of_shots(panels: Sequence[Panel], names: Sequence[str], chart: go.Figure, columns: int) -> go.Figure:
    """Returns ``chart`` with the curves of ``panels`` and a legend of their ``names``."""
    shots = [shot for panel in panels for curve in panel.curves.values() for shot in curve]
    order = [str(number) for number in sorted({shot.shots for shot in shots})]
    for number, panel in enumerate(panels):
        place = {"row": number // columns + 1, "col": number % columns + 1}
        if panel.random is not None:
            chart.add_trace(_guess(order, [panel.random] * len(order)), **place)
        for name, curve in panel.curves.items():
            chart.add_trace(_curve(name, curve, names.index(name)), **place)
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


def _curve(name: str, curve: Sequence[Shot], number: int) -> go.Scatter:
    """Returns a line with its intervals, or without points for the legend. Points of prompts that did not fit are
    hollow."""
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


def _guess(x: Sequence[Any], y: Sequence[Any]) -> go.Scatter:
    line = {"color": MUTED, "width": 1.5, "dash": "dot"}
    return go.Scatter(x=x, y=y, name="random guessing", mode="lines", showlegend=False, line=line, hoverinfo="skip")

"""Draws differences between runs with their 95 % intervals: a forest plot (Lewis and Clarke 2001)."""

import dataclasses
from collections.abc import Sequence

import plotly.graph_objects as go

from headrace.pipeline.report.figures.drawing import LINE, SERIES, Figure, base_layout

ROW_PIXELS = 30


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
    """Returns a line for each row with a mark for each run; None without differences.

    Marks of differences that are not significant are hollow. ``x`` is the label of the axis.
    """
    if not intervals:
        return None
    rows, runs = (list(dict.fromkeys(getattr(interval, name) for interval in intervals)) for name in ("row", "run"))
    height = ROW_PIXELS * max(2, len(rows)) * max(1.0, len(runs) / 2)
    layout = base_layout(round(height) + 90, x=x)
    layout["xaxis"].update(zeroline=True, zerolinecolor=LINE, zerolinewidth=2, showgrid=True, ticklabeloverflow="allow")
    ticks = {"tickmode": "array", "tickvals": list(range(len(rows))), "ticktext": rows}
    layout["yaxis"].update(range=[len(rows) - 0.5, -0.5], showgrid=False, **ticks)
    layout["margin"].update(r=24, t=36)
    layout.update(showlegend=True, legend={"orientation": "h", "yref": "container", "y": 1, "yanchor": "top", "x": 0})
    by_run = [[interval for interval in intervals if interval.run == run] for run in runs]
    traces = [_marks(number, shown, rows, len(runs)) for number, shown in enumerate(by_run)]
    return Figure(id, layout["height"], f"Differences: {x}", go.Figure(traces, layout).to_json())


def _marks(number: int, shown: Sequence[Interval], rows: Sequence[str], runs: int) -> "go.Scatter":
    """Returns the marks of the run with index ``number`` of all ``runs``, a little above or below their rows."""
    color = SERIES[(number + 1) % len(SERIES)]
    above = 0.6 * ((number + 0.5) / runs - 0.5)
    return go.Scatter(
        x=[interval.value for interval in shown],
        y=[rows.index(interval.row) + above for interval in shown],
        name=shown[0].run,
        mode="markers+text",
        text=[interval.stars for interval in shown],
        textposition="top center",
        textfont={"color": color},
        marker={
            "size": 9,
            "color": color,
            "symbol": ["circle" if interval.stars else "circle-open" for interval in shown],
        },
        error_x={
            "type": "data",
            "array": [interval.high - interval.value for interval in shown],
            "arrayminus": [interval.value - interval.low for interval in shown],
            "color": color,
            "thickness": 1.5,
            "width": 0,
        },
        hovertemplate="%{x:+.4~g}",
    )

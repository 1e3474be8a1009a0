"""Draws differences between runs with their 95 % intervals as a forest plot (Lewis and Clarke 2001)."""

import dataclasses
from collections.abc import Sequence

import plotly.graph_objects as go

from headrace.pipeline.report.figures import LINE, SERIES, Figure, base_layout

ROW_PIXELS = 30


@dataclasses.dataclass(frozen=True)
class Interval:
    """One difference."""

    row: str
    run: str
    value: float
    low: float
    high: float
    stars: str
    """Stars for its significance; empty for a difference that may be chance."""


def forest(id: str, found: Sequence[Interval], x: str) -> Figure | None:
    """Returns a line for each row, with a mark for each run; it is hollow if the difference may be chance.

    ``x`` names the quantity.
    """
    if not found:
        return None
    rows, runs = (list(dict.fromkeys(getattr(one, name) for one in found)) for name in ("row", "run"))
    height = ROW_PIXELS * max(2, len(rows)) * max(1.0, len(runs) / 2)
    layout = base_layout(round(height) + 90, x=x)
    layout["xaxis"].update(zeroline=True, zerolinecolor=LINE, zerolinewidth=2, showgrid=True, ticklabeloverflow="allow")
    ticks = {"tickmode": "array", "tickvals": list(range(len(rows))), "ticktext": rows}
    layout["yaxis"].update(range=[len(rows) - 0.5, -0.5], showgrid=False, **ticks)
    layout["margin"].update(r=24, t=36)
    layout.update(showlegend=True, legend={"orientation": "h", "yref": "container", "y": 1, "yanchor": "top", "x": 0})
    by_run = [[one for one in found if one.run == run] for run in runs]
    traces = [_marks(number, own, rows, len(runs)) for number, own in enumerate(by_run)]
    return Figure(id, layout["height"], f"Differences: {x}", go.Figure(traces, layout).to_json())


def _marks(number: int, own: Sequence[Interval], rows: Sequence[str], runs: int) -> go.Scatter:
    """Returns the marks of run ``number`` of ``runs``, a little above or below their rows."""
    color = SERIES[(number + 1) % len(SERIES)]
    above = 0.6 * ((number + 0.5) / runs - 0.5)
    return go.Scatter(
        x=[one.value for one in own],
        y=[rows.index(one.row) + above for one in own],
        name=own[0].run,
        mode="markers+text",
        text=[one.stars for one in own],
        textposition="top center",
        textfont={"color": color},
        marker={"size": 9, "color": color, "symbol": ["circle" if one.stars else "circle-open" for one in own]},
        error_x={
            "type": "data",
            "array": [one.high - one.value for one in own],
            "arrayminus": [one.value - one.low for one in own],
            "color": color,
            "thickness": 1.5,
            "width": 0,
        },
        hovertemplate="%{x:+.4~g}",
    )

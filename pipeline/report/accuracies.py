"""The main accuracy of each benchmark with its 95 % interval, beside guessing: a row for each benchmark.

piqa acc      |      0 shots  ──●──          fewer worked examples are paler and stand above more of them
              |      4 shots    ──●──
copa acc      |   …
"""

import dataclasses
from collections.abc import Mapping, Sequence

import plotly.graph_objects as go

from headrace.pipeline.report.figures import BLUE, MUTED, Figure, base_layout

ROW_PIXELS = 26
MARK_PIXELS = 8
LEGEND_PIXELS = 90
PALEST = 0.35


@dataclasses.dataclass(frozen=True)
class Score:
    """One mark; ``interval`` is the 95 % confidence interval, ``random`` what guessing gives."""

    name: str
    shots: int
    value: float
    interval: tuple[float, float] | None
    random: float | None


def accuracies(found: Sequence[Score]) -> Figure | None:
    """Returns a row for each name, in their order, with a mark for each number of shots; None without scores."""
    if not found:
        return None
    shots = sorted({one.shots for one in found})
    rows = {name: number for number, name in enumerate(dict.fromkeys(one.name for one in found))}
    row_pixels = ROW_PIXELS + MARK_PIXELS * len(shots)
    layout = base_layout(row_pixels * len(rows) + LEGEND_PIXELS, x="score")
    layout.update(showlegend=True, legend={"orientation": "h", "y": 1.0, "yanchor": "bottom", "x": 0})
    ticks = {"tickmode": "array", "tickvals": list(rows.values()), "ticktext": list(rows)}
    layout["yaxis"].update(range=[len(rows) - 0.5, -0.5], showgrid=True, **ticks)
    layout["xaxis"].update(range=[0, 1], tickformat=".0%", dtick=0.2, showgrid=True, ticklabeloverflow="allow")
    layout["margin"].update(r=24)
    random = {one.name: one.random for one in found if one.random is not None}
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
        _marks([one for one in found if one.shots == number], rows, index, len(shots))
        for index, number in enumerate(shots)
    ]
    label = "Accuracies with 95 % intervals beside random guessing"
    return Figure("scores", layout["height"], label, go.Figure([guess, *marks], layout).to_json())


def _marks(own: Sequence[Score], rows: Mapping[str, int], index: int, of: int) -> go.Scatter:
    """Returns the marks of the number of shots with this ``index`` among ``of`` numbers."""
    share = index / (of - 1) if of > 1 else 1.0
    down = 0.7 * ((index + 0.5) / of - 0.5)
    number = own[0].shots
    intervals = [one.interval or (one.value, one.value) for one in own]
    return go.Scatter(
        x=[one.value for one in own],
        y=[rows[one.name] + down for one in own],
        name="this model" if of == 1 else f"{number} shot{'s' * (number != 1)}",
        mode="markers",
        cliponaxis=False,
        opacity=PALEST + (1 - PALEST) * share,
        marker={"size": 9 if of == 1 else 7, "color": BLUE},
        error_x={
            "type": "data",
            "array": [high - one.value for one, (_, high) in zip(own, intervals, strict=True)],
            "arrayminus": [one.value - low for one, (low, _) in zip(own, intervals, strict=True)],
            "color": BLUE,
            "thickness": 1.5,
            "width": 0,
        },
        hovertext=[one.name for one in own],
        hovertemplate="%{hovertext}: %{x:.1%}",
    )

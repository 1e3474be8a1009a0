"""Draws the main accuracy of each benchmark with its 95 % interval and the accuracy of random guessing.

piqa acc      |      0 shots  ──●──          one mark for each number of worked examples, fewer are paler
              |      4 shots    ──●──
copa acc      |   …
"""

import dataclasses
from collections.abc import Mapping, Sequence

import plotly.graph_objects as go

from headrace.pipeline.report.figures.drawing import BLUE, MUTED, Figure, base_layout

ROW_PIXELS = 26
MARK_PIXELS = 8
LEGEND_PIXELS = 90
PALEST = 0.35


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
    layout = base_layout(row_pixels * len(rows) + LEGEND_PIXELS, x="score")
    layout.update(showlegend=True, legend={"orientation": "h", "y": 1.0, "yanchor": "bottom", "x": 0})
    ticks = {"tickmode": "array", "tickvals": list(rows.values()), "ticktext": list(rows)}
    layout["yaxis"].update(range=[len(rows) - 0.5, -0.5], showgrid=True, **ticks)
    layout["xaxis"].update(range=[0, 1], tickformat=".0%", dtick=0.2, showgrid=True, ticklabeloverflow="allow")
    layout["margin"].update(r=24)
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
        _marks([score for score in scores if score.shots == number], rows, index, len(shots))
        for index, number in enumerate(shots)
    ]
    label = "Accuracies with 95 % intervals and random guessing"
    return Figure("scores", layout["height"], label, go.Figure([guess, *marks], layout).to_json())


def _marks(shown: Sequence[AccuracyMark], rows: Mapping[str, int], index: int, total: int) -> "go.Scatter":
    """Returns the marks of the number of shots with this ``index`` of the ``total`` numbers of shots."""
    share = index / (total - 1) if total > 1 else 1.0
    down = 0.7 * ((index + 0.5) / total - 0.5)
    number = shown[0].shots
    intervals = [score.interval or (score.value, score.value) for score in shown]
    return go.Scatter(
        x=[score.value for score in shown],
        y=[rows[score.name] + down for score in shown],
        name="this model" if total == 1 else f"{number} shot{'s' * (number != 1)}",
        mode="markers",
        cliponaxis=False,
        opacity=PALEST + (1 - PALEST) * share,
        marker={"size": 9 if total == 1 else 7, "color": BLUE},
        error_x={
            "type": "data",
            "array": [high - score.value for score, (_, high) in zip(shown, intervals, strict=True)],
            "arrayminus": [score.value - low for score, (low, _) in zip(shown, intervals, strict=True)],
            "color": BLUE,
            "thickness": 1.5,
            "width": 0,
        },
        hovertext=[score.name for score in shown],
        hovertemplate="%{hovertext}: %{x:.1%}",
    )

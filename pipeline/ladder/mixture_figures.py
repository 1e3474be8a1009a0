"""Draws the figures of a search for the best mixture: weights, and measured against predicted losses."""

import plotly.graph_objects as go

from headrace.pipeline.ladder.mixing_law import Floats, Proposal
from headrace.pipeline.ladder.proxies import ProxySearch, shares_of
from headrace.pipeline.report.figures.drawing import BLUE, MUTED, RED, Figure, base_layout

LEGEND = {"orientation": "h", "y": 1.02, "yanchor": "bottom", "x": 0, "title": None}


def figures(search: ProxySearch, proposal: Proposal, losses: Floats) -> list[tuple[Figure, str]]:
    """Returns the figures with their captions; ``losses`` are the measured ones, (trainings,)."""
    return [
        (_weights(search, proposal), "Shares of the sources, with the 95 % intervals of the proposed ones."),
        (_left_out(proposal, losses), "Each training: its measured loss, and that which a law of the other trainings "
         "predicts. On the line they are equal."),
    ]  # fmt: skip


def _weights(search: ProxySearch, proposal: Proposal) -> Figure:
    shares = proposal.shares.tolist()
    ends = {
        "type": "data",
        "array": [max(0.0, high - share) for share, (_, high) in zip(shares, proposal.intervals, strict=True)],
        "arrayminus": [max(0.0, share - low) for share, (low, _) in zip(shares, proposal.intervals, strict=True)],
        "thickness": 1.5,
    }
    given = shares_of(search.given).tolist()
    markers = {"mode": "markers", "hovertemplate": "%{x}: %{y:.3f}"}
    traces = [
        go.Scatter(x=search.names, y=given, name="given", marker={"color": MUTED, "size": 9}, **markers),
        go.Scatter(
            x=search.names, y=shares, name="proposed", marker={"color": RED, "size": 9}, error_y=ends, **markers
        ),
    ]
    layout = base_layout(320, x="source", y="share")
    layout.update(showlegend=True, legend=LEGEND)
    layout["xaxis"].update(type="category")
    layout["yaxis"].update(rangemode="tozero")
    return Figure("weights", 320, "Given and proposed shares", go.Figure(traces, layout).to_json())


def _left_out(proposal: Proposal, losses: Floats) -> Figure:
    predicted = proposal.left_out
    ends = [float(min(losses.min(), predicted.min())), float(max(losses.max(), predicted.max()))]
    dashed = {"color": MUTED, "width": 1.5, "dash": "dash"}
    traces = [
        go.Scatter(x=ends, y=ends, mode="lines", line=dashed, hoverinfo="skip"),
        go.Scatter(
            x=losses.tolist(),
            y=predicted.tolist(),
            mode="markers",
            marker={"color": BLUE, "size": 7},
            hovertemplate="measured %{x:.4f}, predicted %{y:.4f}",
        ),
    ]
    layout = base_layout(360, x="measured loss, nats per token", y="predicted")
    layout["xaxis"].update(showgrid=True)
    return Figure("left-out", 360, "Measured and predicted losses", go.Figure(traces, layout).to_json())

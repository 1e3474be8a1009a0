"""Draws the figures of a ladder: losses by rate, by tokens and by operations, best rates, IsoFLOP profiles."""

from collections.abc import Callable, Sequence
from typing import Any, Literal

import numpy as np
import plotly.graph_objects as go

from headrace.pipeline.experiments.analysis import Analysis
from headrace.pipeline.experiments.optima import BestRate
from headrace.pipeline.report.drawing import (
    COLUMNS,
    LEGEND_PIXELS,
    MUTED,
    PANEL_PIXELS,
    SERIES,
    TITLE_PIXELS,
    Figure,
    base_layout,
    panel_figure,
    panel_grid,
)
from headrace.pipeline.report.formatting import short

CURVE_POINTS = 60
NATS = "nats per token"
LEGEND = {"orientation": "h", "y": 1.02, "yanchor": "bottom", "x": 0, "title": None}


def figures(analysis: Analysis) -> list[tuple[Figure, str]]:
    """Returns the figures of ``analysis`` that its arms allow, each with its caption."""
    drawn: list[tuple[Figure | None, str]] = [
        (_by_rate(analysis), "Validation loss by peak learning rate. Diamonds: lowest point of the parabola through "
         "the best training and its neighbours, with the 95 % interval of its rate."),
        (_rates(analysis.best), "Best learning rate by size, with 95 % intervals where the trainings allow them."),
        (_by_tokens(analysis), "Loss at the best rate by tokens of the training. Dashed: the law."),
        (_by_flops(analysis), "Loss at the best rate by operations of the training. Dashed: the law at the best size "
         "for each number of operations."),
        (_profiles(analysis), "Losses of sizes at equal operations, interpolated between trainings. Diamonds: lowest "
         "points of the parabolas."),
    ]  # fmt: skip
    return [(figure, caption) for figure, caption in drawn if figure is not None]


def _by_rate(analysis: Analysis) -> Figure | None:
    """Returns a panel for each token count with a line for each size; None with a single rate."""
    if len({arm.rate for arm in analysis.arms}) < 2:
        return None
    tokens = sorted({arm.tokens for arm in analysis.arms})
    columns = min(COLUMNS, len(tokens))
    chart = panel_grid([f"{short(number_of_tokens)} tokens" for number_of_tokens in tokens], columns)
    best = {(measured.parameters, measured.tokens): measured for measured in analysis.best}
    for number, parameters in enumerate(_sizes(analysis.best)):
        is_first = True
        for index, number_of_tokens in enumerate(tokens):
            place = {"row": index // columns + 1, "col": index % columns + 1}
            arms = sorted(
                arm for arm in analysis.arms if (arm.parameters, arm.tokens) == (parameters, number_of_tokens)
            )
            if not arms:
                continue
            xs, ys = [arm.rate for arm in arms], [arm.loss for arm in arms]
            line = _line(f"{short(parameters)} parameters", xs, ys, number, showlegend=is_first, legendgroup=number)
            chart.add_trace(line, **place)
            if best[parameters, number_of_tokens].is_inside:
                chart.add_trace(
                    _diamonds([best[parameters, number_of_tokens]], number, lambda measured: measured.rate), **place
                )
            is_first = False
    height = -(-len(tokens) // columns) * (PANEL_PIXELS + TITLE_PIXELS) + LEGEND_PIXELS
    return panel_figure("rates", chart.update_xaxes(type="log"), height, "Validation loss by learning rate", columns)


def _rates(best: Sequence[BestRate]) -> Figure | None:
    """Returns the best rates by size, with a line for each token count; None without any."""
    known = [measured for measured in best if measured.is_inside]
    if len({measured.parameters for measured in known}) < 2:
        return None
    traces = []
    for number, tokens in enumerate(sorted({measured.tokens for measured in known})):
        of_tokens = [measured for measured in known if measured.tokens == tokens]
        line = _line(
            f"{short(tokens)} tokens",
            [measured.parameters for measured in of_tokens],
            [measured.rate for measured in of_tokens],
            number,
        )
        line.update(error_y=_bars(of_tokens))
        traces.append(line)
    layout = _layout("parameters", "peak learning rate")
    layout["yaxis"].update(type="log")
    return _figure("best-rates", traces, layout, "Best learning rate by size")


def _losses(analysis: Analysis, axis: Literal["tokens", "flops"]) -> list[go.Scatter]:
    """Returns a line of the losses of each size over ``axis``."""
    traces = []
    for number, parameters in enumerate(_sizes(analysis.best)):
        points = sorted(
            (getattr(measured, axis), measured.loss) for measured in analysis.best if measured.parameters == parameters
        )
        xs, losses = [x for x, _ in points], [loss for _, loss in points]
        traces.append(_line(f"{short(parameters)} parameters", xs, losses, number))
    return traces


def _by_tokens(analysis: Analysis) -> Figure | None:
    """Returns losses by tokens, with a line for each size, and the law; None with a single token count."""
    if len({measured.tokens for measured in analysis.best}) < 2:
        return None
    traces = _losses(analysis, "tokens")
    if analysis.law is not None:
        for number, parameters in enumerate(_sizes(analysis.best)):
            curve = _spaced([measured.tokens for measured in analysis.best if measured.parameters == parameters])
            predicted = [analysis.law.loss(parameters, x) for x in curve]
            traces.append(_dashed(curve, predicted, SERIES[number % len(SERIES)]))
    return _figure("by-tokens", traces, _layout("tokens", NATS), "Loss by tokens")


def _by_flops(analysis: Analysis) -> Figure | None:
    """Returns losses by operations with the law's best, up to the budget if any; None with a single training."""
    if len(analysis.best) < 2:
        return None
    traces = _losses(analysis, "flops")
    if analysis.law is not None:
        budget = [analysis.recommendation.flops] if analysis.recommendation else []
        xs = _spaced([measured.flops for measured in analysis.best] + budget)
        traces.append(_dashed(xs, [analysis.law.optimum(x).loss for x in xs], MUTED))
    return _figure("by-flops", traces, _layout("FLOP", NATS), "Loss by operations")


def _profiles(analysis: Analysis) -> Figure | None:
    """Returns the IsoFLOP profiles; None when the grid allows none."""
    if not analysis.profiles:
        return None
    traces = []
    for number, profile in enumerate(analysis.profiles):
        xs, ys = zip(*profile.sizes, strict=True)
        line = _line(f"{profile.flops:.2g} FLOP", xs, ys, number)
        curve = _spaced(xs)
        traces += [line.update(mode="markers"), _dashed(curve, np.polyval(profile.parabola, np.log(curve)).tolist(),
                                                         SERIES[number % len(SERIES)])]  # fmt: skip
        if profile.parameters is not None:
            lowest = float(np.polyval(profile.parabola, np.log(profile.parameters)))
            diamond = {"color": SERIES[number % len(SERIES)], "symbol": "diamond", "size": 10}
            traces.append(go.Scatter(x=[profile.parameters], y=[lowest], mode="markers", marker=diamond,
                                     showlegend=False, hovertemplate="%{x:,.3~s}: %{y:.4f}"))  # fmt: skip
    return _figure("profiles", traces, _layout("parameters", NATS), "Loss by size at equal operations")


def _sizes(best: Sequence[BestRate]) -> list[float]:
    return sorted({measured.parameters for measured in best})


def _spaced(values: Sequence[float]) -> list[float]:
    """Returns numbers from the lowest to the highest of ``values``, evenly spaced in their logarithm."""
    return np.geomspace(min(values), max(values), CURVE_POINTS).tolist()  # type: ignore[no-any-return]


def _line(name: str, xs: Sequence[float], ys: Sequence[float], number: int, **options: Any) -> go.Scatter:
    color = SERIES[number % len(SERIES)]
    return go.Scatter(
        x=list(xs),
        y=list(ys),
        name=name,
        mode="lines+markers",
        line={"color": color, "width": 2},
        marker={"color": color, "size": 7},
        hovertemplate="%{x:.3~g}: %{y:.4~g}",
        **options,
    )


def _dashed(xs: Sequence[float], ys: Sequence[float], color: str) -> go.Scatter:
    line = {"color": color, "width": 1.5, "dash": "dash"}
    return go.Scatter(x=list(xs), y=list(ys), mode="lines", line=line, showlegend=False, hoverinfo="skip")


def _bars(best: Sequence[BestRate]) -> dict[str, Any]:
    """Returns the error bars of best rates; a rate without an interval has none."""
    ends = [measured.interval or (measured.rate, measured.rate) for measured in best]
    return {
        "type": "data",
        "array": [high - measured.rate for measured, (_, high) in zip(best, ends, strict=True)],
        "arrayminus": [measured.rate - low for measured, (low, _) in zip(best, ends, strict=True)],
        "thickness": 1.5,
    }


def _diamonds(best: Sequence[BestRate], number: int, x: Callable[[BestRate], float]) -> go.Scatter:
    return go.Scatter(
        x=[x(measured) for measured in best],
        y=[measured.loss for measured in best],
        error_x=_bars(best),
        mode="markers",
        marker={"color": SERIES[number % len(SERIES)], "symbol": "diamond", "size": 10},
        showlegend=False,
        legendgroup=number,
        hovertemplate="%{x:.3~g}: %{y:.4~g}",
    )


def _layout(x: str, y: str) -> dict[str, Any]:
    layout = base_layout(360, x=x, y=y)
    layout.update(showlegend=True, legend=LEGEND)
    layout["xaxis"].update(type="log", showgrid=True)
    return layout


def _figure(id: str, traces: Sequence[go.Scatter], layout: dict[str, Any], label: str) -> Figure:
    return Figure(id, layout["height"], label, go.Figure(list(traces), layout).to_json())

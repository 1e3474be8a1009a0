"""Draws the figures of ladders and studies: losses, best rates and profiles; measures, claims and curves."""

import re
import statistics
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np
import plotly.graph_objects as go

from headrace.pipeline.core.statistics import mean_interval
from headrace.pipeline.experiments.law import Law
from headrace.pipeline.experiments.measures import Points
from headrace.pipeline.experiments.optima import BestRate, FinishedTraining, IsoFlop
from headrace.pipeline.experiments.verdict import CONFIRMED, CONTRADICTED, BySeed, ClaimVerdict
from headrace.pipeline.report.drawing import (
    COLUMNS,
    LEGEND_PIXELS,
    MUTED,
    PANEL_PIXELS,
    SERIES,
    TITLE_PIXELS,
    Figure,
    base_layout,
    losses,
    panel_figure,
    panel_grid,
)
from headrace.pipeline.report.formatting import short
from headrace.pipeline.report.score_figures import Interval, forest

CURVE_POINTS = 60
NATS = "nats per token"
LEGEND = {"orientation": "h", "y": 1.02, "yanchor": "bottom", "x": 0, "title": None}
SHOTS = re.compile(r"_\d+shot\Z")
"""The end that evaluation.shots adds to the name of a benchmark: its measures are one line over the examples."""
Captioned = list[tuple[Figure, str]]
"""Figures, each with its caption."""


def ladder_figures(
    arms: Sequence[FinishedTraining],
    best: Sequence[BestRate],
    profiles: Sequence[IsoFlop],
    law: Law | None,
    budget: float | None,
) -> Captioned:
    """Returns the figures that the finished trainings ``arms`` of a ladder allow; ``budget`` is in FLOP."""
    drawn: list[tuple[Figure | None, str]] = [
        (_by_rate(arms, best), "Validation loss by peak learning rate. Diamonds: lowest point of the parabola through "
         "the best training and its neighbours, with the 95 % interval of its rate."),
        (_rates(best), "Best learning rate by size, with 95 % intervals where the trainings allow them."),
        (_by_tokens(best, law), "Loss at the best rate by tokens of the training. Dashed: the law."),
        (_by_flops(best, law, budget), "Loss at the best rate by operations of the training. Dashed: the law at the "
         "best size for each number of operations."),
        (_profiles(profiles), "Losses of sizes at equal operations, interpolated between trainings. Diamonds: lowest "
         "points of the parabolas."),
    ]  # fmt: skip
    return [(figure, caption) for figure, caption in drawn if figure is not None]


def study_figures(
    sources: Mapping[str, str],
    measured: Mapping[str, Mapping[str, BySeed]],
    decisions: Sequence[ClaimVerdict],
    curves: Mapping[str, Sequence[Points]],
) -> Captioned:
    """Returns the figures that the finished runs of a study allow.

    Args:
        sources: measure → where it is read; measures of one metric are one figure.
        measured: arm → measure → what its runs measured.
        decisions: the verdicts on the claims.
        curves: arm → the validation losses of its runs.
    """
    metrics: dict[str, list[str]] = {}
    for measure, source in sources.items():
        benchmark, dot, metric = source.partition("@")[0].partition(".")
        metrics.setdefault(SHOTS.sub("", benchmark) + dot + metric, []).append(measure)
    drawn: list[tuple[Figure | None, str]] = [
        (_measure(metric, measures, measured), "Mean over seeds, with the 95 % interval.")
        for metric, measures in metrics.items()
    ]
    drawn += [
        (_claims(decisions), "Differences of the claims, paired by seed, with the 95 % interval over seeds. "
         "Filled: the interval lies on one side of what the claim asks for."),
        (losses({arm: _mean_curve(of_runs) for arm, of_runs in curves.items()}),
         "Validation loss of each arm, the mean over seeds."),
    ]  # fmt: skip
    return [(figure, caption) for figure, caption in drawn if figure is not None]


def _by_rate(arms: Sequence[FinishedTraining], best: Sequence[BestRate]) -> Figure | None:
    """Returns a panel for each token count with a line for each size; None with a single rate."""
    if len({arm.rate for arm in arms}) < 2:
        return None
    tokens = sorted({arm.tokens for arm in arms})
    columns = min(COLUMNS, len(tokens))
    chart = panel_grid([f"{short(number)} tokens" for number in tokens], columns)
    named = set[float]()
    for optimum in sorted(best, key=lambda optimum: (optimum.parameters, optimum.tokens)):
        size, index = optimum.parameters, tokens.index(optimum.tokens)
        place = {"row": index // columns + 1, "col": index % columns + 1}
        number = _sizes(best).index(size)
        line = sorted(arm for arm in arms if (arm.parameters, arm.tokens) == (size, optimum.tokens))
        options = {"showlegend": size not in named, "legendgroup": number}
        xs, ys = [arm.rate for arm in line], [arm.loss for arm in line]
        chart.add_trace(_line(f"{short(size)} parameters", xs, ys, number, **options), **place)
        if optimum.is_inside:
            mark = _diamond(optimum.rate, optimum.loss, number, error_x=_bars([optimum]), legendgroup=number)
            chart.add_trace(mark, **place)
        named.add(size)
    height = -(-len(tokens) // columns) * (PANEL_PIXELS + TITLE_PIXELS) + LEGEND_PIXELS
    return panel_figure("rates", chart.update_xaxes(type="log"), height, "Validation loss by learning rate", columns)


def _rates(best: Sequence[BestRate]) -> Figure | None:
    """Returns the best rates by size, with a line for each token count; None without any."""
    inside = [measured for measured in best if measured.is_inside]
    if len({measured.parameters for measured in inside}) < 2:
        return None
    traces = []
    for number, tokens in enumerate(sorted({measured.tokens for measured in inside})):
        of_tokens = [measured for measured in inside if measured.tokens == tokens]
        xs, ys = [measured.parameters for measured in of_tokens], [measured.rate for measured in of_tokens]
        traces.append(_line(f"{short(tokens)} tokens", xs, ys, number, error_y=_bars(of_tokens)))
    layout = _log_layout("parameters", "peak learning rate")
    layout["yaxis"].update(type="log")
    return _figure("best-rates", traces, layout, "Best learning rate by size")


def _losses(best: Sequence[BestRate], axis: Literal["tokens", "flops"]) -> list[go.Scatter]:
    """Returns a line of the losses of each size over ``axis``."""
    traces = []
    for number, parameters in enumerate(_sizes(best)):
        points = sorted((getattr(point, axis), point.loss) for point in best if point.parameters == parameters)
        xs, ys = [x for x, _ in points], [loss for _, loss in points]
        traces.append(_line(f"{short(parameters)} parameters", xs, ys, number))
    return traces


def _by_tokens(best: Sequence[BestRate], law: Law | None) -> Figure | None:
    """Returns losses by tokens, with a line for each size, and the law; None with a single token count."""
    if len({measured.tokens for measured in best}) < 2:
        return None
    traces = _losses(best, "tokens")
    for number, parameters in enumerate(_sizes(best)):
        if law is None:
            break
        curve = _spaced([measured.tokens for measured in best if measured.parameters == parameters])
        traces.append(_dashed(curve, [law.loss(parameters, x) for x in curve], _color(number)))
    return _figure("by-tokens", traces, _log_layout("tokens", NATS), "Loss by tokens")


def _by_flops(best: Sequence[BestRate], law: Law | None, budget: float | None) -> Figure | None:
    """Returns losses by operations with the law's best, up to the budget if any; None with a single training."""
    if len(best) < 2:
        return None
    traces = _losses(best, "flops")
    if law is not None:
        xs = _spaced([*(measured.flops for measured in best), *([] if budget is None else [budget])])
        traces.append(_dashed(xs, [law.optimum(x).loss for x in xs], MUTED))
    return _figure("by-flops", traces, _log_layout("FLOP", NATS), "Loss by operations")


def _profiles(profiles: Sequence[IsoFlop]) -> Figure | None:
    """Returns the IsoFLOP profiles; None when the grid allows none."""
    traces = []
    for number, profile in enumerate(profiles):
        xs, ys = zip(*profile.sizes, strict=True)
        curve = _spaced(xs)
        traces.append(_line(f"{profile.flops:.2g} FLOP", xs, ys, number).update(mode="markers"))
        traces.append(_dashed(curve, np.polyval(profile.parabola, np.log(curve)).tolist(), _color(number)))
        if profile.parameters is not None:
            lowest = float(np.polyval(profile.parabola, np.log(profile.parameters)))
            traces.append(_diamond(profile.parameters, lowest, number))
    return _figure("profiles", traces, _log_layout("parameters", NATS), "Loss by size at equal operations")


def _measure(metric: str, measures: Sequence[str], measured: Mapping[str, Mapping[str, BySeed]]) -> Figure | None:
    """Returns a line of each arm over the ``measures`` that have the ``metric``, groups or numbers of examples in
    context, and of what is better when higher what guessing reaches; None without values."""
    traces, is_series = [], len(measures) > 1
    for number, (arm, of_measures) in enumerate(measured.items()):
        seeds = {measure: [value.value for value in of_measures[measure].values()] for measure in measures}
        if not (known := {measure: values for measure, values in seeds.items() if values}):
            continue
        means = [statistics.fmean(values) for values in known.values()]
        ends = [mean_interval(values) or (mean, mean) for values, mean in zip(known.values(), means, strict=True)]
        errors = [high - mean for (_, high), mean in zip(ends, means, strict=True)]
        line = _line(arm, list(known) if is_series else [arm], means, number, error_y=_error_bars(errors))
        traces.append(line.update(marker={"size": 8}, hovertemplate="%{y:.4~g}"))
    if not traces:
        return None
    every = {measure: [value for arm in measured.values() for value in arm[measure].values()] for measure in measures}
    guesses = {
        measure: value.chance
        for measure, values in every.items()
        for value in values
        if value.chance is not None and value.higher_is_better
    }
    if guesses:
        x = list(guesses) if is_series else list(measured)
        y = list(guesses.values()) if is_series else list(guesses.values()) * len(x)
        line = {"color": MUTED, "width": 1.5, "dash": "dot"}
        traces.append(go.Scatter(x=x, y=y, name="random guessing", mode="lines", line=line, hovertemplate="%{y:.4~g}"))
    layout = base_layout(320, x="measure" if is_series else "arm", y=metric)
    layout.update(showlegend=is_series, legend=LEGEND)
    layout["xaxis"].update(type="category")
    return _figure(f"measure-{re.sub('[.:]', '-', metric)}", traces, layout, f"{metric} of the arms")


def _claims(decisions: Sequence[ClaimVerdict]) -> Figure | None:
    """Returns the differences of all steps of the claims over seeds; None without intervals."""
    rows = [
        Interval(step.pair, "difference", step.difference, *step.over_seeds, mark)
        for verdict in decisions
        for step in verdict.steps
        if step.difference is not None and step.over_seeds is not None
        for mark in ["*" if step.verdict in (CONFIRMED, CONTRADICTED) else ""]
    ]
    return forest("claims", rows, "higher − lower")


def _mean_curve(curves: Sequence[Points]) -> Points:
    """Returns the mean of ``curves`` at the steps that all of them have."""
    of_runs = [dict(curve) for curve in curves]
    steps = sorted(set[float].intersection(*map(set, of_runs))) if of_runs else []
    return [(step, statistics.fmean(curve[step] for curve in of_runs)) for step in steps]


def _sizes(best: Sequence[BestRate]) -> list[float]:
    return sorted({measured.parameters for measured in best})


def _spaced(values: Sequence[float]) -> list[float]:
    """Returns numbers from the lowest to the highest of ``values``, evenly spaced in their logarithm."""
    return np.geomspace(min(values), max(values), CURVE_POINTS).tolist()  # type: ignore[no-any-return]


def _color(number: int) -> str:
    return SERIES[number % len(SERIES)]


def _line(name: str, xs: Sequence[Any], ys: Sequence[float], number: int, **options: Any) -> go.Scatter:
    line, marker = {"color": _color(number), "width": 2}, {"color": _color(number), "size": 7}
    style = {"mode": "lines+markers", "line": line, "marker": marker, "hovertemplate": "%{x:.3~g}: %{y:.4~g}"}
    return go.Scatter(x=list(xs), y=list(ys), name=name, **style, **options)


def _dashed(xs: Sequence[float], ys: Sequence[float], color: str) -> go.Scatter:
    line = {"color": color, "width": 1.5, "dash": "dash"}
    return go.Scatter(x=list(xs), y=list(ys), mode="lines", line=line, showlegend=False, hoverinfo="skip")


def _diamond(x: float, y: float, number: int, **options: Any) -> go.Scatter:
    marker = {"color": _color(number), "symbol": "diamond", "size": 10}
    style = {"mode": "markers", "marker": marker, "showlegend": False, "hovertemplate": "%{x:.3~g}: %{y:.4~g}"}
    return go.Scatter(x=[x], y=[y], **style, **options)


def _bars(best: Sequence[BestRate]) -> dict[str, Any]:
    """Returns the error bars of best rates; a rate without an interval has none."""
    ends = [measured.interval or (measured.rate, measured.rate) for measured in best]
    above = [high - measured.rate for measured, (_, high) in zip(best, ends, strict=True)]
    below = [measured.rate - low for measured, (low, _) in zip(best, ends, strict=True)]
    return _error_bars(above) | {"arrayminus": below}


def _error_bars(lengths: Sequence[float]) -> dict[str, Any]:
    return {"type": "data", "array": list(lengths), "thickness": 1.5}


def _log_layout(x: str, y: str) -> dict[str, Any]:
    layout = base_layout(360, x=x, y=y)
    layout.update(showlegend=True, legend=LEGEND)
    layout["xaxis"].update(type="log", showgrid=True)
    return layout


def _figure(id: str, traces: Sequence[go.Scatter], layout: dict[str, Any], label: str) -> Figure | None:
    """Returns the figure of ``traces``; None without any."""
    return Figure(id, layout["height"], label, go.Figure(list(traces), layout).to_json()) if traces else None

"""Draws the figures of a study: measures of the arms, differences of the claims, and validation losses."""

import re
import statistics
from collections.abc import Mapping, Sequence

import plotly.graph_objects as go

from headrace.pipeline.experiments.findings import FREQUENCIES, Findings
from headrace.pipeline.experiments.measures import Points
from headrace.pipeline.experiments.verdict import CONFIRMED, CONTRADICTED, over
from headrace.pipeline.report.drawing import MUTED, SERIES, Figure, base_layout, losses
from headrace.pipeline.report.score_figures import Interval, forest

SHOTS = re.compile(r"_\d+shot\Z")
"""The end that evaluation.shots adds to the name of a benchmark: its measures are one line over the examples."""
LEGEND = {"orientation": "h", "y": 1.02, "yanchor": "bottom", "x": 0, "title": None}


def figures(findings: Findings) -> list[tuple[Figure, str]]:
    """Returns the figures that the finished runs of ``findings`` allow, each with its caption."""
    drawn: list[tuple[Figure | None, str]] = [
        (figure, "Mean over seeds, with the 95 % interval.") for figure in _measures(findings)
    ]
    drawn.append((_claims(findings), "Differences of the claims, paired by seed, with the 95 % interval over seeds. "
                  "Filled: the interval lies on one side of what the claim asks for."))  # fmt: skip
    level = None if findings.unigram is None else (FREQUENCIES, findings.unigram)
    drawn.append((losses({plan.name: _mean_curve(findings, plan.name) for plan in findings.plans}, level),
                  "Validation loss of each arm, the mean over seeds."))  # fmt: skip
    return [(figure, caption) for figure, caption in drawn if figure is not None]


def _measures(findings: Findings) -> list[Figure]:
    """Returns a figure for each metric, with a line of each arm over the measures that have it, groups or numbers of
    examples in context, and of accuracies what guessing reaches."""
    metrics: dict[str, list[str]] = {}
    for measure, source in findings.study.measures.items():
        benchmark, dot, metric = source.partition("@")[0].partition(".")
        metrics.setdefault(SHOTS.sub("", benchmark) + dot + metric, []).append(measure)
    return [
        figure for metric, measures in metrics.items() if (figure := _measure(findings, metric, measures)) is not None
    ]


def _measure(findings: Findings, metric: str, measures: Sequence[str]) -> Figure | None:
    traces = []
    is_series = len(measures) > 1
    for number, plan in enumerate(findings.plans):
        color = SERIES[number % len(SERIES)]
        by_measure = {
            measure: [value.value for value in findings.measured(plan.name, measure).values()] for measure in measures
        }
        known = {measure: values for measure, values in by_measure.items() if values}
        means = [statistics.fmean(values) for values in known.values()]
        ends = [over(values) or (mean, mean) for values, mean in zip(known.values(), means, strict=True)]
        if not known:
            continue
        traces.append(go.Scatter(
            x=list(known) if is_series else [plan.name],
            y=means,
            name=plan.name,
            mode="lines+markers",
            line={"color": color, "width": 2},
            marker={"color": color, "size": 8},
            error_y={"type": "data", "array": [end[1] - mean for end, mean in zip(ends, means, strict=True)],
                     "thickness": 1.5},
            hovertemplate="%{y:.4~g}",
        ))  # fmt: skip
    if not traces:
        return None
    if guesses := _guesses(findings, measures):
        x = list(guesses) if is_series else [plan.name for plan in findings.plans]
        y = list(guesses.values()) if is_series else list(guesses.values()) * len(x)
        line = {"color": MUTED, "width": 1.5, "dash": "dot"}
        traces.append(go.Scatter(x=x, y=y, name="random guessing", mode="lines", line=line, hovertemplate="%{y:.4~g}"))
    layout = base_layout(320, x="measure" if is_series else "arm", y=metric)
    layout.update(showlegend=is_series, legend=LEGEND)
    layout["xaxis"].update(type="category")
    name = metric.replace(".", "-")
    return Figure(f"measure-{name}", layout["height"], f"{metric} of the arms", go.Figure(traces, layout).to_json())


def _guesses(findings: Findings, measures: Sequence[str]) -> dict[str, float]:
    """Returns what a model that knows nothing reaches in each of ``measures`` that is better when higher."""
    return {
        measure: value.chance
        for measure in measures
        for plan in findings.plans
        for value in findings.measured(plan.name, measure).values()
        if value.chance is not None and value.higher_is_better
    }


def _claims(findings: Findings) -> Figure | None:
    """Returns the differences of all steps of the claims over seeds; None without intervals."""
    rows = [
        Interval(step.pair, "difference", step.difference, *step.over_seeds, mark)
        for verdict in findings.decisions
        for step in verdict.steps
        if step.difference is not None and step.over_seeds is not None
        for mark in ["*" if step.verdict in (CONFIRMED, CONTRADICTED) else ""]
    ]
    return forest("claims", rows, "higher − lower")


def _mean_curve(findings: Findings, arm: str) -> Points:
    """Returns the mean validation loss of the seeds of ``arm`` at the steps that all of them have."""
    curves: list[Mapping[float, float]] = [
        dict(run.reading.curve) for run in findings.runs if run.arm == arm and run.reading is not None
    ]
    steps = sorted(set[float].intersection(*map(set, curves))) if curves else []
    return [(step, statistics.fmean(curve[step] for curve in curves)) for step in steps]

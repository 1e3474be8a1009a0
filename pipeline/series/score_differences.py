"""The differences of the scores of runs from those of the first one, with tests of significance.

    benchmark  shots  metric  items  A                     B                     B − A                 p
    piqa           0  acc     1,838  61.0 % [58.8, 63.2]   63.4 % [61.2, 65.6]   +2.4 % [+0.9, +3.9]   0.0021 **

The others are compared with the first run, over the items that both answered (significance.py).
"""

import dataclasses
import itertools
from collections.abc import Iterator, Sequence

from headrace.pipeline.report.figures.forest import Interval
from headrace.pipeline.series.contestants import Contestant
from headrace.train.evaluation.score_rows import Metric, MetricKind, kind_of
from headrace.train.evaluation.significance import Difference, difference_of, holm, mark


@dataclasses.dataclass(frozen=True)
class ComparedMetric:
    """One metric of one benchmark."""

    benchmark: str
    shots: int
    kind: MetricKind
    metrics: Sequence[Metric | None]
    """The metric of each run."""
    differences: Sequence[Difference | None]
    """The difference of each run but the first from the first; None when no outcomes give it."""

    def text(self, value: float, sign: str = "") -> str:
        """Returns ``value`` in the unit of the row's heading."""
        return f"{self.kind.scale * value:{sign}{'.2f' if self.kind.unit else '.4g'}}"


def compared_metrics(runs: Sequence[Contestant]) -> Iterator[ComparedMetric]:
    """Yields every metric that at least two runs have, by the benchmarks' names and their shots."""
    known = {name: scores for run in runs for name, scores in run.benchmarks.items()}
    for benchmark in sorted(known, key=lambda name: known[name].order):
        scored = [run.benchmarks[benchmark] for run in runs if benchmark in run.benchmarks]
        outcomes = [run.outcomes(benchmark) for run in runs]
        for name in dict.fromkeys(metric.name for scores in scored for metric in scores.whole):
            metrics, kind = [run.metric(benchmark, name) for run in runs], kind_of(name)
            if sum(metric is not None for metric in metrics) >= 2:
                others = [difference_of(kind, outcomes[0], own) for own in outcomes[1:]]
                yield ComparedMetric(benchmark, scored[0].shots, kind, metrics, others)


def header(runs: Sequence[Contestant]) -> list[str]:
    """Returns the names of the columns."""
    first, *others = [run.name for run in runs]
    return ["benchmark", "shots", "metric", "items", first, *itertools.chain(*([n, f"− {first}", "p"] for n in others))]


def cells(rows: Sequence[ComparedMetric]) -> list[list[str]]:
    """Returns the rows as text, with stars after Holm's correction over each column."""
    return [_line(row, adjusted) for row, adjusted in zip(rows, adjusted_p_values(rows), strict=True)]


def intervals(runs: Sequence[Contestant], rows: Sequence[ComparedMetric], is_share: bool) -> list[Interval]:
    """Returns differences for a figure: of accuracies, in percentage points (``is_share``), or of all other metrics."""
    figure_rows = []
    for row, adjusted in zip(rows, adjusted_p_values(rows), strict=True):
        for run, difference, p in zip(runs[1:], row.differences, adjusted, strict=True):
            if difference is not None and p is not None and row.kind.is_share == is_share:
                value, low, high = (row.kind.scale * end for end in (difference.value, *difference.interval))
                figure_rows.append(Interval(f"{row.benchmark} {row.kind.name}", run.name, value, low, high, mark(p)))
    return figure_rows


def adjusted_p_values(rows: Sequence[ComparedMetric]) -> list[tuple[float | None, ...]]:
    """Returns for each row the p-values of its differences, after Holm's correction over each column."""
    adjusted = []
    for column in zip(*(row.differences for row in rows), strict=True):
        p_values = iter(holm([difference.p for difference in column if difference is not None]))
        adjusted.append([None if difference is None else next(p_values) for difference in column])
    return list(zip(*adjusted, strict=True))


def _line(row: ComparedMetric, adjusted: Sequence[float | None]) -> list[str]:
    known = next(metric for metric in row.metrics if metric is not None)
    first, *others = [_value(row, metric) for metric in row.metrics]
    line = [row.benchmark, str(row.shots), row.kind.heading, f"{known.items:,}", first]
    for value, difference, p in zip(others, row.differences, adjusted, strict=True):
        line.append(value)
        if difference is None or p is None:
            line += ["–", "–"]
            continue
        low, high = (row.text(end, "+") for end in difference.interval)
        line += [f"{row.text(difference.value, '+')} [{low}, {high}]", f"{difference.p:.2g} {mark(p)}".rstrip()]
    return line


def _value(row: ComparedMetric, metric: Metric | None) -> str:
    if metric is None:
        return "–"
    ends = "" if metric.interval is None else f" [{', '.join(row.text(end) for end in metric.interval)}]"
    return row.text(metric.value) + ends

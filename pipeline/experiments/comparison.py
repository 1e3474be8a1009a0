"""Runs side by side on the terminal and on a page: what ``headrace compare`` shows.

    benchmark  shots  metric  items  A                     B                     B − A                 p
    piqa           0  acc     1,838  61.0 % [58.8, 63.2]   63.4 % [61.2, 65.6]   +2.4 % [+0.9, +3.9]   0.0021 **

The others are compared with the first run, over the items that both answered (core/statistics.py).
"""

import dataclasses
import itertools
from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path

from headrace.pipeline.command_line.result_files import write_files
from headrace.pipeline.core.statistics import Difference, holm, mark
from headrace.pipeline.experiments.arms import TextTable
from headrace.pipeline.experiments.contestants import (
    Contestant,
    differing_settings,
    differing_stages,
    document_lines,
    parameter_lines,
    training_lines,
)
from headrace.pipeline.output.terminal import show_lines
from headrace.pipeline.report.drawing import Figure, losses
from headrace.pipeline.report.score_figures import Interval, forest
from headrace.pipeline.report.training_section import series
from headrace.train.evaluation.score_rows import Metric, MetricKind, difference_of, kind_of


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
    return [
        "benchmark",
        "shots",
        "metric",
        "items",
        first,
        *itertools.chain(*([n, f"{n} − {first}", "p"] for n in others)),
    ]


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


NOTE = (
    "In [brackets]: 95 % intervals. p: McNemar's exact test for right or wrong, paired bootstrap else; after Holm's "
    "correction over the column * < 0.05, ** < 0.01, *** < 0.001. Differences of perplexity are of its logarithm. "
    "An item is one question, or one held-out document of a loss. p is over items alone, without the differences "
    "between training seeds: for those, train each run with -m training.seed=1,2,3."
)
EQUAL = "All stages of the runs are the same artifacts: they have the same settings and data."
NamedTable = tuple[str, str, TextTable]
"""The id of a table on the page, its heading, and the table."""


@dataclasses.dataclass(frozen=True)
class RunComparison:
    """All that differs between runs, and the tests of their scores."""

    runs: Sequence[Contestant]

    @cached_property
    def rows(self) -> list[ComparedMetric]:
        """The metrics that two of the runs have."""
        return list(compared_metrics(self.runs))

    def differences(self) -> list[NamedTable]:
        """Returns the settings, the first stages, the documents and the measures that differ, as far as any do.

        Where models differ in size, the measures are their parameters, and where a run has no scores, what was measured
        last in training.
        """
        runs, measures = self.runs, parameter_lines(self.runs)
        if any(run.scores is None for run in runs):
            measures += training_lines(runs)
        tables = (
            ("settings", "Settings that differ", "setting", differing_settings(runs)),
            ("stages", "Stages at which the runs part", "first stage that differs", differing_stages(runs)),
            ("documents", "Documents", "documents", document_lines(runs)),
            ("measures", "Models", "measure", measures),
        )
        names = [run.name for run in runs]
        return [(id, heading, [[title, *names], *lines]) for id, heading, title, lines in tables if lines]

    def scores(self) -> list[NamedTable]:
        """Returns the table of the scores; none where no two runs have a metric."""
        return [("table", "Scores", [header(self.runs), *cells(self.rows)])] if self.rows else []

    def equality(self) -> list[str]:
        """Returns the sentence about runs with the same stages; none for others."""
        runs = self.runs
        return [EQUAL] if all(run.addresses for run in runs) and not differing_stages(runs) else []

    def note(self) -> list[str]:
        """Returns the sentence below the scores, or the benchmarks of runs that have no metric in common."""
        if self.rows:
            return [NOTE]
        benchmarks = "; ".join(f"{run.name} has {', '.join(run.benchmarks) or 'none'}" for run in self.runs)
        none = f"No benchmark is common to two of the runs: {benchmarks}."
        return [none] if any(run.weights for run in self.runs) else []

    def show(self) -> None:
        """Prints the tables, each with the sentences about it."""
        parts: list[TextTable | str] = [table for _, _, table in self.differences()]
        parts += [*self.equality(), *(table for _, _, table in self.scores()), *self.note()]
        for number, part in enumerate(parts):
            if number:
                print()
            if isinstance(part, str):
                print(part)
            else:
                show_lines(part[0], part[1:])

    def page_values(self) -> dict[str, object]:
        """Returns the values of the template of the page. The scores have no column of shots where all are 0."""
        names = [run.name for run in self.runs]
        scores = self.scores()
        if all(not row.shots for row in self.rows):
            scores = [(id, heading, [[line[0], *line[2:]] for line in table]) for id, heading, table in scores]
        return {
            "title": ", ".join(names),
            "lede": f"Headrace comparison of {len(names)} runs · compared with {names[0]}",
            "facts": [],
            "notes": [*self.equality(), *self.note()],
            "figures": comparison_figures(self),
            "tables": [*self.differences(), *scores],
        }


def show(runs: Sequence[Contestant], page: Path | None) -> None:
    """Prints the differences of ``runs``: settings, first stages, documents, scores; writes them to ``page``, too."""
    comparison = RunComparison(runs)
    comparison.show()
    write_files(None, None, page, comparison.page_values)


def comparison_figures(comparison: RunComparison) -> list[tuple[Figure, str]]:
    """Returns the losses of the runs and the differences of their scores, each with its caption."""
    runs, first = comparison.runs, comparison.runs[0].name
    shares, others = (intervals(runs, comparison.rows, is_share) for is_share in (True, False))
    logs = {run.name: run.logged for run in runs}
    curves = {name: series(rows, "validation_loss") or series(rows, "loss") for name, rows in logs.items() if rows}
    drawn: list[tuple[Figure | None, str]] = [
        (losses(curves), "Mean negative log-likelihood of a held-out token over the steps of each training; of a "
         "training token if nothing was held out."),
        (forest("shares", shares, f"percentage points more than {first}"), "Differences in shares of right answers, "
         "with 95 % intervals. A run is better to the right of the line. Hollow marks are not significant."),
        (forest("others", others, f"more than {first}, in the units of the table"), "Differences in other metrics: "
         "losses in nats, perplexities as logarithms. If lower is better, as for losses, a run is better to the left "
         "of the line."),
    ]  # fmt: skip
    return [(figure, caption) for figure, caption in drawn if figure is not None]

"""Runs side by side on the terminal and on a page: what ``headrace compare`` shows.

    benchmark  shots  metric  items  A                     B                     B − A                 p
    piqa           0  acc     1,838  61.0 % [58.8, 63.2]   63.4 % [61.2, 65.6]   +2.4 % [+0.9, +3.9]   0.0021 **

The others are compared with the first run, over the items that both answered (core/statistics.py).
"""

import dataclasses
import itertools
from collections.abc import Iterator, Sequence
from pathlib import Path

from headrace.pipeline.command_line.result_files import write_file
from headrace.pipeline.core.statistics import LEVEL, POWER, Difference, holm, mark
from headrace.pipeline.experiments.contestants import (
    Contestant,
    differing_settings,
    differing_stages,
    document_lines,
    parameter_lines,
    training_lines,
)
from headrace.pipeline.experiments.signal_and_noise import signal_table
from headrace.pipeline.output.terminal import show_lines
from headrace.pipeline.report import score_pages
from headrace.pipeline.report.score_figures import Interval
from headrace.train.evaluation.score_rows import BenchmarkScores, Metric, MetricKind, difference_of, kind_of


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


HeadAndRows = tuple[list[str], list[list[str]]]
"""The names of the columns, then the rows."""


def items_needed(runs: Sequence[Contestant], rows: Sequence[ComparedMetric]) -> HeadAndRows:
    """Returns a line for each difference that is not significant: the items it has, and those it would need."""
    head = ["not significant", "metric", "runs", "difference", "items", "items needed"]
    lines = [
        [
            row.benchmark,
            row.kind.heading,
            f"{run.name} − {runs[0].name}",
            row.text(difference.value, "+"),
            f"{difference.items:,}",
            f"{needed:,}",
        ]
        for row in rows
        for run, difference in zip(runs[1:], row.differences, strict=True)
        if difference is not None and difference.p >= LEVEL and (needed := difference.items_needed)
    ]
    return head, lines


FIRST_STAGE = "first stage that differs"
EQUAL = "All stages of the runs are the same artifacts: they have the same settings and data."
NOTE = (
    "In [brackets]: 95 % intervals. p: McNemar's exact test for right or wrong, paired bootstrap else; after Holm's "
    "correction over the column * < 0.05, ** < 0.01, *** < 0.001. Differences of perplexity are of its logarithm. "
    "An item is one question, or one held-out document of a loss. p is over items alone, without the differences "
    "between training seeds: for those, train each run with -m training.seed=1,2,3."
)
EVIDENCE = (
    f"Items needed: in {POWER:.0%} of samples of so many items, a difference of this size has p < {LEVEL}. Signal: the "
    "largest difference between two models. Noise: the standard deviation over the last checkpoints, and over seeds."
)


def show(runs: Sequence[Contestant], page: Path | None) -> None:
    """Prints what differs between ``runs``: settings, first stages, documents, and their scores; all to ``page``, too.

    Where models differ in size, it prints their parameters, and where a run has no scores, what was measured last in
    training.
    """
    names = [run.name for run in runs]
    settings, stages, documents = differing_settings(runs), differing_stages(runs), document_lines(runs)
    rows = list(compared_metrics(runs))
    head, body = header(runs), cells(rows)
    nothing = "" if rows else nothing_in_common(runs)
    measured = parameter_lines(runs) + (training_lines(runs) if any(run.scores is None for run in runs) else [])
    tables = [("setting", settings), (FIRST_STAGE, stages), ("documents", documents), ("measure", measured)]
    parts: list[HeadAndRows | str] = [([title, *names], lines) for title, lines in tables if lines]
    if not stages and all(run.addresses for run in runs):
        parts.append(EQUAL)
    if rows:
        parts += [(head, body), NOTE]
    elif any(run.weights for run in runs):
        parts.append(nothing)
    evidence = [table for table in (items_needed(runs, rows), signal_table(runs)) if table[1]]
    parts += [*evidence, EVIDENCE] if evidence else []
    for number, part in enumerate(parts):
        if number:
            print()
        if isinstance(part, str):
            print(part)
        else:
            show_lines(*part)
    if page is not None:
        shares, others = intervals(runs, rows, True), intervals(runs, rows, False)
        figures = score_pages.Figures.of(_scores(runs), {run.name: run.logged for run in runs}, shares, others)
        differences = score_pages.Differences(settings, stages, documents, measured)
        below = score_pages.ScoreTables([head, *body], nothing or NOTE, evidence, EVIDENCE)
        text = score_pages.render_comparison(names, differences, below, figures)
        write_file(page, text)
        print(f"\npage: {page}")


def nothing_in_common(runs: Sequence[Contestant]) -> str:
    """Returns the sentence for runs without a common metric, with the benchmarks that each has."""
    benchmarks = "; ".join(f"{run.name} has {', '.join(run.benchmarks) or 'none'}" for run in runs)
    return f"No benchmark is common to two of the runs: {benchmarks}."


def _scores(runs: Sequence[Contestant]) -> dict[str, list[BenchmarkScores]]:
    return {run.name: list(run.benchmarks.values()) for run in runs}

"""Runs side by side on the terminal and on a page: what ``headrace compare`` shows."""

from collections.abc import Sequence
from pathlib import Path

from headrace.pipeline.command_line.result_files import write_file
from headrace.pipeline.output.facts import show_lines
from headrace.pipeline.report import compare_page
from headrace.pipeline.series.contestants import (
    Contestant,
    differing_settings,
    differing_stages,
    document_lines,
    training_lines,
)
from headrace.pipeline.series.score_differences import cells, compared_metrics, header, intervals
from headrace.train.evaluation.score_rows import BenchmarkScores

HeadAndRows = tuple[list[str], list[list[str]]]
"""The names of the columns, then the rows."""
FIRST_STAGE = "first stage that differs"
EQUAL = "All stages of the runs are the same artifacts: they have the same settings and data."
NOTE = (
    "In [brackets]: 95 % intervals. p: McNemar's exact test for right or wrong, paired bootstrap else; after Holm's "
    "correction over the column * < 0.05, ** < 0.01, *** < 0.001. Differences of perplexity are of its logarithm."
)


def show(runs: Sequence[Contestant], page: Path | None) -> None:
    """Prints what differs between ``runs``: settings, first stages, documents, and their scores; all to ``page``, too.

    Where a run has no scores, it prints what was measured last in training.
    """
    names = [run.name for run in runs]
    settings, stages, documents = differing_settings(runs), differing_stages(runs), document_lines(runs)
    rows = list(compared_metrics(runs))
    head, body = header(runs), cells(rows)
    nothing = "" if rows else nothing_in_common(runs)
    measured = training_lines(runs) if any(run.scores is None for run in runs) else []
    tables = [("setting", settings), (FIRST_STAGE, stages), ("documents", documents), ("measure", measured)]
    parts: list[HeadAndRows | str] = [([title, *names], lines) for title, lines in tables if lines]
    if not stages and all(run.addresses for run in runs):
        parts.append(EQUAL)
    if rows:
        parts += [(head, body), NOTE]
    elif any(run.weights for run in runs):
        parts.append(nothing)
    for number, part in enumerate(parts):
        if number:
            print()
        if isinstance(part, str):
            print(part)
        else:
            show_lines(*part)
    if page is not None:
        shares, others = intervals(runs, rows, True), intervals(runs, rows, False)
        figures = compare_page.Figures.of(_scores(runs), {run.name: run.logged for run in runs}, shares, others)
        differences = compare_page.Differences(settings, stages, documents)
        text = compare_page.render(names, differences, [head, *body], nothing or NOTE, figures)
        write_file(page, text)
        print(f"\npage: {page}")


def nothing_in_common(runs: Sequence[Contestant]) -> str:
    """Returns the sentence for runs without a common metric, with the benchmarks that each has."""
    benchmarks = "; ".join(f"{run.name} has {', '.join(run.benchmarks) or 'none'}" for run in runs)
    return f"No benchmark is common to two of the runs: {benchmarks}."


def _scores(runs: Sequence[Contestant]) -> dict[str, list[BenchmarkScores]]:
    return {run.name: list(run.benchmarks.values()) for run in runs}

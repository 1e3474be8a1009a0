"""Runs side by side on the terminal and on a page: what ``headrace compare`` shows."""

from collections.abc import Sequence
from pathlib import Path

from headrace.pipeline.command_line.result_files import write_file
from headrace.pipeline.output.facts import show_lines
from headrace.pipeline.report import compare_page
from headrace.pipeline.series.contestants import Contestant, differing_settings, differing_stages, training_lines
from headrace.pipeline.series.score_differences import cells, compared_metrics, header, intervals
from headrace.train.evaluation.score_rows import BenchmarkScores

FIRST_STAGE = "first stage that differs"
EQUAL = "All stages of the runs are the same artifacts: they have the same settings and data."
NOTE = (
    "In [brackets]: 95 % intervals. p: McNemar's exact test for right or wrong, paired bootstrap else; after Holm's "
    "correction over the column * < 0.05, ** < 0.01, *** < 0.001. Differences of perplexity are of its logarithm."
)


def show(runs: Sequence[Contestant], page: Path | None) -> None:
    """Prints the settings and the first stages in which ``runs`` differ, and their scores; writes all to ``page``.

    Where a run has no scores, it prints what was measured last in training.
    """
    settings, stages, rows = differing_settings(runs), differing_stages(runs), list(compared_metrics(runs))
    head, body = header(runs), cells(rows)
    nothing = "" if rows else nothing_in_common(runs)
    if settings:
        show_lines(["setting", *(run.name for run in runs)], settings)
        print()
    if stages:
        show_lines([FIRST_STAGE, *(run.name for run in runs)], stages)
        print()
    elif all(run.addresses for run in runs):
        print(EQUAL, end="\n\n")
    if any(run.scores is None for run in runs):
        show_lines(["measure", *(run.name for run in runs)], training_lines(runs))
        print()
    if rows:
        show_lines(head, body)
        print("", NOTE, sep="\n")
    else:
        print(nothing)
    if page is not None:
        shares, others = intervals(runs, rows, True), intervals(runs, rows, False)
        figures = compare_page.Figures.of(_scores(runs), {run.name: run.metrics_log for run in runs}, shares, others)
        text = compare_page.render(
            [run.name for run in runs], settings, stages, [head, *body], nothing or NOTE, figures
        )
        write_file(page, text)
        print(f"\npage: {page}")


def nothing_in_common(runs: Sequence[Contestant]) -> str:
    """Returns the sentence for runs without a common metric, with the benchmarks that each has."""
    benchmarks = "; ".join(f"{run.name} has {', '.join(run.benchmarks) or 'none'}" for run in runs)
    return f"No benchmark is common to two of the runs: {benchmarks}."


def _scores(runs: Sequence[Contestant]) -> dict[str, list[BenchmarkScores]]:
    return {run.name: list(run.benchmarks.values()) for run in runs}

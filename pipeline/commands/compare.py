"""``headrace compare``: settings, losses and scores of runs side by side, with tests of the differences of scores.

headrace compare small large                        runs by their names, ids, beginnings of ids, or paths
headrace compare runs/folder_scores/77aa… runs/scores/0c1d…    folders of scores; 77aa… has the name of its model
headrace compare A B --only piqa,arc_easy           some benchmarks, or one of your own alone
headrace compare A B C > table.md                   Markdown when the output is not a terminal
headrace compare A B C --page comparison.html       with loss curves and figures (compare_page.py)

    setting                  A       B
    optimizer.learning_rate  0.0003  0.0006

    benchmark  shots  metric  items  A                     B                     B − A                 p
    piqa           0  acc     1,838  61.0 % [58.8, 63.2]   63.4 % [61.2, 65.6]   +2.4 % [+0.9, +3.9]   0.0021 **

    measure          A      B               where a run has no scores yet
    validation loss  3.417  3.402

The others are compared with the first run, over the items that both answered (significance.py).
Stars mark p-values after Holm's correction over all rows of a column; p itself is not corrected.
"""

from collections.abc import Sequence
from pathlib import Path

import click

from headrace.pipeline.command_line.declaration import NewFile, command
from headrace.pipeline.command_line.facts import show_lines
from headrace.pipeline.command_line.request import config_of
from headrace.pipeline.command_line.result_files import write_file
from headrace.pipeline.config import RunConfig
from headrace.pipeline.report import compare_page
from headrace.pipeline.series.contestants import (
    Contestant,
    contestants,
    differing_settings,
    refuse_unknown,
    restricted,
    training_lines,
)
from headrace.pipeline.series.score_differences import cells, compared_metrics, header, intervals
from headrace.train.evaluation.score_rows import (
    BenchmarkScores,
)

NOTE = (
    "In [brackets]: 95 % intervals. p: McNemar's exact test for right or wrong, paired bootstrap else; after Holm's "
    "correction over the column * < 0.05, ** < 0.01, *** < 0.001. Differences of perplexity are of its logarithm."
)


@command
@click.argument("first", metavar="RUN")
@click.argument("second", metavar="RUN")
@click.argument("others", metavar="[RUN ...]", nargs=-1)
@click.option("--only", metavar="NAMES", default="", help="Compare these benchmarks only, separated by commas.")
@click.option("--page", metavar="FILE", type=NewFile(), help="Write a page with figures, too.")
def compare(
    overrides: Sequence[str], first: str, second: str, others: Sequence[str], only: str, page: Path | None
) -> None:
    """Prints the scores of runs (names, ids or folders) side by side, with tests of the differences from the first."""
    wanted = [name.strip() for name in only.split(",") if name.strip()]
    show(config_of(overrides), [first, second, *others], wanted, page)


def show(config: RunConfig, wanted: Sequence[str], only: Sequence[str], page: Path | None) -> None:
    """Prints the settings that differ and the scores of the runs that ``wanted`` names; writes both to ``page``.

    Where a run has no scores, it prints what was measured last in training.
    """
    runs = [restricted(run, only) for run in contestants(wanted, config.root)]
    refuse_unknown(only, runs, wanted, config.root)
    settings, rows = differing_settings(runs), list(compared_metrics(runs))
    head, body = header(runs), cells(rows)
    nothing = "" if rows else nothing_in_common(runs)
    if settings:
        show_lines(["setting", *(run.name for run in runs)], settings)
        print()
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
        text = compare_page.render([run.name for run in runs], settings, [head, *body], nothing or NOTE, figures)
        write_file(page, text)
        print(f"\npage: {page}")


def nothing_in_common(runs: Sequence[Contestant]) -> str:
    """Returns the sentence for runs without a common metric, with the benchmarks that each has."""
    each = "; ".join(f"{run.name} has {', '.join(run.benchmarks) or 'none'}" for run in runs)
    return f"No benchmark is common to two of the runs: {each}."


def _scores(runs: Sequence[Contestant]) -> dict[str, list[BenchmarkScores]]:
    return {run.name: list(run.benchmarks.values()) for run in runs}

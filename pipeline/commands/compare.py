"""``headrace compare``: what differs between runs: settings, data, documents, losses, and scores with tests.

headrace compare small large                        runs by their names, ids, beginnings of ids, or paths
headrace compare runs/folder_scores/77aa… runs/scores/0c1d…    folders of scores; 77aa… has the name of its model
headrace compare A B --only piqa,arc_easy           some benchmarks, or one of your own alone
headrace compare A B C > table.md                   Markdown when the output is not a terminal
headrace compare A B C --page comparison.html       with loss curves and figures

    setting                  A                            B
    optimizer.learning_rate  0.0003                       0.0006
    texts.raw_files          1 file, 20 kB; a.jsonl 1f0c… 1 file, 21 kB; a.jsonl 77aa…    the same paths, other data

    first stage that differs  A             B
    texts                     1f0c3a5b7d9e  77aa3c4d5e6f

    documents                             A      B         and the rules that dropped other numbers
    records read                          55,303  55,303
    kept by cleaning                      20,875  21,342
    clean: dropped by c4_lines.sentences  9,017   8,550

    benchmark  shots  metric  items  A                     B                     B − A                 p
    piqa           0  acc     1,838  61.0 % [58.8, 63.2]   63.4 % [61.2, 65.6]   +2.4 % [+0.9, +3.9]   0.0021 **

    measure          A      B               where a run has no scores yet
    validation loss  3.417  3.402

The others are compared with the first run, over the items that both answered (core/statistics.py).
Stars mark p-values after Holm's correction over all rows of a column; p itself is not corrected.
"""

from collections.abc import Sequence
from pathlib import Path

import click

from headrace.pipeline.command_line.declaration import Existing, NewFile, command
from headrace.pipeline.command_line.request import config_of
from headrace.pipeline.experiments import comparison
from headrace.pipeline.experiments.comparison import contestants, restricted


@command
@click.argument("first", metavar="RUN", type=Existing())
@click.argument("second", metavar="RUN", type=Existing())
@click.argument("others", metavar="[RUN ...]", nargs=-1, type=Existing())
@click.option("--only", metavar="NAMES", default="", help="Compare these benchmarks only, separated by commas.")
@click.option("--page", metavar="FILE", type=NewFile(), help="Write a page with figures, too.")
def compare(
    overrides: Sequence[str], first: str, second: str, others: Sequence[str], only: str, page: Path | None
) -> None:
    """Prints the scores of runs (names, ids or folders) side by side, with tests of the differences from the first."""
    wanted = [name.strip() for name in only.split(",") if name.strip()]
    runs = contestants([first, second, *others], config_of(overrides).root)
    comparison.show(restricted(runs, wanted), page)

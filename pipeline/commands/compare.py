"""``headrace compare``: what differs between runs, between two presets of cleaning, or with another threshold.

headrace compare small large                        runs by their names, ids, beginnings of ids, or paths
headrace compare runs/folder_scores/77aa… runs/scores/0c1d…    folders of scores; 77aa… has the name of its model
headrace compare A B --only piqa,arc_easy           some benchmarks, or one of your own alone
headrace compare A B C > table.md                   Markdown when the output is not a terminal
headrace compare A B C --page comparison.html       with loss curves and figures
headrace compare c4 fineweb --as cleaning           which texts of the newest run each preset keeps, by which rules
headrace compare c4 none --as cleaning --sample 5 --run small    five samples of each rule that makes a difference
headrace compare gopher_quality.word_count --as threshold --at 30    how many of the pages it dropped 30 would drop
headrace compare column.quality --as threshold      the values that keep each share of the documents of unique

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

A cleaning that is not finished is computed first, on this machine, as by ``headrace cleaning=fineweb until=clean``. A
threshold needs no computation: each dropped page stores the number by which it failed. Pages that the rule kept have no
stored number, except for languages, so a stricter threshold needs a run: its command is printed. Of a column, min and
max are those of the rule threshold of selection.rules.
"""

from collections.abc import Sequence
from pathlib import Path

import click

from headrace.pipeline.command_line.declaration import WHERE, Existing, NewFile, command, run_option
from headrace.pipeline.command_line.request import config_of, run_of
from headrace.pipeline.core.errors import ConfigError
from headrace.pipeline.core.settings import Natural, value_of
from headrace.pipeline.documents.cleaning_effects import cleaned, preset_facts, threshold_facts
from headrace.pipeline.experiments import comparison
from headrace.pipeline.experiments.comparison import contestants, restricted
from headrace.pipeline.output import terminal

SAMPLES = "2"
TAKES = {"run": ("only", "page"), "cleaning": ("sample", "run"), "threshold": ("at", "run")}
"""The options that belong to each kind of comparison."""
NEEDS = {
    "run": (2, "two runs", "RUN RUN [RUN ...]"),
    "cleaning": (2, "two presets", "PRESET PRESET --as cleaning"),
    "threshold": (1, "one rule", "RULE --as threshold [--at NUMBER]"),
}
"""The number of names of each kind of comparison, in words, and its usage."""


@command
@click.argument("names", metavar="RUN...|PRESET PRESET|RULE", nargs=-1, required=True, type=Existing())
@click.option("--as", "kind", type=click.Choice(["cleaning", "threshold"]), help="Compare presets, or a threshold.")
@click.option("--only", metavar="NAMES", default="", help="Of runs: these benchmarks only, separated by commas.")
@click.option("--page", metavar="FILE", type=NewFile(), help="Of runs: write a page with figures, too.")
@click.option("--sample", metavar="N", default="", help="Of presets: samples of each rule that makes a difference (2).")
@click.option("--at", metavar="NUMBER", default="", help="Of a rule or column: the other threshold.")
@run_option
def compare(
    overrides: Sequence[str],
    names: Sequence[str],
    kind: str | None,
    only: str,
    page: Path | None,
    sample: str,
    at: str,
    run: str,
) -> None:
    """Prints what differs: scores and data of runs, texts that two presets keep, or what another threshold drops."""
    kind = kind or "run"
    given = {"only": only, "page": page, "sample": sample, "at": at, "run": run}
    if others := [name for name, value in given.items() if value and name not in TAKES[kind]]:
        right = next(way for way, options in TAKES.items() if others[0] in options)
        raise ConfigError(f"--{others[0]}", f"says nothing of a {kind}", f"give --as {right}")
    number, needed, usage = NEEDS[kind]
    if len(names) != number and not (kind == "run" and len(names) > number):
        raise ConfigError(WHERE, f"compare needs {needed}", f"usage: headrace compare {usage}")
    if kind == "run":
        wanted = [name.strip() for name in only.split(",") if name.strip()]
        comparison.show(restricted(contestants(names, config_of(overrides).root), wanted), page)
    elif kind == "cleaning":
        number, base = int(value_of(Natural, sample or SAMPLES, "--sample")), run_of(overrides, run)
        with cleaned(base, overrides, names[0]) as first, cleaned(base, overrides, names[1]) as second:
            terminal.show(preset_facts(names, (first, second), number))
    else:
        terminal.show(threshold_facts(run_of(overrides, run), names[0], at))

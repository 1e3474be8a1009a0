"""``headrace study``: the arms of a question, each with several seeds, and a verdict by a rule written before.

headrace study                                  lists the studies and their arms
headrace study cleaning --show             arms, what is held equal, the rule and the cost; starts nothing
headrace study cleaning --seeds 5 --page study.html
headrace study cleaning --size small cluster=slurm training.precision=bf16

A study is a file of conf/study/, or of the folder study/ of --config-dir (docs/studies.md). Each arm is a run for each
seed: when the command was killed, or jobs on a cluster have ended, the same command goes on, and computes nothing
twice. A run that fails does not stop the others. Overrides apply to all arms, ``--arm c4:cleaning.buckets=4`` to one.
"""

from collections.abc import Sequence
from pathlib import Path

import click

from headrace.pipeline.command_line.declaration import NewFile, command, load


@command
@click.argument("name", metavar="[NAME]", required=False, default="")
@click.option("--seeds", metavar="NUMBER", default="3", help="Runs of each arm; 3 without it.")
@click.option("--size", metavar="SIZE", default="tiny", help="tiny, small or paper; tiny without it.")
@click.option("--arm", metavar="ARM:KEY=VALUE", multiple=True, help="An override of one arm; may be given often.")
@click.option("--show", is_flag=True, help="Start nothing; show the arms, the rule and the cost.")
@click.option("--page", metavar="FILE", type=NewFile(), help="Write a page with figures.")
@click.option("--json", "json_file", metavar="FILE", type=NewFile(), help="Write the results as JSON.")
def study(
    overrides: Sequence[str],
    name: str,
    seeds: str,
    size: str,
    arm: Sequence[str],
    show: bool,
    page: Path | None,
    json_file: Path | None,
) -> None:
    """Carries out the arms of a study and decides its claims; lists the studies without a NAME."""
    if not name:
        load("experiments.study_results").show_studies(overrides)
    else:
        load("experiments.study_results").carry_out_study(
            name, overrides, seeds, size, page, json_file, starts=not show, of_arms=arm
        )

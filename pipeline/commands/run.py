"""``headrace run``: runs what is left to do, on this machine or as jobs on a SLURM cluster.

headrace experiment=demo                         the same as headrace run experiment=demo
headrace run                                     the settings of conf/config.yaml
headrace name=small experiment=demo               a run with a name, for headrace status small and other commands
headrace run --dry-run experiment=demo            what it would do; on a cluster the commands that submit its jobs
headrace -m optimizer.learning_rate=3e-4,6e-4    a sweep: one run for each combination of values

A sweep ends with a table of its runs: the settings that differ, the loss, the first accuracies, and the command that
compares them. With a name, its runs are named ``NAME-1``, ``NAME-2``, ….

The same settings under another name are the same run: it is found by each name that it was given. Settings that decide
no result (``training.micro_batch_rows``) make no other run. A submission that fails changes no run and no name.
"""

from collections.abc import Sequence

import click

from headrace.pipeline.command_line.declaration import command, load
from headrace.pipeline.core.errors import ConfigError


@command
@click.option("-m", "--multirun", is_flag=True, help="Run every combination of comma-separated values.")
@click.option("--dry-run", is_flag=True, help="Print what would be run or submitted, and write nothing.")
def run(overrides: Sequence[str], multirun: bool, dry_run: bool) -> None:
    """Runs what is left to do; headrace KEY=VALUE … means headrace run KEY=VALUE …."""
    if multirun and dry_run:
        raise ConfigError("--dry-run", "is given with -m", "give the values of one run")
    if multirun:
        load("experiments.arms").start_sweep(overrides)
    elif dry_run:
        load("command_line.run_start").show_run(overrides)
    else:
        load("run.workers").start_fork_server()  # it loads the stages while this process reads the settings
        load("command_line.run_start").start_run(overrides)

"""``headrace run``: runs what is left to do, on this machine or as jobs on a SLURM cluster.

headrace experiment=demo                         the same as headrace run experiment=demo
headrace run                                     the settings of conf/config.yaml
headrace name=small experiment=demo               a run with a name, for headrace status small and other commands
headrace -m optimizer.learning_rate=3e-4,6e-4    a sweep: one run for each combination of values

A sweep ends with a table of its runs: the settings that differ, the loss, the first accuracies, and the command that
compares them. With a name, its runs are named ``NAME-1``, ``NAME-2``, ….
"""

from collections.abc import Mapping, Sequence
from typing import Any

import click

from headrace.pipeline.commands.declaration import command
from headrace.pipeline.commands.request import planned
from headrace.pipeline.composition import compose, sweep
from headrace.pipeline.core.errors import HeadraceError
from headrace.pipeline.core.signals import Stop
from headrace.pipeline.run import arms
from headrace.pipeline.run.arms import Arm
from headrace.pipeline.run.line import carry_out
from headrace.pipeline.run.planner import Run


@command
@click.option("-m", "--multirun", is_flag=True, help="Run every combination of comma-separated values.")
def run(overrides: Sequence[str], multirun: bool) -> None:
    """Runs what is left to do; headrace KEY=VALUE … means headrace run KEY=VALUE …."""
    if not multirun:
        carry_out(planned(compose(overrides), overrides))
        return
    found: list[Arm] = []
    try:
        sweep(overrides, lambda values, own: start(values, own, found))
    finally:
        if found:
            arms.show(found)


def start(values: Mapping[str, Any], own: Sequence[str], found: list[Arm]) -> None:
    """Carries out one run of a sweep, with ``own`` overrides, and adds it to ``found``, also when it fails.

    Raises:
        HeadraceError: when it fails; the sweep goes on to the next.
    """
    if values["name"]:
        values = {**values, "name": f"{values['name']}-{len(found) + 1}"}
    one: Run | None = None
    try:
        one = planned(values, own)
        carry_out(one)
    except HeadraceError as error:
        found.append(Arm(own, one, f"failed: {error}"))
        raise
    except Stop:
        found.append(Arm(own, one, "stopped"))
        raise
    found.append(Arm(own, one, ""))

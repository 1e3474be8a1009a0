"""``headrace run``: runs what is left to do, on this machine or as jobs on a SLURM cluster.

headrace experiment=demo                         the same as headrace run experiment=demo
headrace run                                     the settings of conf/config.yaml
headrace -m optimizer.learning_rate=3e-4,6e-4    a sweep: one run for each combination of values
"""

from collections.abc import Sequence

import click

from headrace.pipeline.commands.declaration import command
from headrace.pipeline.commands.request import planned
from headrace.pipeline.composition import compose, sweep
from headrace.pipeline.run.line import carry_out


@command
@click.option("-m", "--multirun", is_flag=True, help="Run every combination of comma-separated values.")
def run(overrides: Sequence[str], multirun: bool) -> None:
    """Runs what is left to do; headrace KEY=VALUE … means headrace run KEY=VALUE …."""
    if multirun:
        sweep(overrides, lambda values, own: carry_out(planned(values, own)))
    else:
        carry_out(planned(compose(overrides), overrides))

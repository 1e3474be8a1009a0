"""``headrace mixtures``: trains many small models on the same sources with other weights; proposes the best weights.

headrace mixtures name=mix 'mixture.sources=[{name: web, weight: 3}, {name: wiki, weight: 1, packed: runs/packed/b8e4}]'

The same line with --runs 48 adds trainings to those that are finished, with --target wiki=1 it proposes the mixture
that learns wiki best, and with --show it shows the mixtures and their cost, and trains nothing.
The first training has the given weights, the second the shares that the sources have by their tokens, the others are
drawn around these. Each is a run: when the command was killed, or jobs on a cluster have ended, the same command goes
on, and computes nothing twice. A law of the held-out loss of each source by the shares (Ye et al. 2024) is fitted, and
the mixture with the lowest weighted loss is proposed, with its uncertainty. The weights of this loss are those of the
given mixture, or those of --target.
"""

from collections.abc import Sequence
from pathlib import Path

import click

from headrace.pipeline.command_line.declaration import NewFile, command, load
from headrace.pipeline.run.fork_server import start_early


@command
@click.option("--runs", metavar="NUMBER", default="24", show_default=True, help="Trainings.")
@click.option("--target", metavar="WEIGHTS", default="", help="NAME=WEIGHT of held-out losses, with commas.")
@click.option("--page", metavar="FILE", type=NewFile(), help="Write a page with figures.")
@click.option("--json", "json_file", metavar="FILE", type=NewFile(), help="Write the results as JSON.")
@click.option("--show", is_flag=True, help="Start nothing; show the mixtures, their cost and what is finished.")
def mixtures(
    overrides: Sequence[str], runs: str, target: str, page: Path | None, json_file: Path | None, show: bool
) -> None:
    """Trains small models on mixtures of the run's sources, and proposes the best mixture."""
    if not show:
        start_early(overrides)
    load("ladder.mixture_results").search(overrides, runs, target, page, json_file, not show)

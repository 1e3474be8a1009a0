"""``headrace ladder``: trains a grid of sizes, learning rates and token counts, and fits what follows from it.

headrace ladder --sizes 64,96,128 --rates 1e-3,2e-3,4e-3 --tokens 2e5,4e5,8e5 name=steps experiment=demo
headrace ladder --rates 1e-3,2e-3,4e-3,8e-3 experiment=demo          the best learning rate of one size
headrace ladder --sizes 64,96,128 --tokens 2e5,4e5,8e5 --budget 1e15 --page ladder.html experiment=demo
headrace ladder --sizes 64,96,128 --show experiment=demo             the grid and its cost; nothing is trained

A size is WIDTH or WIDTHxLAYERS of the run's model, whose heads keep their width, or an option of model. Each training
is a run: when the command was killed, or jobs on a cluster have ended, the same command goes on, and computes nothing
twice. All of them share their data.
A ladder gives the best rate of each size, the loss by parameters and tokens, and for a budget (FLOP, or GPU hours as
1000h) the size, the tokens and the rate. Parameters are all of a model, embeddings included, as headrace plan has them.
"""

from collections.abc import Sequence
from pathlib import Path

import click

from headrace.pipeline.command_line.declaration import NewFile, command, load


@command
@click.option("--sizes", metavar="SIZES", default="", help="WIDTH, WIDTHxLAYERS or options of model, with commas.")
@click.option("--rates", metavar="RATES", default="", help="Peak learning rates, separated by commas.")
@click.option("--tokens", metavar="NUMBERS", default="", help="Tokens of a training, separated by commas.")
@click.option("--budget", metavar="FLOP|HOURSh", default="", help="Recommend a training of these FLOP, or GPU hours.")
@click.option("--gpu", metavar="NAME", default="", help="The GPU of the hours; H100 without it.")
@click.option("--mfu", metavar="FRACTION", default="", help="Share of its peak that is reached; 0.4 without it.")
@click.option("--page", metavar="FILE", type=NewFile(), help="Write a page with figures.")
@click.option("--json", "json_file", metavar="FILE", type=NewFile(), help="Write the results as JSON.")
@click.option("--show", is_flag=True, help="Start nothing; show the grid, its cost and what is finished.")
def ladder(
    overrides: Sequence[str],
    sizes: str,
    rates: str,
    tokens: str,
    budget: str,
    gpu: str,
    mfu: str,
    page: Path | None,
    json_file: Path | None,
    show: bool,
) -> None:
    """Trains a grid of sizes, learning rates and token counts; fits the loss, and recommends for a budget."""
    climb = load("experiments.ladder_results").climb
    climb(overrides, (sizes, rates, tokens), (budget, gpu, mfu), page, json_file, starts=not show)

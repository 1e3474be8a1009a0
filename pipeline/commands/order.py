"""``headrace order``: the data of one training step: rows, the spans in them, and the pages that they come from.

headrace order --step 1200                        all rows of the 1,200th update, as metrics.jsonl counts them
headrace order --step 1200 --rank 3 --ranks 8     the rows that rank 3 of 8 reads

    step 1200 ── order ──> row 8123 of crawl ── packed ──> spans ── bounds ──> line 41 of unique/documents/00007

No training is needed: the order is a function of settings and artifacts; only that of a branch begins with its first
checkpoint. It holds for every training of this run, for any number of kills and ranks. Steps that were left out of the
weights because of a loss spike are listed in the checkpoints (train/loop/loss_guard.py).
"""

from collections.abc import Sequence

import click

from headrace.pipeline.command_line.declaration import command, run_option
from headrace.pipeline.command_line.request import run_of
from headrace.pipeline.documents.step_rows import explain
from headrace.pipeline.output import terminal


@command
@click.option("--step", metavar="STEP", required=True, help="The update, counted from 1.")
@click.option("--rank", metavar="RANK", default="", help="Only the rows of this rank, counted from 0.")
@click.option("--ranks", metavar="RANKS", default="", help="Number of ranks; that of the run without it.")
@run_option
def order(overrides: Sequence[str], step: str, rank: str, ranks: str, run: str) -> None:
    """Prints the rows, documents and URLs that training step STEP sees."""
    terminal.show(explain(run_of(overrides, run), step, rank, ranks))

"""``headrace overlaps``: the items of the run's benchmarks that training documents hold.

headrace overlaps                                        number of dirty items of each benchmark
headrace overlaps lambada                                the dirty items of one benchmark
headrace overlaps lambada/lambada_openai.jsonl.zst:17    the documents that hold this item, and their fate
"""

from collections.abc import Sequence

import click

from headrace.pipeline.command_line.declaration import command, run_option
from headrace.pipeline.command_line.request import run_of
from headrace.pipeline.documents.item_overlaps import explain
from headrace.pipeline.output import terminal


@command
@click.argument("item", metavar="[BENCHMARK|ITEM]", required=False, default="")
@run_option
def overlaps(overrides: Sequence[str], item: str, run: str) -> None:
    """Prints the items of the benchmarks that training documents hold: of all, of one benchmark, or one item."""
    terminal.show(explain(run_of(overrides, run).stages, item))

"""``headrace trace``: the page that a stored token comes from, by arithmetic over the bounds.

headrace trace 7 12

token shard 7      E t t t t t E t t E t t t E          searchsorted(bounds, 12, right) - 1 = 2:
offset             0           6     9     ^12          the third line of unique/documents/00007.jsonl.zst
bounds/00007.npy   0           6     9       13         is pages.jsonl:41
"""

from collections.abc import Sequence

import click

from headrace.pipeline.command_line.declaration import command, run_option
from headrace.pipeline.command_line.request import run_of
from headrace.pipeline.documents.token_origin import explain
from headrace.pipeline.output import terminal


@command
@click.argument("shard", metavar="SHARD")
@click.argument("offset", metavar="OFFSET")
@run_option
def trace(overrides: Sequence[str], shard: str, offset: str, run: str) -> None:
    """Prints the document that the token at OFFSET of token shard SHARD comes from."""
    terminal.show(explain(run_of(overrides, run).stages, shard, offset))

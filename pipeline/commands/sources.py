"""``headrace sources``: the passages of a text that stand in the training text, with the documents and the steps.

headrace sources text.txt                              a text of any origin, also a generated one
headrace sources - < text.txt                          the same, from the standard input
headrace sources text.txt --tokens 16 --run small      only passages of 16 tokens or more

    passage            turns the old stone wheel of the mill.
    tokens             9, from token 14 of the text on
    probability        10^-24.1 by the numbers of its tokens
    places             2 in the training text
    document           pages.jsonl:41 https://example.org/mill
    context            When the river is high, it[…] Then the miller
    steps              12, 40

A passage stands there token for token, inside one document, and is as long as possible. The training text is what the
steps of the run read, held-out documents are not in it. The passages with the rarest tokens come first.
"""

from collections.abc import Sequence

import click

from headrace.pipeline.command_line.declaration import command, run_option
from headrace.pipeline.command_line.request import run_of
from headrace.pipeline.command_line.text_options import text_of
from headrace.pipeline.core.settings import Positive, value_of
from headrace.pipeline.documents.text_sources import explain
from headrace.pipeline.output import terminal


@command
@click.argument("file", metavar="FILE|-", type=click.Path())
@click.option("--tokens", metavar="N", default="8", help="The fewest tokens of a passage; 8 without it.")
@click.option("--documents", metavar="N", default="3", help="The most documents of a passage; 3 without it.")
@run_option
def sources(overrides: Sequence[str], file: str, tokens: str, documents: str, run: str) -> None:
    """Prints the passages of the text in FILE that stand in the training text, with documents and steps."""
    least, most = value_of(Positive, tokens, "--tokens"), value_of(Positive, documents, "--documents")
    terminal.show(explain(run_of(overrides, run), text_of(file), least, most))

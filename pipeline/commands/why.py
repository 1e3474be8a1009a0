"""``headrace why``: the path of one document, stage by stage, with the rule and the value that decided.

headrace why numpy:2                        by its id
headrace why https://example.org/page       by its URL
headrace why crawl.warc.gz:7 --blocks       the blocks of the page, kept and left out, and what decided

    id or URL ── texts ──> readable | the reason why not
                   └─ clean ──> kept | dropped by a rule
                       └─ duplicates ──> its cluster: the survivor, or what was removed for it, with exact Jaccard
                           └─ unique, overlaps ──> kept | masked | dropped, with the benchmark items that it holds
                               └─ tokens ──> shard, tokens from E to E
                                   └─ packed ──> split, rows

Only finished artifacts are read; stages that are not finished are named.
"""

from collections.abc import Sequence

import click

from headrace.pipeline.command_line.declaration import command, run_option
from headrace.pipeline.command_line.request import run_of
from headrace.pipeline.documents.document_path import explain, explain_blocks
from headrace.pipeline.output import terminal


@command
@click.argument("document", metavar="DOCUMENT_ID|URL")
@click.option("--blocks", is_flag=True, help="The blocks of a page that was read from HTML, kept and left out.")
@run_option
def why(overrides: Sequence[str], document: str, blocks: bool, run: str) -> None:
    """Prints what became of a document: the rule that dropped it, its duplicates, its tokens and rows."""
    asked = run_of(overrides, run)
    told = explain_blocks if blocks else explain
    terminal.show(told(asked.stages, document, asked.label))

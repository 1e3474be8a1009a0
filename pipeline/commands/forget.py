"""``headrace forget``: the tokens and rows of documents that must not be trained on, and rows packed without them.

    ids, URLs ── keys of tokens ──> shard, from, to ── spans of packed ──> split, rows
       └── texts, clean, unique ──> dropped by …, unknown
    ids ──> <root>/forget/<hash>.txt = packing.forget ──> packed again from the same tokens

headrace forget --ids ids.txt      one id or URL a line; a URL names every document that has it

Ids of documents in tokens are found by their keys, without reading a text. The others, and URLs, take one pass over
clean and over the documents that texts and unique dropped.
"""

from collections.abc import Sequence
from pathlib import Path

import click

from headrace.pipeline.command_line.declaration import command, run_option
from headrace.pipeline.command_line.model_options import file_lines
from headrace.pipeline.command_line.request import run_of
from headrace.pipeline.core.errors import ConfigError
from headrace.pipeline.documents.forgetting import fate_facts, fates_of, outcome, seen_by, without
from headrace.pipeline.documents.lookup import need
from headrace.pipeline.output import terminal
from headrace.pipeline.run.run_execution import carry_out


@command
@click.option("--ids", metavar="FILE", required=True, type=click.Path(), help="A file of ids or URLs, one a line.")
@run_option
def forget(overrides: Sequence[str], ids: str, run: str) -> None:
    """Prints the tokens and rows of the documents that FILE lists, by id or URL, and packs again without them."""
    planned = run_of(overrides, run)
    names = dict.fromkeys(filter(None, map(str.strip, file_lines(Path(ids), "--ids", "id"))))
    if not names:
        raise ConfigError("--ids", f"there is no line in {ids!r}", "write ids or URLs into it, one a line")
    fates = fates_of(planned.stages, list(names))
    terminal.show(fate_facts(planned.stages, fates))
    if not any(fate.is_in_tokens for fate in fates):
        terminal.show([("forgotten", "nothing: no row holds any of them")])
        return
    ids_in_tokens = [fate.id for fate in fates if fate.is_in_tokens]
    seen = list(seen_by(Path(planned.config.root), need("tokens", planned.stages), ids_in_tokens))
    remaining = without(planned, fates)
    carry_out(remaining)
    terminal.show(outcome(remaining, fates, seen))

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
from headrace.pipeline.command_line.request import run_of
from headrace.pipeline.core.errors import ConfigError
from headrace.pipeline.core.text_files import plain_text
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
    fates = fates_of(planned.stages, read_lines(ids))
    terminal.show(fate_facts(planned.stages, fates))
    if not any(fate.is_in_tokens for fate in fates):
        terminal.show([("forgotten", "nothing: no row holds any of them")])
        return
    ids_in_tokens = [fate.id for fate in fates if fate.is_in_tokens]
    seen = list(seen_by(Path(planned.config.root), need("tokens", planned.stages), ids_in_tokens))
    remaining = without(planned, fates)
    carry_out(remaining)
    terminal.show(outcome(remaining, fates, seen))


def read_lines(file: str) -> list[str]:
    """Reads the lines of ``file``, without empty ones, spaces around them and repetitions.

    Raises:
        ConfigError: when it cannot be read or holds no line.
    """
    try:
        lines = plain_text(Path(file), "utf-8-sig").split("\n")
    except OSError as error:
        raise ConfigError("FILE", f"cannot read {file!r} ({error.strerror})", "name a file of ids or URLs") from None
    except UnicodeDecodeError as error:
        raise ConfigError("FILE", f"{file!r} is not UTF-8 (byte {error.start})", "convert it to UTF-8") from None
    names = list(dict.fromkeys(filter(None, map(str.strip, lines))))
    if not names:
        raise ConfigError("FILE", f"there is no line in {file!r}", "write ids or URLs into it, one a line")
    return names

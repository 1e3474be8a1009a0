"""``headrace similar``: the documents of ``clean`` that are similar to a text, through datasketch's index.

headrace similar page.txt          documents that share an LSH band with it, most similar first
headrace similar - < page.txt      the same, from the standard input
"""

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import click

from headrace.data_prep.dedup.similar import similar as similar_documents
from headrace.data_prep.text.words import words
from headrace.pipeline.command_line.declaration import command, run_option
from headrace.pipeline.command_line.request import run_of
from headrace.pipeline.core.errors import ConfigError
from headrace.pipeline.output import terminal
from headrace.pipeline.output.terminal import Fact
from headrace.pipeline.run.planned_stage import PlannedStage
from headrace.pipeline.tracing.lookup import need


@command
@click.argument("file", metavar="FILE|-", type=click.Path())
@run_option
def similar(overrides: Sequence[str], file: str, run: str) -> None:
    """Prints the documents of clean that are similar to the text in FILE."""
    terminal.show(explain(run_of(overrides, run).stages, file))


def explain(stages: Sequence[PlannedStage], file: str) -> Iterator[Fact]:
    """Yields exact and estimated Jaccard similarity and the id of each document that shares a band with ``file``.

    Raises:
        ConfigError: when ``file`` cannot be read, or holds no word.
        ArtifactError: when clean or signatures are not finished.
    """
    text = read_text(file)
    matches = similar_documents(text, signatures=need("signatures", stages), clean=need("clean", stages))
    for match in matches:
        yield "jaccard", f"{match.jaccard:.4f}  estimated {match.estimate:.4f}  {match.id}"
    if not matches:
        yield "similar", "none"


def read_text(file: str) -> str:
    """Reads the text of ``file``, or of the standard input for ``-``."""
    try:
        raw = sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()
    except OSError as error:
        raise ConfigError("FILE", f"cannot read {file!r} ({error.strerror})", "name a text file, or -") from None
    try:
        text = raw.decode()
    except UnicodeDecodeError as error:
        raise ConfigError("FILE", f"{file!r} is not UTF-8 (byte {error.start})", "convert it to UTF-8") from None
    if not words(text):
        raise ConfigError("FILE", f"there is no word in {file!r}", "give it a text")
    return text

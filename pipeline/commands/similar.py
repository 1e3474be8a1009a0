"""``headrace similar``: the documents of ``clean`` that are similar to a text, through datasketch's index.

headrace similar page.txt          documents that share an LSH band with it, most similar first
headrace similar - < page.txt      the same, from the standard input
"""

from collections.abc import Iterator, Sequence

import click

from headrace.data_prep.dedup.similar import similar as similar_documents
from headrace.data_prep.text.words import words
from headrace.pipeline.command_line.declaration import command, run_option
from headrace.pipeline.command_line.request import run_of
from headrace.pipeline.command_line.text_options import text_of
from headrace.pipeline.core.errors import ConfigError
from headrace.pipeline.documents.lookup import need
from headrace.pipeline.output import terminal
from headrace.pipeline.output.terminal import Fact
from headrace.pipeline.run.planned_stage import PlannedStage


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
    text = text_of(file)
    if not words(text):
        raise ConfigError("FILE", f"there is no word in {file!r}", "give it a text")
    matches = similar_documents(text, signatures=need("signatures", stages), clean=need("clean", stages))
    for match in matches:
        yield "jaccard", f"{match.jaccard:.4f}  estimated {match.estimate:.4f}  {match.id}"
    if not matches:
        yield "similar", "none"

"""``headrace why``: where training data comes from, and what became of it, stage by stage, with what decided.

headrace why numpy:2                           the path of a document, by its id
headrace why https://example.org/page          by its URL
headrace why crawl.warc.gz:7 --blocks          the blocks of the page, kept and left out, and what decided
headrace why 7:12 --as token                   the document of the token at offset 12 of token shard 7
headrace why 1200 --as step                    the rows, documents and URLs of the 1,200th update of metrics.jsonl
headrace why 1200 --as step --rank 3 --ranks 8     the rows that rank 3 of 8 reads
headrace why text.txt --as text                the passages of a text, also a generated one, that stand in training text
headrace why text.txt --as text --tokens 16    only passages of 16 tokens or more
headrace why page.txt --as page                the documents of clean that are similar to a page, most similar first
headrace why all --as item                     number of dirty items of each benchmark
headrace why lambada --as item                 the dirty items of one benchmark
headrace why lambada/lambada_openai.jsonl.zst:17 --as item     the documents that hold this item, and their fate

    id or URL ── texts ──> readable | the reason why not
                   └─ clean ──> kept | dropped by a rule
                       └─ duplicates ──> its cluster: the survivor, or what was removed for it, with exact Jaccard
                           └─ unique, overlaps ──> kept | masked | dropped, with the benchmark items that it holds
                               └─ tokens ──> shard, tokens from E to E
                                   └─ packed ──> split, rows

Only finished artifacts are read; stages that are not finished are named. A step needs no training: the order is a
function of settings and artifacts; only that of a branch begins with its first checkpoint. A passage stands in one
document token for token and is as long as possible; those with the rarest tokens come first, with the steps that read
them. A FILE of ``-`` is the standard input.
"""

from collections.abc import Iterator, Sequence

import click

from headrace.data_prep.dedup.similar import similar
from headrace.data_prep.text.words import words
from headrace.pipeline.command_line.declaration import command, run_option
from headrace.pipeline.command_line.model_options import text_of
from headrace.pipeline.command_line.request import run_of
from headrace.pipeline.core.errors import ConfigError
from headrace.pipeline.core.settings import Positive, value_of
from headrace.pipeline.documents.document_path import block_facts, document_facts, overlap_facts
from headrace.pipeline.documents.lookup import need
from headrace.pipeline.documents.passages import passage_facts, token_facts
from headrace.pipeline.documents.training_rows import step_facts
from headrace.pipeline.output import terminal
from headrace.pipeline.output.terminal import Fact
from headrace.pipeline.run.planned_stage import PlannedStage

OPTIONS = {"blocks": "document", "rank": "step", "ranks": "step", "tokens": "text", "documents": "text"}
"""Option → what NAME has to be."""


@command
@click.argument("name", metavar="DOCUMENT_ID|URL|…")
@click.option(
    "--as",
    "meaning",
    type=click.Choice(["document", "token", "step", "text", "page", "item"]),
    help="What is asked about: a token (SHARD:OFFSET), a STEP of the training, a text or a page (FILE or -), "
    "or an item of a benchmark (all, BENCHMARK or ITEM).",
)
@click.option("--blocks", is_flag=True, help="The blocks of a page that was read from HTML, kept and left out.")
@click.option("--rank", metavar="RANK", default="", help="Of a step: only the rows of this rank, counted from 0.")
@click.option("--ranks", metavar="RANKS", default="", help="Of a step: number of ranks; that of the run without it.")
@click.option("--tokens", metavar="N", default="", help="Of a text: the fewest tokens of a passage; 8 without it.")
@click.option("--documents", metavar="N", default="", help="Of a text: the most documents of a passage; 3 without it.")
@run_option
def why(
    overrides: Sequence[str],
    name: str,
    meaning: str | None,
    blocks: bool,
    rank: str,
    ranks: str,
    tokens: str,
    documents: str,
    run: str,
) -> None:
    """Prints what became of a document, or the documents of a token, a step, a text or an item of a benchmark."""
    given, meaning = {"blocks": blocks, "rank": rank, "ranks": ranks, "tokens": tokens}, meaning or "document"
    for option, value in (given | {"documents": documents}).items():
        if value and meaning != OPTIONS[option]:
            remedy = f"give --as {OPTIONS[option]}" if OPTIONS[option] != "document" else "leave out --as"
            raise ConfigError(f"--{option}", f"says nothing of a {meaning}", remedy)
    least, most = value_of(Positive, tokens or "8", "--tokens"), value_of(Positive, documents or "3", "--documents")
    asked = run_of(overrides, run)
    if meaning == "text":
        facts = passage_facts(asked, text_of(name), least, most)
    elif meaning == "step":
        facts = step_facts(asked, name, rank, ranks)
    elif meaning == "token":
        facts = token_facts(asked.stages, *name.partition(":")[::2])
    elif meaning == "page":
        facts = similar_facts(asked.stages, name)
    elif meaning == "item":
        facts = overlap_facts(asked.stages, "" if name == "all" else name)
    else:
        facts = (block_facts if blocks else document_facts)(asked.stages, name, asked.label)
    terminal.show(facts)


def similar_facts(stages: Sequence[PlannedStage], file: str) -> Iterator[Fact]:
    """Yields exact and estimated Jaccard similarity and the id of each document that shares a band with ``file``.

    Raises:
        ConfigError: when ``file`` cannot be read, or holds no word.
        ArtifactError: when clean or signatures are not finished.
    """
    text = text_of(file)
    if not words(text):
        raise ConfigError("FILE", f"there is no word in {file!r}", "give it a text")
    matches = similar(text, signatures=need("signatures", stages), clean=need("clean", stages))
    for match in matches:
        yield "jaccard", f"{match.jaccard:.4f}  estimated {match.estimate:.4f}  {match.id}"
    if not matches:
        yield "similar", "none"

"""The document that a stored token comes from, by arithmetic over the bounds of texts in its shard."""

from collections.abc import Iterator, Sequence

import numpy as np

from headrace.data_prep.tokenization.encode import Encoder
from headrace.data_prep.tokenization.shards import TokenShards
from headrace.pipeline.core.artifact import Artifact
from headrace.pipeline.core.errors import ConfigError
from headrace.pipeline.documents.document_path import identity, texts_stage
from headrace.pipeline.documents.lookup import document_in_row, document_named, need
from headrace.pipeline.output.terminal import Fact
from headrace.pipeline.run.planned_stage import PlannedStage

CONTEXT_TOKENS = 16
"""Tokens that are printed before and after the token."""


def explain(stages: Sequence[PlannedStage], shard: str, offset: str) -> Iterator[Fact]:
    """Yields the document of token ``offset`` of token shard ``shard``, and its position. An end of text belongs to the
    document after it; the last one of a shard belongs to the document before it.

    Raises:
        ConfigError: when there is no such shard or offset.
        ArtifactError: when ``tokens`` is not finished.
    """
    tokens = need("tokens", stages)
    shards = TokenShards(tokens)
    shard_number = number("SHARD", shard, tokens.shard_count, "token shards")
    bounds = shards.bounds(shard_number)
    position = number("OFFSET", offset, int(bounds[-1]) + 1, f"tokens of shard {shard_number}")
    if len(bounds) == 1:
        raise ConfigError("SHARD", f"token shard {shard_number} holds no document", "give another")
    row = min(int(np.searchsorted(bounds, position, side="right")) - 1, len(bounds) - 2)
    first, last = bounds[row : row + 2].tolist()
    match = document_in_row(need("unique", stages), shard_number, row)
    yield from identity(match, texts_stage(stages))
    yield from _token(shards, need("tokenizer", stages), shard_number, position, (first, last))
    for stage in ("texts", "clean"):
        if (before := document_named(need(stage, stages), shard_number, match.document.id)) is not None:
            yield stage, before.location
    yield "unique", match.location


def number(name: str, text: str, end: int, what: str) -> int:
    """Reads ``text`` as a number below ``end``.

    Raises:
        ConfigError: when it is not one.
    """
    if not (text.isascii() and text.isdigit() and int(text) < end):
        raise ConfigError(name, f"{text!r} is none of the {end:,} {what}", f"give a number from 0 to {end - 1}")
    return int(text)


def _token(
    shards: TokenShards, tokenizer: Artifact, shard: int, position: int, bounds: tuple[int, int]
) -> Iterator[Fact]:
    """Yields the token, its position in the document between the ends of text ``bounds``, and the text around it."""
    encoder = Encoder.load(tokenizer.path("tokenizer.json"))
    first, last = bounds
    token = int(shards.slice(shard, position, position + 1)[0])
    yield "token", f"{token}, {encoder.decode([token])!r}"
    ends = {first: "the end of text that begins the document", last: "the end of text that ends the document"}
    yield "position", ends.get(position, f"token {position - first:,} of {last - first - 1:,} of the document")
    before = shards.slice(shard, max(first + 1, position - CONTEXT_TOKENS), position)
    after = shards.slice(shard, max(first + 1, position + 1), min(last, position + 1 + CONTEXT_TOKENS))
    yield "before", encoder.decode(before)
    yield "after", encoder.decode(after)

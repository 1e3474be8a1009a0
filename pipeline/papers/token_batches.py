"""Tokens of an artifact as sequences, in batches of limited size.

    tokens    a sequence is a document and the end of text after it:      t t t E    of each split, in their order
    packed    a sequence is a row: the inputs of its spans, then padding  E t t t E t t E E    in the order of the rows

The first E of a shard of tokens, which no document comes before, is left out. The rows of ``packed`` are those of the
artifact, in its order; a training shuffles them (``headrace why STEP --as step``). Padding is E. ``span_lengths`` of a
row are the positions of its spans; what their sum leaves of the row is padding.
"""

import dataclasses
import functools
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headrace.data_prep.packed import SPLITS, held_out
from headrace.data_prep.tokenization.shards import PackedRows, TokenShards
from headrace.pipeline.core.artifact import Artifact

BATCH_BYTES = 16_000_000
"""Bytes of the tokens of a batch, if it has more than one sequence."""


@dataclasses.dataclass(frozen=True)
class Batch:
    """Consecutive sequences."""

    ids: NDArray[Any]
    """The tokens of all sequences, one after the other: (tokens,), uint16 or uint32."""
    lengths: NDArray[np.int64]
    """The tokens of each sequence: (sequences,)."""
    spans: tuple[NDArray[np.int64], ...] = ()
    """The lengths of the spans of each row; empty for documents."""


@dataclasses.dataclass(frozen=True)
class SequenceSet:
    """The sequences of one split."""

    split: str
    row_tokens: int | None
    """The tokens of each sequence; None if they differ."""
    batches: Callable[[int], Iterator[Batch]]
    """Gives all sequences in batches of at most so many bytes of tokens, or of one sequence."""


def sequence_sets(
    inputs: Mapping[str, Artifact], stage: str, end_of_text: int, validation_fraction: float
) -> list[SequenceSet]:
    """Returns the sequences of ``stage``, ``tokens`` or ``packed``, for each split.

    Documents of ``tokens`` are held out as rows of them with this ``validation_fraction`` are (packed.py).
    """
    shards, sets = TokenShards(inputs["tokens"]), []
    for split in SPLITS:
        if stage == "tokens":
            read = functools.partial(document_batches, inputs["tokens"], shards, split, validation_fraction)
            sets.append(SequenceSet(split, None, read))
        else:
            rows = PackedRows(inputs["packed"], split)
            sets.append(SequenceSet(split, rows.row_tokens, _row_reader(shards, rows, end_of_text)))
    return sets


def document_batches(
    tokens: Artifact, shards: TokenShards, split: str, validation_fraction: float, most_bytes: int
) -> Iterator[Batch]:
    """Yields the documents of ``split`` in ``tokens``, each with the end of text after it."""
    for shard in range(len(shards)):
        is_held_out = held_out(np.load(tokens.shard("keys", shard, "npy")), validation_fraction)
        is_chosen = is_held_out == (split == "validation")
        bounds = shards.bounds(shard).astype(np.int64)
        item_bytes = shards.slice(shard, 0, 1).dtype.itemsize
        first = 0
        while first < len(bounds) - 1:
            limit = bounds[first] + most_bytes // item_bytes
            last = max(first + 1, int(np.searchsorted(bounds, limit, side="right")) - 1)
            ids = shards.slice(shard, int(bounds[first]) + 1, int(bounds[last]) + 1)
            lengths, chosen = np.diff(bounds[first : last + 1]), is_chosen[first:last]
            if chosen.any():
                yield Batch(ids[np.repeat(chosen, lengths)], lengths[chosen])
            first = last


def _row_reader(shards: TokenShards, rows: PackedRows, end_of_text: int) -> Callable[[int], Iterator[Batch]]:
    return lambda most_bytes: row_batches(shards, rows, end_of_text, most_bytes)


def row_batches(shards: TokenShards, rows: PackedRows, end_of_text: int, most_bytes: int) -> Iterator[Batch]:
    """Yields ``rows``, padded with ``end_of_text``."""
    dtype = shards.slice(0, 0, 1).dtype
    at_once = max(1, most_bytes // (rows.row_tokens * dtype.itemsize))
    for first in range(0, len(rows), at_once):
        numbers = range(first, min(first + at_once, len(rows)))
        ids = np.full((len(numbers), rows.row_tokens), end_of_text, dtype)
        spans = []
        for row, number in zip(ids, numbers, strict=True):
            spans.append(_fill(row, shards, rows, number))
        yield Batch(ids.reshape(-1), np.full(len(numbers), rows.row_tokens, np.int64), tuple(spans))


def _fill(row: NDArray[Any], shards: TokenShards, rows: PackedRows, number: int) -> NDArray[np.int64]:
    """Writes the inputs of row ``number`` to ``row``; returns the lengths of its spans."""
    position, spans = 0, rows.spans(number)
    for shard, start, length in spans.tolist():
        row[position : position + length] = shards.slice(shard, start, start + length)
        position += length
    return spans["length"].astype(np.int64)

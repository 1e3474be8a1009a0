"""The sections of unique documents: duplicates, columns of values, the selection, and their tokens in rows.
documents.html shows them.

Few shards are read, each only as far as needed, so the cost of a report does not grow with the data.
"""

import dataclasses
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from headrace.data_prep.columns.scorer import ColumnValues, has_value, holds_text, read_values
from headrace.data_prep.selected import Selected
from headrace.pipeline.core.artifact import Artifact
from headrace.pipeline.core.stage import Inputs
from headrace.pipeline.documents.document_choice import nearest
from headrace.pipeline.documents.samples import cluster_sizes, near_duplicates
from headrace.pipeline.documents.stored_documents import columns_in
from headrace.pipeline.report import drawing
from headrace.pipeline.report.formatting import Statistic, count, decimal, known, percent
from headrace.pipeline.report.funnel import DROPPED, CountRow, count_rows, shortened

MOST_VALUES = 10_000_000
"""The number of values above which evenly spaced shards are read: the report does not need all."""
BARS = 24
TAIL_PERCENT = 1
"""The bars go from this percentile to that as far from the end; the first and the last one hold what is outside."""
DECILES = range(0, 101, 10)
TEXTS_SHOWN = 12
TEXT_CHARACTERS = 240


def duplicates_section(inputs: Inputs) -> dict[str, Any] | None:
    """Returns clusters and pairs of duplicates."""
    if "duplicates" not in inputs:
        return None
    sizes = cluster_sizes(inputs["duplicates"])
    return {
        "pairs": near_duplicates(inputs["clean"], inputs["duplicates"]),
        "clusters": drawing.bar_chart("clusters", sizes, "documents in a cluster", "clusters"),
    }


@dataclasses.dataclass(frozen=True)
class DecileSample:
    """A document whose value is that of a decile, or nearest to it."""

    percent: int
    value: float
    id: str
    text: str
    """The beginning of its text."""


@dataclasses.dataclass(frozen=True)
class ColumnPart:
    """The part of the page about one column: how its values are distributed."""

    name: str
    documents: int
    without_value: int
    figure: drawing.Figure | None
    """The histogram of numbers; None for texts."""
    texts: list[CountRow]
    """The most frequent texts."""
    deciles: list[DecileSample]

    @classmethod
    def of(cls, name: str, column: Artifact, unique: Artifact) -> "ColumnPart":
        """Returns the part of the column ``name`` of the documents ``unique``."""
        counts = column.counts
        step = -(-counts["documents"] // MOST_VALUES) or 1
        shards = range(0, column.shard_count, step)
        values = np.concatenate([read_values(column, shard) for shard in shards])
        values = values[has_value(values)]
        if holds_text(values):
            return cls(name, counts["documents"], counts["without_value"], None, text_rows(values), [])
        figure = drawing.bar_chart(f"column-{name}", histogram_bars(values), f"{name} (lower bound)", "documents")
        deciles = list(decile_samples(name, np.sort(values), column, unique, shards))
        return cls(name, counts["documents"], counts["without_value"], figure, [], deciles)


def columns_section(inputs: Inputs) -> list[ColumnPart]:
    """Returns the part of each column of ``inputs``."""
    return [ColumnPart.of(name, column, inputs["unique"]) for name, column in columns_in(inputs).items()]


def text_rows(values: ColumnValues) -> list[CountRow]:
    """Returns the most frequent texts, with their shares of the documents."""
    texts, numbers = np.unique(values, return_counts=True)
    rows = {f"text:{text}": number for text, number in zip(texts.tolist(), numbers.tolist(), strict=True)}
    return shortened(count_rows(rows, "text:", len(values)), TEXTS_SHOWN)


def histogram_bars(values: ColumnValues) -> list[tuple[str, int]]:
    """Returns bars of equal width, each named by its lower bound, with the number of ``values``."""
    if not len(values):
        return []
    low, high = np.percentile(values, [TAIL_PERCENT, 100 - TAIL_PERCENT])
    numbers, bounds = np.histogram(np.clip(values, low, high), BARS if high > low else 1)
    return [(f"{bound:.4g}", number) for bound, number in zip(bounds[:-1].tolist(), numbers.tolist(), strict=True)]


def decile_samples(
    name: str, ordered: ColumnValues, column: Artifact, unique: Artifact, shards: Sequence[int]
) -> Iterator[DecileSample]:
    """Yields a document at each decile of the ``ordered`` values."""
    for percent_below in DECILES if len(ordered) else ():
        value = float(ordered[round(percent_below * (len(ordered) - 1) / 100)])
        [(_, document)] = nearest(name, column, unique, value, 1, shards)
        yield DecileSample(percent_below, value, document.id, " ".join(document.text.split())[:TEXT_CHARACTERS])


def selection_section(inputs: Inputs) -> dict[str, Any] | None:
    """Returns the documents that were not selected, by reason, and the copies of the others."""
    if Selected.name not in inputs:
        return None
    counts = inputs[Selected.name].counts
    rows = count_rows(counts, DROPPED, counts["documents_in"])
    return {"rows": rows, "read": counts["documents_in"], "kept": counts["kept"], "copies": counts["copies"]}


def tokens_section(inputs: Inputs) -> list[Statistic]:
    """Returns means and shares of tokens and rows; none before the tokenizer."""
    names_of_stages = ("tokenizer", "tokens", "packed")
    tokenizer, tokens, packed = (inputs[name].counts if name in inputs else Counter() for name in names_of_stages)

    def ratio(part: int | None, whole: int | None) -> float | None:
        return part / whole if part is not None and whole else None

    padding, positions = packed.get("train_padding"), packed["train_tokens"] + packed["train_padding"]
    split = ratio(packed.get("train_split_documents"), packed.get("train_documents"))
    statistics = [
        Statistic("vocabulary", count(tokenizer.get("vocabulary")), "tokens"),
        Statistic("bytes per token", decimal(ratio(tokens.get("text_bytes"), tokens["tokens"]), 2), "of UTF-8 text"),
        Statistic("unknown", percent(ratio(tokens.get("unknown_tokens"), tokens["tokens"])), "of all tokens"),
        Statistic("tokens per document", count(ratio(tokens.get("tokens"), tokens["documents"])), "mean"),
        Statistic("padding", percent(ratio(padding, positions)), "of the positions of training rows"),
        Statistic("split documents", percent(split), "longer than a row"),
        Statistic("held out", count(packed.get("validation_documents")), "documents for validation"),
    ]
    return known(statistics)

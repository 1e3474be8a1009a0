"""The section of columns: how the values of each are distributed, with a document at each decile, and the selection."""

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from headrace.data_prep.columns.column_values import ColumnValues, has_value, holds_text, read_values
from headrace.data_prep.selected import Selected
from headrace.pipeline.core.artifact import Artifact
from headrace.pipeline.core.stage import Inputs
from headrace.pipeline.documents.column_documents import columns_in, nearest
from headrace.pipeline.report.figures import drawing
from headrace.pipeline.report.funnel import DROPPED, CountRow, count_rows, shortened

MOST_VALUES = 10_000_000
"""The number of values above which evenly spaced shards are read: the report does not need all."""
BARS = 24
TAIL_PERCENT = 1
"""The bars go from this percentile to that as far from the end; the first and the last one hold what is outside."""
DECILES = range(0, 101, 10)
TEXTS_SHOWN = 12
TEXT_CHARACTERS = 240


@dataclasses.dataclass(frozen=True)
class DecileSample:
    """A document whose value is that of a decile, or nearest to it."""

    percent: int
    value: float
    id: str
    text: str
    """The beginning of its text."""


@dataclasses.dataclass(frozen=True)
class ColumnSection:
    """The part of the page about one column."""

    name: str
    documents: int
    without_value: int
    figure: Any
    """The histogram of numbers; None for texts."""
    texts: list[CountRow]
    """The most frequent texts."""
    deciles: list[DecileSample]


def column_sections(inputs: Inputs) -> list[ColumnSection]:
    """Returns the section of each column of ``inputs``."""
    return [section(name, column, inputs["unique"]) for name, column in columns_in(inputs).items()]


def section(name: str, column: Artifact, unique: Artifact) -> ColumnSection:
    """Returns the section of the column ``name`` of the documents ``unique``."""
    counts, shards = column.counts, shards_to_show(column)
    values = np.concatenate([read_values(column, shard) for shard in shards])
    values = values[has_value(values)]
    if holds_text(values):
        figure, texts, deciles = None, text_rows(values), []
    else:
        bars = histogram_bars(values)
        figure = drawing.bar_chart(f"column-{name}", bars, f"{name} (lower bound)", "documents")
        texts, deciles = [], list(decile_samples(name, np.sort(values), column, unique, shards))
    return ColumnSection(name, counts["documents"], counts["without_value"], figure, texts, deciles)


def shards_to_show(column: Artifact) -> Sequence[int]:
    """Returns the shards whose values are shown: all, or evenly spaced ones of a large column."""
    step = -(-column.counts["documents"] // MOST_VALUES) or 1
    return range(0, column.shard_count, step)


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
    for percent in DECILES if len(ordered) else ():
        value = float(ordered[round(percent * (len(ordered) - 1) / 100)])
        [(_, document)] = nearest(name, column, unique, value, 1, shards)
        yield DecileSample(percent, value, document.id, " ".join(document.text.split())[:TEXT_CHARACTERS])


def selection_section(inputs: Inputs) -> dict[str, Any] | None:
    """Returns the documents that were not selected, by reason, and the copies of the others."""
    if Selected.name not in inputs:
        return None
    counts = inputs[Selected.name].counts
    rows = count_rows(counts, DROPPED, counts["documents_in"])
    return {"rows": rows, "read": counts["documents_in"], "kept": counts["kept"], "copies": counts["copies"]}

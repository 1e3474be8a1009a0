"""Documents of ``unique`` with the values of their columns, which have the same shards and lines."""

import heapq
import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping

import numpy as np
from datatrove.data import Document

from headrace.data_prep.column import Column
from headrace.data_prep.columns.column_values import read_values, values_or_none
from headrace.data_prep.document import read_documents
from headrace.data_prep.filters.filter import Value
from headrace.pipeline.core.artifact import Artifact
from headrace.pipeline.core.stage import OF_KIND, kind_of
from headrace.pipeline.documents.marking import Located

Artifacts = Mapping[str, Artifact]
COLUMNS_FIELD = "columns"
"""Metadata of a document that is shown or exported: its values by the names of their columns."""


def columns_in(artifacts: Artifacts) -> dict[str, Artifact]:
    """Returns the columns among ``artifacts``, by their names."""
    stages = [name for name in artifacts if kind_of(name) == Column.name]
    return {name.partition(OF_KIND)[2]: artifacts[name] for name in stages}


def with_columns(documents: Iterable[Document], columns: Artifacts, shard: int) -> Iterator[Document]:
    """Yields the ``documents`` of a shard of ``unique`` with their values in the metadata, under ``columns``."""
    values = {name: values_or_none(read_values(column, shard)) for name, column in columns.items()}
    for row, document in enumerate(documents):
        document.metadata[COLUMNS_FIELD] = {name: of_column[row] for name, of_column in values.items()}
        yield document


def shown(value: Value | None) -> str:
    """Returns the value of a column as text."""
    return f"{value:g}" if isinstance(value, float) else value or "none"


def nearest(
    name: str, column: Artifact, unique: Artifact, value: float, number: int, shards: Iterable[int] | None = None
) -> list[Located]:
    """Returns up to ``number`` documents of ``unique`` whose values are nearest to ``value``, in ascending order of
    these. Each has its value in the metadata. Only ``shards`` are looked at, if they are given."""
    candidates = list[tuple[float, float, int, int]]()
    for shard in range(column.shard_count) if shards is None else shards:
        values = read_values(column, shard)
        distances = np.abs(values - value)
        rows = np.argsort(distances, kind="stable")[:number].tolist()
        candidates += [
            (float(distances[row]), float(values[row]), shard, row) for row in rows if not math.isnan(distances[row])
        ]
    best = sorted((measured, shard, row) for _, measured, shard, row in heapq.nsmallest(number, candidates))
    rows_of_shards = defaultdict(set)
    for _, shard, row in best:
        rows_of_shards[shard].add(row)
    documents = {
        (shard, row): document
        for shard, rows in rows_of_shards.items()
        for row, document in enumerate(
            with_columns(read_documents(unique.shard("documents", shard, "jsonl.zst")), {name: column}, shard)
        )
        if row in rows
    }
    return [(shard, documents[shard, row]) for _, shard, row in best]

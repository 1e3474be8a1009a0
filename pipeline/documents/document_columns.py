"""The values of a document's columns, how often it is trained on, and the documents whose values are near a number.

A document keeps its shard and line from ``unique`` on, so a column, the selection and the tokens have it at one place.
"""

import fractions
import math
from collections.abc import Iterator, Sequence

import numpy as np

from headrace.data_prep.column import Column, column_stage
from headrace.data_prep.columns.column_values import ColumnValues, has_value, holds_text, read_values, values_or_none
from headrace.data_prep.selected import COPIES, REASONS, Selected, reason_names
from headrace.pipeline.core.artifact import Artifact
from headrace.pipeline.core.errors import ConfigError, suggestion
from headrace.pipeline.core.stage import OF_KIND, kind_of
from headrace.pipeline.documents.column_documents import Artifacts, columns_in, shown
from headrace.pipeline.documents.lookup import need
from headrace.pipeline.output.terminal import Fact
from headrace.pipeline.run.saved_runs import AnyStage

PERCENTS_KEPT = (1, 5, 10, 20, 30, 50, 70, 90, 99)


def facts_of(artifacts: Artifacts, shard: int, row: int) -> Iterator[Fact]:
    """Yields the value of each column of the document in ``row`` of ``shard`` of ``unique``, and its copies."""
    for name, column in columns_in(artifacts).items():
        yield f"column {name}", shown(*values_or_none(read_values(column, shard)[row : row + 1]))
    if Selected.name in artifacts:
        copies = np.load(artifacts[Selected.name].shard(COPIES, shard, "npy"))[row]
        yield "copies", f"{copies}, {not_selected(artifacts, shard, row)}".rstrip(", ")


def not_selected(artifacts: Artifacts, shard: int, row: int) -> str:
    """Returns which rule did not select a document; empty if it was selected, or the run selects none."""
    if Selected.name not in artifacts:
        return ""
    selected = artifacts[Selected.name]
    reason = reason_names(selected)[np.load(selected.shard(REASONS, shard, "npy"))[row]]
    return f"not selected by {reason}" if reason else ""


def shares_kept(column: Artifact, at: float | None = None) -> Iterator[Fact]:
    """Yields thresholds of ``column`` by the share of documents that they keep, and what the threshold ``at`` keeps."""
    values = np.concatenate([read_values(column, shard) for shard in range(column.shard_count)])
    ordered = np.sort(values[has_value(values)])
    yield "documents", f"{len(values):,}, {len(values) - len(ordered):,} of them without a value"
    for percent in PERCENTS_KEPT if len(ordered) else ():
        number = math.ceil(fractions.Fraction(percent, 100) * len(ordered))
        yield f"share {percent} %", kept_by(ordered, float(ordered[-number]), float(ordered[number - 1]))
    if at is not None:
        yield f"at {at:.6g}", kept_by(ordered, at, at)


def kept_by(ordered: ColumnValues, low: float, high: float) -> str:
    """Returns how many of the ``ordered`` values a threshold with min = ``low`` keeps, and one with max = ``high``."""
    at_least, at_most = len(ordered) - np.searchsorted(ordered, low), np.searchsorted(ordered, high, "right")
    limits = (("min", low, int(at_least)), ("max", high, int(at_most)))
    return " | ".join(f"{name}={limit!r}: {n:,} ({n / max(len(ordered), 1):.1%})" for name, limit, n in limits)


def column_named(name: str, stages: Sequence[AnyStage], where: str = "--score") -> Artifact:
    """Returns the column ``name`` of numbers, which the argument ``where`` names.

    Raises:
        ConfigError: when the run has no such column, or it holds texts.
        ArtifactError: when it is not finished.
    """
    known = [stage.name.partition(OF_KIND)[2] for stage in stages if kind_of(stage.name) == Column.name]
    if name not in known:
        remedy = suggestion(name, known) if known else f"run with columns=basic, say, and until=column.{name} or later"
        raise ConfigError(where, f"the run has computed no column {name!r}", remedy)
    column = need(column_stage(name), stages)
    if holds_text(read_values(column, 0)):
        raise ConfigError(where, f"the column {name!r} holds texts", "name one of numbers")
    return column

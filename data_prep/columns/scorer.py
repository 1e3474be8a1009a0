"""Base class of scorers, each of which gives a document one value, and the values of a column on disk.

document ── scorer ──> 0.83 | "en" | None (no value)
documents ── learned ──> a file ──> scorer          only of one that learns from the documents themselves

values/00007.npy     float64, NaN without a value; or texts of fixed width, empty without one
"""

import abc
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from datatrove.data import Document
from numpy.typing import NDArray

from headrace.data_prep.filters.filter import Applied, Value
from headrace.pipeline.core.artifact import Artifact

VALUES = "values"
"""The kind of the shards."""
MOST_CHARACTERS = 64
"""Longer texts are cut: a column holds a language or a topic, not prose."""

ColumnValues = NDArray[Any]
"""(documents,) float64 or text."""
Scoring = Callable[[Document], Value | None]
"""Returns the value of a document, or None if it has none."""
ScoreKind = type[float] | type[str]


class Scorer(Applied):
    """Gives each document one value. Subclasses are ``@settings`` classes with a ``type`` tag."""

    learns: ClassVar[bool] = False
    """Whether a model is made (``learn``) before documents are scored."""

    @property
    def kind(self) -> ScoreKind:
        """The type of its values."""
        return float

    def learn(self, unique: Artifact, path: Path, counts: "Counter[str]") -> None:
        """Writes the model to ``path``; only of scorers that learn."""
        raise TypeError(f"{type(self).__name__} does not learn")

    @abc.abstractmethod
    def scoring(self, model: Path | None) -> Scoring:
        """Returns the function that scores documents; ``model`` is what ``learn`` wrote."""


def values_array(values: Iterable[Value | None], kind: ScoreKind) -> ColumnValues:
    """Returns ``values`` of one ``kind`` as an array."""
    if kind is float:
        return np.array([np.nan if value is None else value for value in values], dtype="<f8")
    texts = [str(value or "")[:MOST_CHARACTERS] for value in values]
    return np.array(texts, dtype=f"<U{max(map(len, texts), default=0) or 1}")


def read_values(column: Artifact, shard: int) -> ColumnValues:
    """Reads the values of the documents of ``shard``."""
    array: ColumnValues = np.load(column.shard(VALUES, shard, "npy"), allow_pickle=False)
    return array


def has_value(values: ColumnValues) -> NDArray[np.bool_]:
    """Returns which of ``values`` are there: (documents,)."""
    return values != "" if values.dtype.kind == "U" else ~np.isnan(values)


def values_or_none(values: ColumnValues) -> list[Value | None]:
    """Returns ``values`` as Python's, None for those that are not there."""
    pairs = zip(values.tolist(), has_value(values).tolist(), strict=True)
    return [value if is_there else None for value, is_there in pairs]


def holds_text(values: ColumnValues) -> bool:
    """Whether ``values`` are texts, not numbers."""
    return values.dtype.kind == "U"

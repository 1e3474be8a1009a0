"""Base class of scorers: each gives a document one value, a number or a short text.

document ── scorer ──> 0.83 | "en" | None (no value)
documents ── learned ──> a file ──> scorer          only of one that learns from the documents themselves
"""

import abc
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import ClassVar

from datatrove.data import Document

from headrace.data_prep.filters.filter import Value
from headrace.pipeline.core.artifact import Artifact
from headrace.pipeline.core.stage import Inputs, RawFile

Scoring = Callable[[Document], Value | None]
"""Returns the value of a document, or None if it has none."""
ScoreKind = type[float] | type[str]


class Scorer(abc.ABC):
    """Gives each document one value. Subclasses are ``@settings`` classes with a ``type`` tag."""

    type: str
    """The tag in settings."""
    learns: ClassVar[bool] = False
    """Whether a model is made (``learn``) before documents are scored."""

    @property
    def kind(self) -> ScoreKind:
        """The type of its values."""
        return float

    @property
    def inputs(self) -> tuple[str, ...]:
        """The names of the stages that it needs the artifacts of, besides ``unique``."""
        return ()

    @property
    def run_labels(self) -> tuple[str, ...]:
        """The labels whose probability it reads from the classifier that the run trains."""
        return ()

    def ready(self, inputs: Inputs) -> "Scorer":
        """Returns the scorer with what it reads of the artifacts ``inputs``."""
        return self

    def raw_files(self) -> tuple[RawFile, ...]:
        """Returns the files outside the project whose content decides the values."""
        return ()

    def check(self) -> None:  # noqa: B027  (most scorers have nothing to add)
        """Refuses, before a run starts, settings that need more than their own values to be checked."""

    def learn(self, unique: Artifact, path: Path, counts: "Counter[str]") -> None:
        """Writes the model to ``path``; only of scorers that learn."""
        raise TypeError(f"{type(self).__name__} does not learn")

    @abc.abstractmethod
    def scoring(self, model: Path | None) -> Scoring:
        """Returns the function that scores documents; ``model`` is what ``learn`` wrote."""

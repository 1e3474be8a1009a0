"""Base class of filters by a classifier of texts, whose model is a file of the user.

text ── model ──> {"hq": 0.83, "cc": 0.17} ── metadata[…]["hq"] = 0.83 ──> kept when ≥ min_score
"""

import abc
from collections.abc import Collection
from typing import ClassVar

from datatrove.data import Document

from headrace.data_prep.document import Drop
from headrace.data_prep.filters.filter import Filter, ValueKinds, Values, filter_settings, require_file, user_file
from headrace.pipeline.core.errors import ConfigError, suggestion
from headrace.pipeline.core.settings import FilePath, Fraction
from headrace.pipeline.core.stage import RawFile


@filter_settings
class TextClassifier(Filter):
    """Drops pages whose probability of ``label`` is below ``min_score``, and stores it in the others' metadata."""

    thresholds: ClassVar[tuple[str, ...]] = ("min_score",)
    expected: ClassVar[str]
    """The kind of the model file, in messages."""
    metadata_key: ClassVar[str]
    """The metadata with the probabilities."""
    path: FilePath | None
    """The model file."""
    label: str
    """The label whose probability decides."""
    min_score: Fraction
    """Lowest probability of a page that is kept."""

    @abc.abstractmethod
    def labels(self) -> Collection[str]:
        """Returns the labels that the model can answer.

        Raises:
            ArtifactError: when the file is no such model.
        """

    @abc.abstractmethod
    def scores(self, text: str) -> dict[str, float]:
        """Returns the probability of each label."""

    def raw_files(self) -> tuple[RawFile, ...]:
        """Returns the model file. Questions about a finished run do not read it, so it may be elsewhere by then.

        Raises:
            ConfigError: when there is no such file.
        """
        return (user_file(self._required_file()),)

    def check(self) -> None:
        """Refuses a file that is missing, and a label that the model does not have."""
        self._required_file()
        self._require_label(self.labels())

    def _required_file(self) -> str:
        """Returns the path of the model file, which exists.

        Raises:
            ConfigError: when it does not.
        """
        path = self.path or ""
        require_file(f"{self.type}.path", path, self.expected)
        return path

    @property
    def value_kinds(self) -> ValueKinds:
        return {self.label: float}

    def values(self, document: Document) -> Values:
        return {self.label: self._score(document.text)}

    def _score(self, text: str) -> float:
        """Returns the probability of the label."""
        scores = self.scores(text)
        self._require_label(scores)
        return scores[self.label]

    def judge(self, document: Document) -> Drop | None:
        score = self._score(document.text)
        if score < self.min_score:
            return Drop(f"{self.type}.{self.label}", f"{score:.6f}")
        document.metadata.setdefault(self.metadata_key, {})[self.label] = score
        return None

    def _require_label(self, known: Collection[str]) -> None:
        """Raises ConfigError if the label is not one of the ``known``."""
        if self.label not in known:
            problem = f"the model has no label {self.label!r}"
            raise ConfigError(f"{self.type}.label", problem, suggestion(self.label.removeprefix("__label__"), known))

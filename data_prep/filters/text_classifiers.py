"""Filters by a classifier of texts: a fastText model, or a linear one that the run, or ``headrace train-classifier``,
trained.

text ── model ──> {"hq": 0.83, "cc": 0.17} ── metadata[…]["hq"] = 0.83 ──> kept when ≥ min_score
"""

import abc
import dataclasses
from collections.abc import Collection
from typing import ClassVar, Literal

from datatrove.data import Document
from typing_extensions import Self

from headrace.data_prep.classifiers import linear_classifier
from headrace.data_prep.document import Drop
from headrace.data_prep.filters.fasttext_model import labels_of, load
from headrace.data_prep.filters.filter import (
    Explanations,
    Filter,
    ValueKinds,
    Values,
    filter_settings,
    require_file,
    user_file,
)
from headrace.pipeline.core.errors import ConfigError, suggestion
from headrace.pipeline.core.settings import FilePath, Fraction
from headrace.pipeline.core.stage import Inputs, RawFile


@filter_settings
class TextClassifier(Filter):
    """Drops pages whose probability of ``label`` is below ``min_score``, and stores it in the others' metadata."""

    explanations: ClassVar[Explanations] = {
        "": (
            "Drops pages with a probability of the label {label} below {min_score}.",
            "probability {value}, at least {min_score} needed",
        ),
    }
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


@filter_settings
class FasttextClassifier(TextClassifier):
    """Drops pages whose probability of ``label`` is below ``min_score``; stores it in ``metadata["fasttext"]``.

    Li et al. 2024 ("DataComp-LM"), section 4.4, keep the tenth of their pages that the model ``fasttext_oh_eli5.bin``
    scores highest: label ``hq``, threshold 0.018112 (``fasttext_filter.yaml`` of DCLM's code).
    """

    expected: ClassVar[str] = "a fastText model"
    metadata_key: ClassVar[str] = "fasttext"
    type: Literal["fasttext_classifier"] = "fasttext_classifier"
    path: FilePath
    """The model file, .bin or .ftz."""
    label: str
    """The label whose probability decides, without ``__label__``."""

    def labels(self) -> Collection[str]:
        return labels_of(self.path)

    def scores(self, text: str) -> dict[str, float]:
        return dict(load(self.path)(text, -1))


@filter_settings
class LinearClassifierFilter(TextClassifier):
    """Drops pages whose probability of ``label`` is below ``min_score``; stores it in ``metadata["classifier"]``.

    Brown et al. 2020 ("Language models are few-shot learners", appendix A) choose pages of Common Crawl by a logistic
    regression over hashed words, with texts of known quality as positives and the crawl as negatives.
    """

    expected: ClassVar[str] = "a file that headrace train-classifier wrote"
    metadata_key: ClassVar[str] = "classifier"
    type: Literal["linear_classifier"] = "linear_classifier"
    path: FilePath | None = None
    """The model file; null: the classifier that the run trains on ``classifier.examples``."""

    @property
    def inputs(self) -> tuple[str, ...]:
        return (linear_classifier.STAGE,) if self.path is None else ()

    @property
    def run_labels(self) -> tuple[str, ...]:
        return (self.label,) if self.path is None else ()

    def ready(self, inputs: Inputs) -> Self:
        if self.path:
            return self
        trained = inputs[linear_classifier.STAGE].path(linear_classifier.MODEL_FILE)
        return dataclasses.replace(self, path=str(trained))

    def raw_files(self) -> tuple[RawFile, ...]:
        return super().raw_files() if self.path else ()

    def check(self) -> None:
        """Refuses a file that is missing, and a label that the model does not have."""
        if self.path:
            super().check()

    def labels(self) -> Collection[str]:
        return self.model.classes

    def scores(self, text: str) -> dict[str, float]:
        return self.model.scores(text)

    @property
    def model(self) -> linear_classifier.LinearClassifier:
        if self.path is None:
            raise ConfigError(f"{self.type}.path", "is null, and no run trains a classifier here", "give a model file")
        return linear_classifier.load(self.path)

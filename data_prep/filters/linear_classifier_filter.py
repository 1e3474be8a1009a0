"""Filter by a linear classifier, which the run trains, or ``headrace train-classifier`` trained."""

import dataclasses
from collections.abc import Collection
from typing import ClassVar, Literal

from headrace.data_prep.classifiers.linear_classifier import MODEL_FILE, STAGE, LinearClassifier, load
from headrace.data_prep.filters.filter import Explanations, filter_settings
from headrace.data_prep.filters.text_classifier import TextClassifier
from headrace.pipeline.core.errors import ConfigError
from headrace.pipeline.core.settings import FilePath
from headrace.pipeline.core.stage import Inputs, RawFile


@filter_settings
class LinearClassifierFilter(TextClassifier):
    """Drops pages whose probability of ``label`` is below ``min_score``; stores it in ``metadata["classifier"]``.

    Brown et al. 2020 ("Language models are few-shot learners", appendix A) choose pages of Common Crawl by a logistic
    regression over hashed words, with texts of known quality as positives and the crawl as negatives.
    """

    expected: ClassVar[str] = "a file that headrace train-classifier wrote"
    metadata_key: ClassVar[str] = "classifier"
    explanations: ClassVar[Explanations] = {
        "": (
            "Drops pages with a probability of the label {label} below {min_score}.",
            "probability {value}, at least {min_score} needed",
        ),
    }
    type: Literal["linear_classifier"] = "linear_classifier"
    path: FilePath | None = None
    """The model file; null: the classifier that the run trains on ``classifier.examples``."""

    @property
    def inputs(self) -> tuple[str, ...]:
        return (STAGE,) if self.path is None else ()

    @property
    def run_labels(self) -> tuple[str, ...]:
        return (self.label,) if self.path is None else ()

    def ready(self, inputs: Inputs) -> "LinearClassifierFilter":
        return self if self.path else dataclasses.replace(self, path=str(inputs[STAGE].path(MODEL_FILE)))

    def raw_files(self) -> tuple[RawFile, ...]:
        return super().raw_files() if self.path else ()

    def check(self) -> None:
        """Refuses a file that is missing, and a label that the model does not have."""
        if self.path:
            super().check()

    def labels(self) -> Collection[str]:
        return self._model.classes

    def scores(self, text: str) -> dict[str, float]:
        return self._model.scores(text)

    @property
    def _model(self) -> LinearClassifier:
        if self.path is None:
            raise ConfigError(f"{self.type}.path", "is null, and no run trains a classifier here", "give a model file")
        return load(self.path)

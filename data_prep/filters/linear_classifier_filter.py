"""Filter by a linear classifier that ``headrace train-classifier`` trained."""

from collections.abc import Collection
from typing import ClassVar, Literal

from headrace.data_prep.classifiers.linear_classifier import load
from headrace.data_prep.filters.filter import filter_settings
from headrace.data_prep.filters.text_classifier import TextClassifier


@filter_settings
class LinearClassifierFilter(TextClassifier):
    """Drops pages whose probability of ``label`` is below ``min_score``; stores it in ``metadata["classifier"]``.

    Brown et al. 2020 ("Language models are few-shot learners", appendix A) choose pages of Common Crawl by a logistic
    regression over hashed words, with texts of known quality as positives and the crawl as negatives.
    """

    expected: ClassVar[str] = "a file that headrace train-classifier wrote"
    metadata_key: ClassVar[str] = "classifier"
    type: Literal["linear_classifier"] = "linear_classifier"

    def labels(self) -> Collection[str]:
        return load(self.path).classes

    def scores(self, text: str) -> dict[str, float]:
        return load(self.path).scores(text)

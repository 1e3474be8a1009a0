"""Filter by a fastText classifier of the user. DCLM keeps pages that read like instructions and explanations this way.

text ── model ──> {"hq": 0.83, "cc": 0.17} ── metadata["fasttext"]["hq"] = 0.83 ──> kept when ≥ min_score
"""

from collections.abc import Collection
from typing import Literal

from datatrove.data import Document

from headrace.data_prep.document import Drop
from headrace.data_prep.filters.fasttext_model import labels_of, load
from headrace.data_prep.filters.filter import Filter, filter_settings, require_file, user_file
from headrace.pipeline.core.errors import ConfigError, suggestion
from headrace.pipeline.core.settings import FilePath, Fraction
from headrace.pipeline.core.stage import RawFile


@filter_settings
class FasttextClassifier(Filter):
    """Drops pages whose probability of ``label`` is below ``min_score``; stores it in ``metadata["fasttext"]``.

    Li et al. 2024 ("DataComp-LM"), section 4.4, keep the tenth of their pages that the model ``fasttext_oh_eli5.bin``
    scores highest: label ``hq``, threshold 0.018112 (``fasttext_filter.yaml`` of DCLM's code).
    """

    type: Literal["fasttext_classifier"] = "fasttext_classifier"
    path: FilePath
    """The model file, .bin or .ftz."""
    label: str
    """The label whose probability decides, without ``__label__``."""
    min_score: Fraction
    """Lowest probability of a page that is kept."""

    def __post_init__(self) -> None:
        require_file("fasttext_classifier.path", self.path, "a fastText model")

    def raw_files(self) -> tuple[RawFile, ...]:
        return (user_file(self.path),)

    def check(self) -> None:
        """Refuses a label that the model does not have."""
        self._require_label(labels_of(self.path))

    def judge(self, document: Document) -> Drop | None:
        scores = dict(load(self.path)(document.text, -1))
        self._require_label(scores)
        score = scores[self.label]
        if score < self.min_score:
            return Drop(f"{self.type}.{self.label}", f"{score:.6f}")
        document.metadata.setdefault("fasttext", {})[self.label] = score
        return None

    def _require_label(self, known: Collection[str]) -> None:
        """Raises ConfigError if the label is not one of the ``known``."""
        if self.label not in known:
            problem = f"the model has no label {self.label!r}"
            raise ConfigError(f"{self.type}.label", problem, suggestion(self.label.removeprefix("__label__"), known))

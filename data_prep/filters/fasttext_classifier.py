"""Pages by a fastText classifier of the user's: DCLM's way to keep what reads like instruction and explanation.

text ── model ──> {"hq": 0.83, "cc": 0.17} ── metadata["fasttext"]["hq"] = 0.83 ──> kept when ≥ min_score
"""

from typing import Literal

from datatrove.data import Document

from headrace.data_prep.document import Drop
from headrace.data_prep.filters.fasttext_model import load
from headrace.data_prep.filters.filter import Filter, filter_settings
from headrace.data_prep.filters.own_files import need_file, own_file
from headrace.pipeline.core.errors import ConfigError, suggestion
from headrace.pipeline.core.settings import Fraction
from headrace.pipeline.core.stage import RawFile


@filter_settings
class FasttextClassifier(Filter):
    """Drops pages whose probability of ``label`` is below ``min_score``; keeps it under ``metadata["fasttext"]``.

    A label that the model does not know is a ConfigError at the first page.

    Li et al. 2024 ("DataComp-LM"), section 4.4, keeps the tenth of its pages with the highest score of the model
    ``fasttext_oh_eli5.bin``: label ``hq``, threshold 0.018112 (``fasttext_filter.yaml`` of DCLM's code).
    """

    type: Literal["fasttext_classifier"] = "fasttext_classifier"
    path: str
    """The model file, .bin or .ftz."""
    label: str
    """The label whose probability decides, without ``__label__``."""
    min_score: Fraction
    """The least probability of a page that stays."""

    def __post_init__(self) -> None:
        super().__post_init__()
        need_file("fasttext_classifier.path", self.path, "a fastText model")

    def raw_files(self) -> tuple[RawFile, ...]:
        return (own_file(self.path),)

    def judge(self, document: Document) -> Drop | None:
        scores = dict(load(self.path)(document.text, -1))
        if self.label not in scores:
            wrong = f"the model has no label {self.label!r}"
            raise ConfigError("fasttext_classifier.label", wrong, suggestion(self.label, scores))
        score = scores[self.label]
        if score < self.min_score:
            return Drop(f"{self.type}.{self.label}", f"{score:.6f}")
        document.metadata.setdefault("fasttext", {})[self.label] = score
        return None

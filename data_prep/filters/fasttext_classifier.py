"""Filter by a fastText classifier of the user. DCLM keeps pages that read like instructions and explanations so."""

from collections.abc import Collection
from typing import ClassVar, Literal

from headrace.data_prep.filters.fasttext_model import labels_of, load
from headrace.data_prep.filters.filter import Explanations, filter_settings
from headrace.data_prep.filters.text_classifier import TextClassifier
from headrace.pipeline.core.settings import FilePath


@filter_settings
class FasttextClassifier(TextClassifier):
    """Drops pages whose probability of ``label`` is below ``min_score``; stores it in ``metadata["fasttext"]``.

    Li et al. 2024 ("DataComp-LM"), section 4.4, keep the tenth of their pages that the model ``fasttext_oh_eli5.bin``
    scores highest: label ``hq``, threshold 0.018112 (``fasttext_filter.yaml`` of DCLM's code).
    """

    expected: ClassVar[str] = "a fastText model"
    metadata_key: ClassVar[str] = "fasttext"
    explanations: ClassVar[Explanations] = {
        "": (
            "Drops pages with a probability of the label {label} below {min_score}.",
            "probability {value}, at least {min_score} needed",
        ),
    }
    type: Literal["fasttext_classifier"] = "fasttext_classifier"
    path: FilePath
    """The model file, .bin or .ftz."""
    label: str
    """The label whose probability decides, without ``__label__``."""

    def labels(self) -> Collection[str]:
        return labels_of(self.path)

    def scores(self, text: str) -> dict[str, float]:
        return dict(load(self.path)(text, -1))

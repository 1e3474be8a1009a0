"""Filter by language as langdetect, which C4's code uses, identifies it.

compiled_langdetect.py gives the results of langdetect with seed 0 from compiled code. fastText gives other results, so
it has a filter of its own (fasttext_filter.py).
"""

from typing import ClassVar, Literal

from datatrove.data import Document

from headrace.data_prep.document import Drop
from headrace.data_prep.filters.filter import Explanations, Filter, ValueKinds, Values, filter_settings
from headrace.data_prep.filters.language import compiled_langdetect
from headrace.data_prep.filters.language.langdetect_profiles import profile_names
from headrace.data_prep.filters.language.language_codes import check_codes
from headrace.pipeline.core.settings import Fraction, SomeTexts


@filter_settings
class Language(Filter):
    """Drops pages whose most probable language is not listed or not probable enough.

    Stores ``language`` and ``language_score`` in the metadata. Source: ``is_language`` of TFDS text/c4_utils.py.
    """

    thresholds: ClassVar[tuple[str, ...]] = ("languages", "min_score")
    explanations: ClassVar[Explanations] = {
        "": (
            "Drops pages whose language is not {languages} with a probability of at least {min_score}.",
            "identified as {value}; needed: {languages}, {min_score}",
        ),
    }
    type: Literal["language"] = "language"
    identifies_language: ClassVar[bool] = True
    languages: SomeTexts | None = ("en",)
    """The languages to keep, in langdetect's codes; None: all."""
    min_score: Fraction = 0.99
    """Lowest probability of the language (C4: 0.99)."""

    def __post_init__(self) -> None:
        check_codes("language.languages", "langdetect", self.languages or (), profile_names())

    @property
    def value_kinds(self) -> ValueKinds:
        return {"language": str, "language_score": float}

    def values(self, document: Document) -> Values:
        identified = compiled_langdetect.identify(document.text)
        return dict(zip(self.value_kinds, identified or (), strict=False))

    def judge(self, document: Document) -> Drop | None:
        identified = compiled_langdetect.identify(document.text)
        if identified is None:
            return Drop(self.type, "unknown")
        language, score = identified
        if score < self.min_score or (self.languages is not None and language not in self.languages):
            return Drop(self.type, f"{language} {score:.4f}")
        document.metadata["language"] = language
        document.metadata["language_score"] = score
        return None

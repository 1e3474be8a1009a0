"""Which language a page is in, by the identifier of the reference C4, and whether it is wanted.

language_ngrams.py gives langdetect's answers, seeded with 0, from compiled code. fastText's other answers are another
filter: language_fasttext.py.
"""

from typing import Literal

from datatrove.data import Document

from headrace.data_prep.document import Drop
from headrace.data_prep.filters.filter import Filter, filter_settings
from headrace.data_prep.filters.language import ngrams
from headrace.pipeline.core.settings import Fraction


@filter_settings
class Language(Filter):
    """Drops pages whose most probable language is not wanted or not sure; keeps ``language`` and ``language_score``.

    ``is_language`` of TFDS text/c4_utils.py.
    """

    type: Literal["language"] = "language"
    languages: tuple[str, ...] | None = ("en",)
    """The languages to keep, in langdetect's codes; None: any."""
    min_score: Fraction = 0.99
    """The least probability of the language (C4: 0.99)."""

    def judge(self, document: Document) -> Drop | None:
        found = ngrams.identify(document.text)
        if found is None:
            return Drop(self.type, "unknown")
        language, score = found
        if score < self.min_score or (self.languages is not None and language not in self.languages):
            return Drop(self.type, f"{language} {score:.4f}")
        document.metadata["language"] = language
        document.metadata["language_score"] = score
        return None

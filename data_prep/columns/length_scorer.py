"""The length of a document as a column."""

from pathlib import Path
from typing import Literal

from headrace.data_prep.columns.scorer import Scorer, Scoring
from headrace.data_prep.dedup.shingles import shingle_hashes
from headrace.pipeline.core.settings import settings


@settings
class Length(Scorer):
    """The number of characters or words of a document."""

    type: Literal["length"] = "length"
    unit: Literal["characters", "words"] = "characters"
    """The unit. Words are those of deduplication."""

    def scoring(self, model: Path | None) -> Scoring:
        if self.unit == "words":
            return lambda document: len(shingle_hashes(document.text, 1))
        return lambda document: len(document.text)

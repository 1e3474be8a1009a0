"""MassiveText's repetition rules (Rae et al. 2021, table A1): does the page say the same again and again?

Each rule is a class, its ``type`` and what it counts the reason; the first that fails drops the page.
"""

from typing import Annotated, Literal

from datatrove.data import Document
from pydantic import Field

from headrace.data_prep.document import Drop
from headrace.data_prep.filters.filter import Filter, filter_settings
from headrace.data_prep.filters.gopher.datatrove_page import Counting, first_failure
from headrace.data_prep.filters.gopher.page import Page, PageRule, Part, above
from headrace.pipeline.core.settings import Fraction, Positive, settings


@settings
class DuplicateParts(PageRule):
    """Few lines (or paragraphs) repeat an earlier one, and few characters are in those that do."""

    type: Literal["duplicate_parts"] = "duplicate_parts"
    part: Part = "lines"
    """What is compared."""
    max_fraction: Fraction = 0.3
    """The greatest fraction of repeated parts (table A1: 0.30 for both)."""
    max_character_fraction: Fraction = 0.2
    """The greatest fraction of the characters in them (table A1: 0.20 for both)."""

    def failure(self, page: Page) -> str | None:
        fraction, character_fraction = page.repeated(self.part)
        return above(fraction, self.max_fraction) or above(character_fraction, self.max_character_fraction)


@settings
class TopNgram(PageRule):
    """The most frequent ``words``-gram (of equally frequent ones the largest) holds few of the characters."""

    type: Literal["top_ngram"] = "top_ngram"
    words: Positive
    """The length of the n-gram in words (table A1: 2, 3, 4)."""
    max_fraction: Fraction
    """The greatest fraction of the words' characters (table A1: 0.20, 0.18, 0.16)."""

    def failure(self, page: Page) -> str | None:
        return above(page.top_ngram(self.words), self.max_fraction)


@settings
class DuplicateNgrams(PageRule):
    """All ``words``-grams that occur more than once hold few of the characters, overlaps counted once."""

    type: Literal["duplicate_ngrams"] = "duplicate_ngrams"
    words: Positive
    """The length of the n-grams in words (table A1: 5 to 10)."""
    max_fraction: Fraction
    """The greatest fraction of the words' characters (table A1: 0.15, 0.14, 0.13, 0.12, 0.11, 0.10)."""

    def failure(self, page: Page) -> str | None:
        return above(page.duplicate_ngrams(self.words), self.max_fraction)


AnyRepetitionRule = Annotated[DuplicateParts | TopNgram | DuplicateNgrams, Field(discriminator="type")]

TABLE_A1: tuple[AnyRepetitionRule, ...] = (
    DuplicateParts(part="lines"),
    DuplicateParts(part="paragraphs"),
    *(TopNgram(words=n, max_fraction=f) for n, f in ((2, 0.20), (3, 0.18), (4, 0.16))),
    *(
        DuplicateNgrams(words=n, max_fraction=f)
        for n, f in ((5, 0.15), (6, 0.14), (7, 0.13), (8, 0.12), (9, 0.11), (10, 0.10))
    ),
)


@filter_settings
class GopherRepetition(Filter):
    """Drops pages that repeat themselves by one of ``rules``."""

    type: Literal["gopher_repetition"] = "gopher_repetition"
    rules: tuple[AnyRepetitionRule, ...] = TABLE_A1
    """The rules, tried in this order; the first that fails is the reason."""
    counting: Counting = "paper"
    """How words and characters are counted: as the paper words it, or as datatrove does (datatrove_page.py)."""

    def judge(self, document: Document) -> Drop | None:
        return first_failure(self.type, self.rules, document, self.counting)

"""MassiveText's repetition rules, which drop repetitive pages (Rae et al. 2021, table A1).

Each rule is a class. Its ``type`` and the unit that it counts are the reason. The first rule that fails drops the page.
"""

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from headrace.data_prep.filters.filter import Templates, above, filter_settings
from headrace.data_prep.filters.page_rules import Counting, PageFilter, PageRule
from headrace.data_prep.filters.page_statistics import PageStatistics, Part
from headrace.pipeline.core.settings import Fraction, Positive, settings


@settings
class DuplicateParts(PageRule):
    """Limits the lines (or paragraphs) that repeat an earlier one, and the characters in them."""

    explanation: ClassVar[Templates] = (
        "Drops pages with too many repeated {part}: more than {max_fraction}, or {max_character_fraction} of the text.",
        "{share} repeated",
    )
    type: Literal["duplicate_parts"] = "duplicate_parts"
    part: Part = "lines"
    """The parts that are compared."""
    max_fraction: Fraction = 0.3
    """Highest fraction of repeated parts (table A1: 0.30 for both)."""
    max_character_fraction: Fraction = 0.2
    """Highest fraction of characters in repeated parts (table A1: 0.20 for both)."""

    @property
    def value_names(self) -> tuple[str, ...]:
        return self.reason, f"{self.reason}_characters"

    def measured(self, page: PageStatistics) -> tuple[float, float]:
        return page.repeated(self.part)

    def failure(self, page: PageStatistics) -> str | None:
        fraction, character_fraction = self.measured(page)
        return above(fraction, self.max_fraction) or above(character_fraction, self.max_character_fraction)


@settings
class TopNgram(PageRule):
    """Limits the characters in the most frequent n-gram (in the longest, if several are equally frequent)."""

    explanation: ClassVar[Templates] = (
        "Drops pages where the most frequent run of {words} words has more than {max_fraction} of the text.",
        "{share} of the text, at most {max_fraction} allowed",
    )
    type: Literal["top_ngram"] = "top_ngram"
    words: Positive
    """Words of the n-gram (table A1: 2, 3, 4)."""
    max_fraction: Fraction
    """Highest fraction of the words' characters (table A1: 0.20, 0.18, 0.16)."""

    def measured(self, page: PageStatistics) -> tuple[float]:
        return (page.top_ngram(self.words),)

    def failure(self, page: PageStatistics) -> str | None:
        return above(*self.measured(page), self.max_fraction)


@settings
class DuplicateNgrams(PageRule):
    """Limits the characters in n-grams that occur more than once. Overlaps count once."""

    explanation: ClassVar[Templates] = (
        "Drops pages where repeated runs of {words} words have more than {max_fraction} of the text.",
        "{share} of the text, at most {max_fraction} allowed",
    )
    type: Literal["duplicate_ngrams"] = "duplicate_ngrams"
    words: Positive
    """Words of the n-grams (table A1: 5 to 10)."""
    max_fraction: Fraction
    """Highest fraction of the words' characters (table A1: 0.15, 0.14, 0.13, 0.12, 0.11, 0.10)."""

    def measured(self, page: PageStatistics) -> tuple[float]:
        return (page.duplicate_ngrams(self.words),)

    def failure(self, page: PageStatistics) -> str | None:
        return above(*self.measured(page), self.max_fraction)


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
class GopherRepetition(PageFilter):
    """Drops pages that fail one of ``rules``."""

    type: Literal["gopher_repetition"] = "gopher_repetition"
    rules: tuple[AnyRepetitionRule, ...] = TABLE_A1
    """The rules, applied in this order. The first that fails is the reason."""
    counting: Counting = "paper"
    """Way of counting words and characters: the paper's, datatrove's, or that of any script (page_statistics.py)."""

"""FineWeb's own rules for a page, which drop lists and menus (Penedo et al. 2024, "The FineWeb Datasets", section 3.5).

    text ── split at line feeds ──> lines that are not blank ── rule, rule, … ──> the first that fails is the reason

Formulas and thresholds are those of ``fineweb_quality_filter.py`` of datatrove 0.10.1. Where the paper and the code
differ, this module follows the code.
"""

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from headrace.data_prep.filters.filter import Templates, above, below, filter_settings, ratio
from headrace.data_prep.filters.page_rules import Counting, PageFilter, PageRule
from headrace.data_prep.filters.page_statistics import PageStatistics, count_repeats
from headrace.pipeline.core.settings import Fraction, Natural, NaturalNumber, SomeTexts, settings


def nonblank_lines(page: PageStatistics) -> list[str]:
    """Returns the lines that hold more than white space, not stripped."""
    return [line for line in page.text.split("\n") if line.strip()]


@settings
class LinePunctuation(PageRule):
    """Requires that at least ``min_fraction`` of the lines end in one of ``marks``. A page without lines fails."""

    explanation: ClassVar[Templates] = (
        "Drops pages in which fewer than {min_fraction} of the lines end in a punctuation mark.",
        "{share} of the lines end in a mark, {min_fraction} needed",
    )
    type: Literal["line_punctuation"] = "line_punctuation"
    min_fraction: Fraction = 0.12
    """Lowest fraction of lines (FineWeb: 0.12)."""
    marks: SomeTexts | None = None
    """Accepted line ends; None: datatrove's list of terminal punctuation in all scripts. With words of any script,
    quotation marks and brackets may follow, and None adds ends that some languages use (page_statistics.py)."""

    def measured(self, page: PageStatistics) -> tuple[float]:
        lines = nonblank_lines(page)
        return (ratio(sum(page.ends_sentence(line, self.marks) for line in lines), len(lines)),)

    def failure(self, page: PageStatistics) -> str | None:
        return below(*self.measured(page), self.min_fraction)


@settings
class ShortLines(PageRule):
    """Requires that at most ``max_fraction`` of the lines have ``max_characters`` or fewer."""

    measures_by: ClassVar[tuple[str, ...]] = ("max_characters",)
    explanation: ClassVar[Templates] = (
        "Drops pages in which more than {max_fraction} of the lines have {max_characters} characters or fewer.",
        "{share} of the lines are short, at most {max_fraction} allowed",
    )
    type: Literal["short_lines"] = "short_lines"
    max_fraction: Fraction = 0.67
    """Highest fraction of lines (FineWeb: 0.67)."""
    max_characters: Natural = 30
    """Most characters of a short line (FineWeb: 30)."""

    def measured(self, page: PageStatistics) -> tuple[float]:
        lines = nonblank_lines(page)
        return (ratio(sum(len(line) <= self.max_characters for line in lines), len(lines)),)

    def failure(self, page: PageStatistics) -> str | None:
        return above(*self.measured(page), self.max_fraction)


@settings
class DuplicateLines(PageRule):
    """Requires that at most ``max_character_fraction`` of the characters are in lines that repeat an earlier line.

    Line feeds do not count as characters.
    """

    explanation: ClassVar[Templates] = (
        "Drops pages with more than {max_character_fraction} of the text in repeated lines.",
        "{share} of the text is in repeated lines, at most {max_character_fraction} allowed",
    )
    type: Literal["duplicate_lines"] = "duplicate_lines"
    max_character_fraction: Fraction = 0.01
    """Highest fraction of characters (FineWeb's code: 0.01; its paper: 0.1)."""

    def measured(self, page: PageStatistics) -> tuple[float]:
        characters = len(page.text) - page.text.count("\n")
        return (ratio(count_repeats(nonblank_lines(page))[1], characters),)

    def failure(self, page: PageStatistics) -> str | None:
        return above(*self.measured(page), self.max_character_fraction)


@settings
class LineBreaks(PageRule):
    """Requires at most ``max_per_word`` line feeds per word. Pages with more are lists."""

    explanation: ClassVar[Templates] = (
        "Drops pages with more than {max_per_word} line breaks per word, which are lists.",
        "{value} line breaks per word, at most {max_per_word} allowed",
    )
    type: Literal["line_breaks"] = "line_breaks"
    max_per_word: NaturalNumber = 0.3
    """Highest number of line feeds per word (FineWeb's code: 0.3)."""

    def measured(self, page: PageStatistics) -> tuple[float]:
        return (ratio(page.text.count("\n"), len(page.words)),)

    def failure(self, page: PageStatistics) -> str | None:
        return above(*self.measured(page), self.max_per_word)


AnyFineWebRule = Annotated[LinePunctuation | ShortLines | DuplicateLines | LineBreaks, Field(discriminator="type")]


@filter_settings
class FineWebQuality(PageFilter):
    """Drops pages that fail one of ``rules``."""

    type: Literal["fineweb_quality"] = "fineweb_quality"
    rules: tuple[AnyFineWebRule, ...] = (LinePunctuation(), ShortLines(), DuplicateLines(), LineBreaks())
    """The rules, applied in this order. The first that fails is the reason."""
    counting: Counting = "datatrove"
    """Way of splitting and counting words (page_statistics.py); datatrove's is for English."""

"""FineWeb's own rules for a page (Penedo et al. 2024, "The FineWeb Datasets", section 3.5): lists and menus out.

    text ── line feeds ──> lines that are not blank ── rule, rule, … ──> the first that fails is the reason

Formulas and thresholds: ``fineweb_quality_filter.py`` of datatrove 0.10.1. Where paper and code differ, the code
decides.
"""

from typing import Annotated, Literal

from datatrove.data import Document
from datatrove.utils.text import TERMINAL_PUNCTUATION
from pydantic import Field

from headrace.data_prep.document import Drop
from headrace.data_prep.filters.filter import Filter, filter_settings
from headrace.data_prep.filters.gopher.datatrove_page import first_failure
from headrace.data_prep.filters.gopher.page import Page, PageRule, above, below, repeats, share
from headrace.pipeline.core.settings import Fraction, Natural, NaturalNumber, settings

MARKS = tuple(sorted(TERMINAL_PUNCTUATION))
"""What ends a sentence in any script, as datatrove lists it."""


def filled_lines(page: Page) -> list[str]:
    """The lines, as they are, that hold more than white space."""
    return [line for line in page.text.split("\n") if line.strip()]


@settings
class LinePunctuation(PageRule):
    """At least ``min_fraction`` of the lines end in one of ``marks``; a page without lines fails."""

    type: Literal["line_punctuation"] = "line_punctuation"
    min_fraction: Fraction = 0.12
    """The least fraction (FineWeb: 0.12)."""
    marks: tuple[str, ...] | None = None
    """What a line may end in; None: datatrove's list of terminal punctuation in all scripts."""

    def failure(self, page: Page) -> str | None:
        lines = filled_lines(page)
        marks = MARKS if self.marks is None else self.marks
        return below(share(sum(line.endswith(marks) for line in lines), len(lines)), self.min_fraction)


@settings
class ShortLines(PageRule):
    """At most ``max_fraction`` of the lines have ``max_characters`` or fewer."""

    type: Literal["short_lines"] = "short_lines"
    max_fraction: Fraction = 0.67
    """The greatest fraction (FineWeb: 0.67)."""
    max_characters: Natural = 30
    """The longest line that counts as short (FineWeb: 30)."""

    def failure(self, page: Page) -> str | None:
        lines = filled_lines(page)
        return above(share(sum(len(line) <= self.max_characters for line in lines), len(lines)), self.max_fraction)


@settings
class DuplicateLines(PageRule):
    """At most ``max_character_fraction`` of the characters, line feeds apart, are in lines that repeat one."""

    type: Literal["duplicate_lines"] = "duplicate_lines"
    max_character_fraction: Fraction = 0.01
    """The greatest fraction (FineWeb's code: 0.01; its paper says 0.1)."""

    def failure(self, page: Page) -> str | None:
        characters = len(page.text) - page.text.count("\n")
        return above(share(repeats(filled_lines(page))[1], characters), self.max_character_fraction)


@settings
class LineBreaks(PageRule):
    """At most ``max_per_word`` line feeds for each word: more is a list."""

    type: Literal["line_breaks"] = "line_breaks"
    max_per_word: NaturalNumber = 0.3
    """The greatest ratio (FineWeb's code: 0.3)."""

    def failure(self, page: Page) -> str | None:
        return above(share(page.text.count("\n"), len(page.words)), self.max_per_word)


AnyFineWebRule = Annotated[LinePunctuation | ShortLines | DuplicateLines | LineBreaks, Field(discriminator="type")]


@filter_settings
class FineWebQuality(Filter):
    """Drops pages that fail one of ``rules``; words are those of datatrove (datatrove_page.py)."""

    type: Literal["fineweb_quality"] = "fineweb_quality"
    rules: tuple[AnyFineWebRule, ...] = (LinePunctuation(), ShortLines(), DuplicateLines(), LineBreaks())
    """The rules, tried in this order; the first that fails is the reason."""

    def judge(self, document: Document) -> Drop | None:
        return first_failure(self.type, self.rules, document, "datatrove")

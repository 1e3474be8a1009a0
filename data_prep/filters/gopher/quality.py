"""MassiveText's quality rules (Rae et al. 2021, appendix A1.1, "Quality filtering"): is this prose?

Each rule is a class, its ``type`` the reason; the first that fails drops the page.
"""

from typing import Annotated, Literal

from datatrove.data import Document
from pydantic import Field

from headrace.data_prep.document import Drop
from headrace.data_prep.filters.filter import Filter, filter_settings
from headrace.data_prep.filters.gopher.datatrove_page import Counting, first_failure
from headrace.data_prep.filters.gopher.page import Page, PageRule, above, below, share
from headrace.pipeline.core.errors import ConfigError
from headrace.pipeline.core.settings import Fraction, Natural, NaturalNumber, Positive, PositiveNumber, settings


def refuse_crossed(where: str, least: float, name: str, most: float) -> None:
    """Refuse bounds that no page can keep.

    Raises:
        ConfigError: naming both.
    """
    if least > most:
        raise ConfigError(where, f"{least} is above {name} = {most}: every page would be dropped", "exchange them")


@settings
class WordCount(PageRule):
    """A page has between ``min_words`` and ``max_words`` words."""

    type: Literal["word_count"] = "word_count"
    min_words: Natural = 50
    """The fewest words (Gopher: 50)."""
    max_words: Positive = 100_000
    """The most words (Gopher: 100,000)."""

    def __post_init__(self) -> None:
        refuse_crossed("word_count.min_words", self.min_words, "max_words", self.max_words)

    def failure(self, page: Page) -> str | None:
        number = len(page.counted_words)
        return None if self.min_words <= number <= self.max_words else str(number)


@settings
class WordLength(PageRule):
    """The mean length of the words is between ``min_characters`` and ``max_characters``."""

    type: Literal["word_length"] = "word_length"
    min_characters: NaturalNumber = 3
    """The least mean length (Gopher: 3)."""
    max_characters: PositiveNumber = 10
    """The greatest mean length (Gopher: 10)."""

    def __post_init__(self) -> None:
        refuse_crossed("word_length.min_characters", self.min_characters, "max_characters", self.max_characters)

    def failure(self, page: Page) -> str | None:
        mean = share(sum(map(len, page.counted_words)), len(page.counted_words))
        return None if self.min_characters <= mean <= self.max_characters else f"{mean:.4f}"


@settings
class Symbols(PageRule):
    """Neither hash signs nor ellipses (``...``, ``…``) are more than ``max_fraction`` of the number of words."""

    type: Literal["symbols"] = "symbols"
    max_fraction: NaturalNumber = 0.1
    """The greatest symbol-to-word ratio (Gopher: 0.1)."""

    def failure(self, page: Page) -> str | None:
        ellipses = page.text.count("...") + page.text.count("…")
        return above(share(max(page.text.count("#"), ellipses), len(page.words)), self.max_fraction)


@settings
class BulletLines(PageRule):
    """At most ``max_fraction`` of the lines begin with one of ``bullets``."""

    type: Literal["bullet_lines"] = "bullet_lines"
    bullets: tuple[str, ...] = ("•", "‣", "◦", "-", "*")
    """What a bullet is (the paper does not list them)."""
    max_fraction: Fraction = 0.9
    """The greatest fraction (Gopher: 90 %)."""

    def failure(self, page: Page) -> str | None:
        return above(
            share(sum(line.startswith(self.bullets) for line in page.lines), len(page.lines)), self.max_fraction
        )


@settings
class EllipsisLines(PageRule):
    """At most ``max_fraction`` of the lines end in an ellipsis."""

    type: Literal["ellipsis_lines"] = "ellipsis_lines"
    max_fraction: Fraction = 0.3
    """The greatest fraction (Gopher: 30 %)."""

    def failure(self, page: Page) -> str | None:
        return above(share(sum(line.endswith(("...", "…")) for line in page.lines), len(page.lines)), self.max_fraction)


@settings
class AlphabeticWords(PageRule):
    """At least ``min_fraction`` of the words hold a letter."""

    type: Literal["alphabetic_words"] = "alphabetic_words"
    min_fraction: Fraction = 0.8
    """The least fraction (Gopher: 80 %)."""

    def failure(self, page: Page) -> str | None:
        fraction = share(sum(any(map(str.isalpha, word)) for word in page.words), len(page.words))
        return below(fraction, self.min_fraction)


@settings
class StopWords(PageRule):
    """At least ``min_words`` different ones of ``words`` occur, in any case, without the punctuation around them.

    datatrove counts them in lower case only.
    """

    type: Literal["stop_words"] = "stop_words"
    words: tuple[str, ...] = ("the", "be", "to", "of", "and", "that", "have", "with")
    """English stop words (Gopher's eight)."""
    min_words: Natural = 2
    """How many of them (Gopher: two)."""

    def failure(self, page: Page) -> str | None:
        found = page.bare_words.intersection(self.words)
        return None if len(found) >= self.min_words else str(len(found))


AnyQualityRule = Annotated[
    WordCount | WordLength | Symbols | BulletLines | EllipsisLines | AlphabeticWords | StopWords,
    Field(discriminator="type"),
]


@filter_settings
class GopherQuality(Filter):
    """Drops pages that fail one of ``rules``."""

    type: Literal["gopher_quality"] = "gopher_quality"
    rules: tuple[AnyQualityRule, ...] = (
        WordCount(),
        WordLength(),
        Symbols(),
        BulletLines(),
        EllipsisLines(),
        AlphabeticWords(),
        StopWords(),
    )
    """The rules, tried in this order; the first that fails is the reason."""
    counting: Counting = "paper"
    """How words and lines are cut and counted: as the paper words it, or as datatrove does (datatrove_page.py)."""

    def judge(self, document: Document) -> Drop | None:
        return first_failure(self.type, self.rules, document, self.counting)

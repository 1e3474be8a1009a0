"""MassiveText's quality rules, which keep prose (Rae et al. 2021, appendix A1.1, "Quality filtering").

Each rule is a class and its ``type`` is the reason. The first rule that fails drops the page.
"""

from typing import Annotated, ClassVar, Literal

from datatrove.data import Document
from pydantic import Field

from headrace.data_prep.filters.filter import Templates, above, below, filter_settings, ratio
from headrace.data_prep.filters.gopher.stop_words import StopWords
from headrace.data_prep.filters.page_rules import Counting, PageFilter, PageRule
from headrace.data_prep.filters.page_statistics import PageStatistics
from headrace.pipeline.core.errors import ConfigError
from headrace.pipeline.core.settings import (
    Fraction,
    Natural,
    NaturalNumber,
    Positive,
    PositiveNumber,
    SomeTexts,
    settings,
)


def check_bounds(where: str, lower: float, name: str, upper: float) -> None:
    """Checks that the lower bound ``where`` is not above the upper bound ``name``.

    Raises:
        ConfigError: when it is. The message names both.
    """
    if lower > upper:
        raise ConfigError(where, f"{lower} is above {name} = {upper}: every page would be dropped", "exchange them")


@settings
class WordCount(PageRule):
    """Requires between ``min_words`` and ``max_words`` words."""

    explanation: ClassVar[Templates] = (
        "Drops pages with fewer than {min_words} or more than {max_words} words.",
        "{number} words, {min_words} to {max_words} allowed",
    )
    type: Literal["word_count"] = "word_count"
    min_words: Natural = 50
    """Fewest words (Gopher: 50)."""
    max_words: Positive = 100_000
    """Most words (Gopher: 100,000)."""

    def __post_init__(self) -> None:
        check_bounds("word_count.min_words", self.min_words, "max_words", self.max_words)

    def measured(self, page: PageStatistics) -> tuple[int]:
        return (len(page.counted_words),)

    def failure(self, page: PageStatistics) -> str | None:
        (number,) = self.measured(page)
        return None if self.min_words <= number <= self.max_words else str(number)


@settings
class WordLength(PageRule):
    """Requires a mean word length between ``min_characters`` and ``max_characters``."""

    explanation: ClassVar[Templates] = (
        "Drops pages whose words have a mean length below {min_characters} or above {max_characters} characters.",
        "{value} characters per word, {min_characters} to {max_characters} allowed",
    )
    type: Literal["word_length"] = "word_length"
    min_characters: NaturalNumber = 3
    """Lowest mean length (Gopher: 3)."""
    max_characters: PositiveNumber = 10
    """Highest mean length (Gopher: 10)."""

    def __post_init__(self) -> None:
        check_bounds("word_length.min_characters", self.min_characters, "max_characters", self.max_characters)

    def measured(self, page: PageStatistics) -> tuple[float]:
        return (ratio(sum(map(len, page.counted_words)), len(page.counted_words)),)

    def failure(self, page: PageStatistics) -> str | None:
        (mean,) = self.measured(page)
        return None if self.min_characters <= mean <= self.max_characters else f"{mean:.4f}"


@settings
class Symbols(PageRule):
    """Requires at most ``max_fraction`` hash signs per word, and at most as many ellipses (``...``, ``…``)."""

    explanation: ClassVar[Templates] = (
        "Drops pages with more than {max_fraction} hash signs or ellipses per word.",
        "{share} symbols per word, at most {max_fraction} allowed",
    )
    type: Literal["symbols"] = "symbols"
    max_fraction: NaturalNumber = 0.1
    """Highest symbol-to-word ratio (Gopher: 0.1)."""

    def measured(self, page: PageStatistics) -> tuple[float]:
        ellipses = page.text.count("...") + page.text.count("…")
        return (ratio(max(page.text.count("#"), ellipses), len(page.words)),)

    def failure(self, page: PageStatistics) -> str | None:
        return above(*self.measured(page), self.max_fraction)


@settings
class BulletLines(PageRule):
    """Requires that at most ``max_fraction`` of the lines begin with one of ``bullets``."""

    explanation: ClassVar[Templates] = (
        "Drops pages with more than {max_fraction} lines that begin with a bullet.",
        "{share} of the lines begin with a bullet, at most {max_fraction} allowed",
    )
    type: Literal["bullet_lines"] = "bullet_lines"
    bullets: SomeTexts = ("•", "‣", "◦", "-", "*")
    """Characters that count as bullets (the paper does not list them)."""
    max_fraction: Fraction = 0.9
    """Highest fraction of lines (Gopher: 90 %)."""

    def measured(self, page: PageStatistics) -> tuple[float]:
        return (ratio(sum(line.startswith(self.bullets) for line in page.lines), len(page.lines)),)

    def failure(self, page: PageStatistics) -> str | None:
        return above(*self.measured(page), self.max_fraction)


@settings
class EllipsisLines(PageRule):
    """Requires that at most ``max_fraction`` of the lines end in an ellipsis."""

    explanation: ClassVar[Templates] = (
        "Drops pages with more than {max_fraction} lines that end in an ellipsis.",
        "{share} of the lines end in an ellipsis, at most {max_fraction} allowed",
    )
    type: Literal["ellipsis_lines"] = "ellipsis_lines"
    max_fraction: Fraction = 0.3
    """Highest fraction of lines (Gopher: 30 %)."""

    def measured(self, page: PageStatistics) -> tuple[float]:
        return (ratio(sum(line.endswith(("...", "…")) for line in page.lines), len(page.lines)),)

    def failure(self, page: PageStatistics) -> str | None:
        return above(*self.measured(page), self.max_fraction)


@settings
class AlphabeticWords(PageRule):
    """Requires that at least ``min_fraction`` of the words contain a letter."""

    explanation: ClassVar[Templates] = (
        "Drops pages in which fewer than {min_fraction} of the words have a letter.",
        "{share} of the words have a letter, {min_fraction} needed",
    )
    type: Literal["alphabetic_words"] = "alphabetic_words"
    min_fraction: Fraction = 0.8
    """Lowest fraction of words (Gopher: 80 %)."""

    def measured(self, page: PageStatistics) -> tuple[float]:
        words = page.words_and_marks
        return (ratio(sum(any(map(str.isalpha, word)) for word in words), len(words)),)

    def failure(self, page: PageStatistics) -> str | None:
        return below(*self.measured(page), self.min_fraction)


AnyQualityRule = Annotated[
    WordCount | WordLength | Symbols | BulletLines | EllipsisLines | AlphabeticWords | StopWords,
    Field(discriminator="type"),
]


@filter_settings
class GopherQuality(PageFilter):
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
    """The rules, applied in this order. The first that fails is the reason."""
    counting: Counting = "paper"
    """Way of counting words and lines: the paper's, datatrove's, or that of any script (page_statistics.py)."""

    def english_rules(self, document: Document) -> tuple[str, ...]:
        """Returns the rule of stop words with Gopher's, and all rules when nltk splits words as in English."""
        english = (rule for rule in self.rules if isinstance(rule, StopWords) and rule.words == StopWords().words)
        return super().english_rules(document) or tuple(f"{self.type}.{rule.reason}" for rule in english)

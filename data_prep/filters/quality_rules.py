"""Rules for the quality of a page: MassiveText's, of which Gopher learned, and FineWeb's.

    gopher_quality       keeps prose                        Rae et al. 2021, appendix A1.1, "Quality filtering"
    gopher_repetition    drops repetitive pages             table A1 there
    fineweb_quality      drops lists and menus              Penedo et al. 2024, "The FineWeb Datasets", section 3.5

Each rule is a class: its type and the unit that it counts are the reason, the first line of its docstring explains it.
FineWeb's formulas and thresholds are those of ``fineweb_quality_filter.py`` of datatrove 0.10.1; where the paper and
the code differ, they follow the code. Stop words of other languages: ``{type: stop_words, words: [der, und]}``.
"""

from typing import Annotated, ClassVar, Literal

from datatrove.data import Document
from pydantic import Field

from headrace.data_prep.filters.filter import check_lower_case, filter_settings, ratio
from headrace.data_prep.filters.page_filter import Bounds, Counting, PageFilter, PageRule
from headrace.data_prep.filters.page_statistics import PageStatistics, Part, count_repeats
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

ELLIPSES = ("...", "…")


def _check_bounds(where: str, lower: float, name: str, upper: float) -> None:
    """Raises ConfigError if the lower bound ``where`` is above the upper bound ``name``."""
    if lower > upper:
        raise ConfigError(where, f"{lower} is above {name} = {upper}: every page would be dropped", "exchange them")


@settings
class WordCount(PageRule):
    """Drops pages with fewer than ``min_words`` or more than ``max_words`` words."""

    meaning: ClassVar[str] = "{number} words, {min_words} to {max_words} allowed"
    type: Literal["word_count"] = "word_count"
    min_words: Natural = 50
    """Fewest words (Gopher: 50)."""
    max_words: Positive = 100_000
    """Most words (Gopher: 100,000)."""

    def __post_init__(self) -> None:
        _check_bounds("word_count.min_words", self.min_words, "max_words", self.max_words)

    def measured(self, page: PageStatistics) -> tuple[int]:
        return (len(page.counted_words),)


@settings
class WordLength(PageRule):
    """Drops pages whose words have a mean length below ``min_characters`` or above ``max_characters`` characters."""

    meaning: ClassVar[str] = "{value} characters per word, {min_characters} to {max_characters} allowed"
    type: Literal["word_length"] = "word_length"
    min_characters: NaturalNumber = 3
    """Lowest mean length (Gopher: 3)."""
    max_characters: PositiveNumber = 10
    """Highest mean length (Gopher: 10)."""

    def __post_init__(self) -> None:
        _check_bounds("word_length.min_characters", self.min_characters, "max_characters", self.max_characters)

    def measured(self, page: PageStatistics) -> tuple[float]:
        return (ratio(sum(map(len, page.counted_words)), len(page.counted_words)),)


@settings
class Symbols(PageRule):
    """Drops pages with more than ``max_fraction`` hash signs or ellipses per word."""

    meaning: ClassVar[str] = "{share} symbols per word, at most {max_fraction} allowed"
    type: Literal["symbols"] = "symbols"
    max_fraction: NaturalNumber = 0.1
    """Highest symbol-to-word ratio, of hash signs and of ellipses (``...``, ``…``) each (Gopher: 0.1)."""

    def measured(self, page: PageStatistics) -> tuple[float]:
        return (ratio(max(page.text.count("#"), sum(map(page.text.count, ELLIPSES))), len(page.words)),)


@settings
class BulletLines(PageRule):
    """Drops pages with more than ``max_fraction`` lines that begin with a bullet."""

    meaning: ClassVar[str] = "{share} of the lines begin with a bullet, at most {max_fraction} allowed"
    type: Literal["bullet_lines"] = "bullet_lines"
    bullets: SomeTexts = ("•", "‣", "◦", "-", "*")
    """Characters that count as bullets (the paper does not list them)."""
    max_fraction: Fraction = 0.9
    """Highest fraction of lines (Gopher: 90 %)."""

    def measured(self, page: PageStatistics) -> tuple[float]:
        return (ratio(sum(line.startswith(self.bullets) for line in page.lines), len(page.lines)),)


@settings
class EllipsisLines(PageRule):
    """Drops pages with more than ``max_fraction`` lines that end in an ellipsis."""

    meaning: ClassVar[str] = "{share} of the lines end in an ellipsis, at most {max_fraction} allowed"
    type: Literal["ellipsis_lines"] = "ellipsis_lines"
    max_fraction: Fraction = 0.3
    """Highest fraction of lines (Gopher: 30 %)."""

    def measured(self, page: PageStatistics) -> tuple[float]:
        return (ratio(sum(line.endswith(ELLIPSES) for line in page.lines), len(page.lines)),)


@settings
class AlphabeticWords(PageRule):
    """Drops pages in which fewer than ``min_fraction`` of the words have a letter."""

    meaning: ClassVar[str] = "{share} of the words have a letter, {min_fraction} needed"
    type: Literal["alphabetic_words"] = "alphabetic_words"
    min_fraction: Fraction = 0.8
    """Lowest fraction of words (Gopher: 80 %)."""

    def measured(self, page: PageStatistics) -> tuple[float]:
        words = page.words_and_marks
        return (ratio(sum(any(map(str.isalpha, word)) for word in words), len(words)),)


@settings
class StopWords(PageRule):
    """Drops pages with fewer than ``min_words`` of the words ``words``.

    They count in any case and without punctuation around them; datatrove counts words in lower case only.
    """

    meaning: ClassVar[str] = "{number} of these words, {min_words} needed"
    type: Literal["stop_words"] = "stop_words"
    words: SomeTexts = ("the", "be", "to", "of", "and", "that", "have", "with")
    """English stop words (the eight of Gopher). With words of any script, ``-는`` is the end of a word."""
    min_words: Natural = 2
    """Fewest different stop words (Gopher: 2)."""

    def __post_init__(self) -> None:
        check_lower_case("stop_words.words", self.words)
        if self.min_words > (most := len(set(self.words))):
            problem = f"{self.min_words} of {most} different words: every page would be dropped"
            raise ConfigError("stop_words.min_words", problem, f"give at most {most}, or more words")

    def measured(self, page: PageStatistics) -> tuple[int]:
        return (len(page.present(self.words)),)


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


@settings
class DuplicateParts(PageRule):
    """Drops pages with too many repeated ``part``: above ``max_fraction``, or ``max_character_fraction`` of the text.

    These are the lines (or paragraphs) that repeat an earlier one, and the characters in them.
    """

    meaning: ClassVar[str] = "{share} repeated"
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

    @property
    def bounds(self) -> tuple[Bounds, ...]:
        return (0, self.max_fraction), (0, self.max_character_fraction)

    def measured(self, page: PageStatistics) -> tuple[float, float]:
        return page.repeated(self.part)


@settings
class TopNgram(PageRule):
    """Drops pages where the most frequent run of ``words`` words has more than ``max_fraction`` of the text."""

    meaning: ClassVar[str] = "{share} of the text, at most {max_fraction} allowed"
    type: Literal["top_ngram"] = "top_ngram"
    words: Positive
    """Words of the n-gram (table A1: 2, 3, 4)."""
    max_fraction: Fraction
    """Highest fraction of the words' characters (table A1: 0.20, 0.18, 0.16)."""

    def measured(self, page: PageStatistics) -> tuple[float]:
        return (page.top_ngram(self.words),)


@settings
class DuplicateNgrams(PageRule):
    """Drops pages where repeated runs of ``words`` words have more than ``max_fraction`` of the text."""

    meaning: ClassVar[str] = "{share} of the text, at most {max_fraction} allowed"
    type: Literal["duplicate_ngrams"] = "duplicate_ngrams"
    words: Positive
    """Words of the n-grams (table A1: 5 to 10)."""
    max_fraction: Fraction
    """Highest fraction of the words' characters (table A1: 0.15, 0.14, 0.13, 0.12, 0.11, 0.10)."""

    def measured(self, page: PageStatistics) -> tuple[float]:
        return (page.duplicate_ngrams(self.words),)


AnyRepetitionRule = Annotated[DuplicateParts | TopNgram | DuplicateNgrams, Field(discriminator="type")]
TOP = ((2, 0.20), (3, 0.18), (4, 0.16))
DUPLICATE = ((5, 0.15), (6, 0.14), (7, 0.13), (8, 0.12), (9, 0.11), (10, 0.10))


@filter_settings
class GopherRepetition(PageFilter):
    """Drops pages that fail one of ``rules``."""

    type: Literal["gopher_repetition"] = "gopher_repetition"
    rules: tuple[AnyRepetitionRule, ...] = (
        DuplicateParts(part="lines"),
        DuplicateParts(part="paragraphs"),
        *(TopNgram(words=n, max_fraction=fraction) for n, fraction in TOP),
        *(DuplicateNgrams(words=n, max_fraction=fraction) for n, fraction in DUPLICATE),
    )
    """The rules, applied in this order. The first that fails is the reason."""
    counting: Counting = "paper"
    """Way of counting words and characters: the paper's, datatrove's, or that of any script (page_statistics.py)."""


@settings
class LinePunctuation(PageRule):
    """Drops pages in which fewer than ``min_fraction`` of the lines end in a punctuation mark.

    A page without lines fails.
    """

    meaning: ClassVar[str] = "{share} of the lines end in a mark, {min_fraction} needed"
    type: Literal["line_punctuation"] = "line_punctuation"
    min_fraction: Fraction = 0.12
    """Lowest fraction of lines (FineWeb: 0.12)."""
    marks: SomeTexts | None = None
    """Accepted line ends; None: datatrove's list of terminal punctuation in all scripts. With words of any script,
    quotation marks and brackets may follow, and None adds ends that some languages use (page_statistics.py)."""

    def measured(self, page: PageStatistics) -> tuple[float]:
        lines = page.nonblank_lines
        return (ratio(sum(page.ends_sentence(line, self.marks) for line in lines), len(lines)),)


@settings
class ShortLines(PageRule):
    """Drops pages in which more than ``max_fraction`` of the lines have ``max_characters`` characters or fewer."""

    measures_by: ClassVar[tuple[str, ...]] = ("max_characters",)
    meaning: ClassVar[str] = "{share} of the lines are short, at most {max_fraction} allowed"
    type: Literal["short_lines"] = "short_lines"
    max_fraction: Fraction = 0.67
    """Highest fraction of lines (FineWeb: 0.67)."""
    max_characters: Natural = 30
    """Most characters of a short line (FineWeb: 30)."""

    def measured(self, page: PageStatistics) -> tuple[float]:
        lines = page.nonblank_lines
        return (ratio(sum(len(line) <= self.max_characters for line in lines), len(lines)),)


@settings
class DuplicateLines(PageRule):
    """Drops pages with more than ``max_character_fraction`` of the text in repeated lines.

    Line feeds do not count as characters.
    """

    meaning: ClassVar[str] = "{share} of the text is in repeated lines, at most {max_character_fraction} allowed"
    type: Literal["duplicate_lines"] = "duplicate_lines"
    max_character_fraction: Fraction = 0.01
    """Highest fraction of characters (FineWeb's code: 0.01; its paper: 0.1)."""

    def measured(self, page: PageStatistics) -> tuple[float]:
        characters = len(page.text) - page.text.count("\n")
        return (ratio(count_repeats(page.nonblank_lines)[1], characters),)


@settings
class LineBreaks(PageRule):
    """Drops pages with more than ``max_per_word`` line breaks per word, which are lists."""

    meaning: ClassVar[str] = "{value} line breaks per word, at most {max_per_word} allowed"
    type: Literal["line_breaks"] = "line_breaks"
    max_per_word: NaturalNumber = 0.3
    """Highest number of line feeds per word (FineWeb's code: 0.3)."""

    def measured(self, page: PageStatistics) -> tuple[float]:
        return (ratio(page.text.count("\n"), len(page.words)),)


AnyFineWebRule = Annotated[LinePunctuation | ShortLines | DuplicateLines | LineBreaks, Field(discriminator="type")]


@filter_settings
class FineWebQuality(PageFilter):
    """Drops pages that fail one of ``rules``."""

    type: Literal["fineweb_quality"] = "fineweb_quality"
    rules: tuple[AnyFineWebRule, ...] = (LinePunctuation(), ShortLines(), DuplicateLines(), LineBreaks())
    """The rules, applied in this order. The first that fails is the reason."""
    counting: Counting = "datatrove"
    """Way of splitting and counting words (page_statistics.py); datatrove's is for English."""

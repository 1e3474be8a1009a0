"""MassiveText's rule of stop words. Other languages are set by ``{type: stop_words, words: [der, und]}``."""

from typing import ClassVar, Literal

from headrace.data_prep.filters.filter import Templates, check_lower_case
from headrace.data_prep.filters.page_rules import PageRule
from headrace.data_prep.filters.page_statistics import PageStatistics
from headrace.pipeline.core.errors import ConfigError
from headrace.pipeline.core.settings import Natural, SomeTexts, settings


@settings
class StopWords(PageRule):
    """Requires at least ``min_words`` different words of ``words``, in any case and without punctuation around them.

    datatrove counts words in lower case only.
    """

    explanation: ClassVar[Templates] = (
        "Drops pages with fewer than {min_words} of the words {words}.",
        "{number} of these words, {min_words} needed",
    )
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

    def failure(self, page: PageStatistics) -> str | None:
        (present,) = self.measured(page)
        return None if present >= self.min_words else str(present)

"""Items of benchmarks in texts, as the stages ``unique`` and ``overlaps`` find and remove them."""

from collections.abc import Iterable, Mapping
from typing import Any

from datatrove.data import Document

from headrace.data_prep.decontamination.config import Decontamination
from headrace.data_prep.decontamination.ngrams import NGrams
from headrace.data_prep.decontamination.overlap import items_in
from headrace.data_prep.decontamination.overlap import overlaps as all_overlaps
from headrace.data_prep.decontamination.removal import Removal
from headrace.data_prep.decontamination.search import Search
from headrace.pipeline.api.verdict import text_of_caller, texts_of_caller
from headrace.pipeline.core.errors import ConfigError
from headrace.pipeline.core.settings import decode_within


class Benchmarks:
    """Finds the items of benchmarks in texts, by runs of 13 words (Brown et al., 2020, appendix C).

        quiz = headrace.Benchmarks({"quiz/1": ["What turns the wheel of the old mill by the river at night?", …], …})
        quiz.overlaps(text), quiz.masked(text)

    It takes the items: name → text or texts, or texts alone, which are named by their positions. An item with less than
    ``words`` words (13) is searched as a whole if it has at least 8, else not at all. ``masked`` also removes
    ``window_characters`` (200) on each side of a match. A pickle holds the items alone, before and after use.
    """

    def __init__(
        self, items: Mapping[str, str | Iterable[str]] | Iterable[str], *, words: int = 13, window_characters: int = 200
    ) -> None:
        if not isinstance(items, Mapping):
            items = {str(number): text for number, text in enumerate(texts_of_caller("Benchmarks", items))}
        listed = {name: [texts] if isinstance(texts, str) else texts for name, texts in items.items()}
        held = {name: texts_of_caller(f"Benchmarks, {name}", texts) for name, texts in listed.items()}
        self.__setstate__((held, {"ngram_words": words, "window_characters": window_characters}))

    def __getstate__(self) -> tuple[dict[str, list[str]], dict[str, int]]:
        """Leaves out the table of n-grams."""
        return self._state

    def __setstate__(self, state: tuple[dict[str, list[str]], dict[str, int]]) -> None:
        self._state = state
        settings = decode_within(Decontamination, {"action": "mask", **state[1]}, "Benchmarks")
        ngrams = NGrams.of_items(state[0].items(), settings.ngram_words)
        if not ngrams.keys.size:
            raise ConfigError("Benchmarks", "no item has 8 words or more", "give longer texts")
        self._removal = Removal(Search(ngrams), settings)

    def overlaps(self, text: str) -> list[dict[str, Any]]:
        """Returns the items that ``text`` overlaps with, in their order: dicts with ``item`` (its name), ``found`` of
        ``ngrams`` (the runs of the item, and how many of them are there) and ``words`` (the first run).

        Raises:
            ConfigError: when ``text`` is no str.
        """
        search = self._removal.search
        hits = search.hits(text_of_caller("Benchmarks.overlaps", text))
        matches = all_overlaps(items_in(hits, search.ngrams), search.ngrams, "", "kept")
        return [{name: getattr(match, name) for name in ("item", "found", "ngrams", "words")} for match in matches]

    def masked(self, text: str) -> str | None:
        """Returns ``text`` without the matches and the text around them; None when too little is left.

        Raises:
            ConfigError: when ``text`` is no str.
        """
        document = Document(text_of_caller("Benchmarks.masked", text), "")
        drop, _ = self._removal(document)
        return document.text if drop is None else None

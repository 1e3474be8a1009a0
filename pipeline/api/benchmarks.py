"""Items of benchmarks in texts, as the stages ``unique`` and ``overlaps`` find and remove them."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, cast

from datatrove.data import Document

from headrace.data_prep.decontamination.config import Decontamination
from headrace.data_prep.decontamination.ngrams import NGrams
from headrace.data_prep.decontamination.removal import Removal
from headrace.data_prep.decontamination.search import Search
from headrace.pipeline.api.verdict import Verdict, text_of_caller, texts_of_caller, verdict_on
from headrace.pipeline.core.errors import ConfigError
from headrace.pipeline.core.settings import decode_within


class _Items(list[str]):
    """The items of a benchmark, named by their positions."""

    def texts(self) -> Iterator[tuple[str, list[str]]]:
        return ((str(number), [text]) for number, text in enumerate(self))


class Benchmarks:
    """Finds and masks the items of benchmarks in texts, by runs of 13 words (Brown et al., 2020, appendix C).

        quiz = headrace.Benchmarks({"quiz": ["What turns the wheel of the old mill by the river at night?", …], …})
        verdict = quiz(text)

    It takes the items' texts of each benchmark; the names of items are ``quiz/0``, ``quiz/1``, … An item with less than
    ``words`` words (13) is searched as a whole if it has at least 8, else not at all. A Verdict has the text without
    the matches and without ``window_characters`` (200) on each side of them; a text of which too little is left is
    dropped as ``contaminated``. ``metadata["overlaps"]`` names each item with the number that was ``found`` of its
    ``ngrams``, and the ``words`` of the first. A pickle holds the items alone, before and after use.
    """

    def __init__(self, items: Mapping[str, Iterable[str]], *, words: int = 13, window_characters: int = 200) -> None:
        if not isinstance(items, Mapping):
            raise ConfigError("Benchmarks", f"needs texts by name (got {type(items).__name__})", "give {NAME: texts}")
        held = {name: texts_of_caller(f"Benchmarks, {name}", texts) for name, texts in items.items()}
        self.__setstate__((held, {"ngram_words": words, "window_characters": window_characters}))

    def __getstate__(self) -> tuple[dict[str, list[str]], dict[str, int]]:
        """Leaves out the table of n-grams."""
        return self._state

    def __setstate__(self, state: tuple[dict[str, list[str]], dict[str, int]]) -> None:
        self._state = state
        settings = decode_within(Decontamination, {"action": "mask", **state[1]}, "Benchmarks")
        ngrams = NGrams.of({name: cast(Any, _Items(texts)) for name, texts in state[0].items()}, settings.ngram_words)
        if not ngrams.keys.size:
            raise ConfigError("Benchmarks", "no item has 8 words or more", "give longer texts")
        self._removal = Removal(Search(ngrams), settings)

    def __call__(self, text: str) -> Verdict:
        document = Document(text_of_caller("Benchmarks", text), "")
        drop, overlaps = self._removal(document)
        names = ("item", "found", "ngrams", "words")
        document.metadata = {"overlaps": [{name: getattr(overlap, name) for name in names} for overlap in overlaps]}
        return verdict_on(document, drop)

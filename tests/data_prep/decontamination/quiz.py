"""A small benchmark, and its n-grams."""

import dataclasses
from collections.abc import Iterable

from headrace.data_prep.decontamination.ngrams import NGrams
from headrace.data_prep.decontamination.search import Search
from headrace.pipeline.core.stage import RawFile


@dataclasses.dataclass(frozen=True)
class Quiz:
    """Items by name, each with its texts."""

    given: dict[str, tuple[str, ...]]
    dirty_share: float = 0.0

    def raw_files(self) -> tuple[RawFile, ...]:
        return (RawFile("quiz.jsonl", 1, "0" * 64),)

    def texts(self) -> Iterable[tuple[str, tuple[str, ...]]]:
        return self.given.items()


def quiz(**items: str) -> Quiz:
    return Quiz({name: (text,) for name, text in items.items()})


def search_for(ngram_words: int = 13, **items: str) -> Search:
    return Search(NGrams.of({"quiz": quiz(**items)}, ngram_words))


def numbered(first: int, last: int, word: str = "word") -> str:
    """The words ``word<first>`` to ``word<last - 1>``."""
    return " ".join(f"{word}{i}" for i in range(first, last))

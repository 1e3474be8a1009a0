"""A page as datatrove's Gopher and FineWeb filters count it, which FineWeb (Penedo et al. 2024) was made with.

    text ── Punkt, Treebank ──> words          text ── line feeds ──> lines          text ── blank lines ──> paragraphs

Beside ``Page``, which counts as the Gopher paper words it:

    words       punctuation is a word of its own: nltk's ``word_tokenize``, which datatrove called when FineWeb was made
                (v0.2.0, April 2024; from v0.3 on it is spaCy's English tokenizer)
    characters  all of the text, white space included, are the whole of every fraction of repeated characters
    repeats     of n-grams (2 to 4 words): the top one's characters times its number, overlaps counted twice;
                of n-grams (5 to 10 words): only what repeats earlier words, found from left to right without overlaps

Formulas: ``gopher_quality_filter.py`` and ``gopher_repetition_filter.py`` of datatrove 0.10.1.
"""

import functools
import re
from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING, Literal

from datatrove.data import Document
from datatrove.utils.text import PUNCTUATION_SET

from headrace.data_prep.document import Drop
from headrace.data_prep.filters.gopher.page import Page, PageRule, Part, repeats, share
from headrace.data_prep.filters.sentences import sentences_of

if TYPE_CHECKING:
    from nltk.tokenize import NLTKWordTokenizer

Counting = Literal["paper", "datatrove"]
"""Whose way of counting the rules of a page go by."""


@functools.cache
def treebank() -> "NLTKWordTokenizer":
    """The package takes seconds to load, and most presets do without it."""
    from nltk.tokenize import NLTKWordTokenizer

    return NLTKWordTokenizer()


@functools.lru_cache(maxsize=1)
def words_of(text: str) -> list[str]:
    """nltk's ``word_tokenize`` with the Punkt parameters that the project finds; two filters in a row cut once."""
    return [word for sentence in sentences_of(text) for word in treebank().tokenize(sentence)]


class DatatrovePage(Page):
    """One text, cut up as datatrove does."""

    @functools.cached_property
    def words(self) -> list[str]:
        return words_of(self.text)

    @functools.cached_property
    def counted_words(self) -> list[str]:
        return [word for word in self.words if any(character not in PUNCTUATION_SET for character in word)]

    @functools.cached_property
    def bare_words(self) -> set[str]:
        return set(self.words)

    @functools.cached_property
    def lines(self) -> list[str]:
        """The stripped lines, blank ones too."""
        return [line.strip() for line in self.text.splitlines()]

    def repeated(self, part: Part) -> tuple[float, float]:
        parts = re.split(r"\n+", self.text) if part == "lines" else re.split(r"\n{2,}", self.text.strip())
        number, characters = repeats(parts)
        return share(number, len(parts)), share(characters, len(self.text))

    def top_ngram(self, n: int) -> float:
        counts = Counter(" ".join(self.words[i : i + n]) for i in range(len(self.words) - n + 1))
        if not counts:
            return 0.0
        [(top, number)] = counts.most_common(1)
        return share(len(top) * number, len(self.text))

    def duplicate_ngrams(self, n: int) -> float:
        seen: set[str] = set()
        characters = start = 0
        while start <= len(self.words) - n:
            ngram = "".join(self.words[start : start + n])
            if ngram in seen:
                characters += len(ngram)
                start += n
            else:
                seen.add(ngram)
                start += 1
        return share(characters, len(self.text))


PAGES: dict[Counting, Callable[[str], Page]] = {"paper": Page, "datatrove": DatatrovePage}


def first_failure(
    filter_type: str, rules: tuple[PageRule, ...], document: Document, counting: Counting = "paper"
) -> Drop | None:
    """The Drop of the first of ``rules`` that the document fails."""
    page = PAGES[counting](document.text)
    for rule in rules:
        value = rule.failure(page)
        if value is not None:
            detail = getattr(rule, "part", None) or getattr(rule, "words", None)
            suffix = f"_{detail}" if isinstance(detail, (str, int)) else ""
            return Drop(f"{filter_type}.{rule.type}{suffix}", value)  # type: ignore[attr-defined]
    return None

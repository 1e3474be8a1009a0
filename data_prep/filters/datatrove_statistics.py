"""Statistics of a page as datatrove's Gopher and FineWeb filters count them. FineWeb (Penedo et al. 2024) used them.

    text ── Punkt, Treebank ──> words          text ── line feeds ──> lines          text ── blank lines ──> paragraphs

Differences from ``PageStatistics``, which counts as the Gopher paper words it:

    words       punctuation is a word of its own: nltk's ``word_tokenize``, which datatrove called when FineWeb was made
                (v0.2.0, April 2024; since v0.3 it is spaCy's English tokenizer)
    characters  fractions of characters refer to the whole text, including white space
    n-grams     of 2 to 4 words: the characters of the most frequent one times its count, so overlaps count twice;
                of 5 to 10 words: only those that repeat earlier words, found from left to right without overlaps

Formulas: ``gopher_quality_filter.py`` and ``gopher_repetition_filter.py`` of datatrove 0.10.1.
"""

import functools
import re
from collections import Counter
from typing import TYPE_CHECKING

from datatrove.utils.text import PUNCTUATION_SET

from headrace.data_prep.filters.filter import ratio
from headrace.data_prep.filters.page_statistics import PageStatistics, Part, count_repeats
from headrace.data_prep.filters.sentences import sentences_of

if TYPE_CHECKING:
    from nltk.tokenize import NLTKWordTokenizer


@functools.cache
def treebank() -> "NLTKWordTokenizer":
    """Builds nltk's word tokenizer. It is imported here, as that takes seconds and most presets do not need it."""
    from nltk.tokenize import NLTKWordTokenizer

    return NLTKWordTokenizer()


@functools.lru_cache(maxsize=1)
def words_of(text: str) -> list[str]:
    """Returns the words of nltk's ``word_tokenize``. The last result is kept for the next filter of the same page."""
    return [word for sentence in sentences_of(text) for word in treebank().tokenize(sentence)]


class DatatroveStatistics(PageStatistics):
    """The words, lines and n-grams of one text as datatrove counts them."""

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
        """The stripped lines, including blank ones."""
        return [line.strip() for line in self.text.splitlines()]

    def repeated(self, part: Part) -> tuple[float, float]:
        parts = re.split(r"\n+", self.text) if part == "lines" else re.split(r"\n{2,}", self.text.strip())
        number, characters = count_repeats(parts)
        return ratio(number, len(parts)), ratio(characters, len(self.text))

    def top_ngram(self, n: int) -> float:
        counts = Counter(" ".join(self.words[i : i + n]) for i in range(len(self.words) - n + 1))
        if not counts:
            return 0.0
        [(top, number)] = counts.most_common(1)
        return ratio(len(top) * number, len(self.text))

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
        return ratio(characters, len(self.text))

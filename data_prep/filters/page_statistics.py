"""Statistics of a page for MassiveText's rules (Rae et al. 2021, "Scaling Language Models: … Gopher", appendix A1.1).

    text ── split() ──> words          text ── splitlines() ──> lines          text ── blank lines ──> paragraphs

The paper does not define how it splits words. Here white space separates them, and punctuation belongs to the word.
``PageStatistics`` counts as the paper words it. ``DatatroveStatistics`` (datatrove_statistics.py) counts as datatrove,
with which FineWeb was made.
"""

import dataclasses
import functools
import re
from collections import Counter
from collections.abc import Sequence
from typing import Literal

import numpy as np

from headrace.data_prep.filters.filter import ratio

Part = Literal["lines", "paragraphs"]
_BARE = re.compile(r"\w(?:.*\w)?", re.DOTALL)
"""Matches from the first to the last letter or digit of a word."""


@dataclasses.dataclass(frozen=True)
class PageStatistics:
    """The words, lines, paragraphs and n-grams of one text, computed once for all rules."""

    text: str

    @functools.cached_property
    def words(self) -> list[str]:
        return self.text.split()

    @property
    def counted_words(self) -> list[str]:
        """The words that the rules for the number and the mean length of words count."""
        return self.words

    @functools.cached_property
    def bare_words(self) -> set[str]:
        """The words in lower case, without the punctuation around them."""
        matches = (_BARE.search(word.lower()) for word in self.words)
        return {match[0] if match else "" for match in matches}

    @functools.cached_property
    def lines(self) -> list[str]:
        """The stripped, non-empty lines."""
        return [stripped for line in self.text.splitlines() if (stripped := line.strip())]

    @functools.cached_property
    def paragraphs(self) -> list[str]:
        """The stripped, non-empty blocks between blank lines."""
        return [stripped for part in re.split(r"\n\s*\n", self.text) if (stripped := part.strip())]

    def repeated(self, part: Part) -> tuple[float, float]:
        """Returns the fraction of lines (or paragraphs) that repeat an earlier one, and of the characters in those."""
        parts = self.lines if part == "lines" else self.paragraphs
        number, characters = count_repeats(parts)
        return ratio(number, len(parts)), ratio(characters, sum(map(len, parts)))

    def top_ngram(self, n: int) -> float:
        """Returns the fraction of the words' characters in the most frequent n-gram (the longest, if several are)."""
        ids = self.ngram_ids(n)
        if not len(ids):
            return 0.0
        counts = np.bincount(ids)
        ends = np.cumsum(np.concatenate([[0], self.word_lengths]))
        sizes = np.zeros(len(counts), np.int64)
        sizes[ids] = ends[n:] - ends[:-n]
        top = int(np.lexsort((sizes, counts))[-1])
        return self.covered_fraction(ids == top, n)

    def duplicate_ngrams(self, n: int) -> float:
        """Returns the fraction of the words' characters in n-grams that occur more than once. Overlaps count once."""
        ids = self.ngram_ids(n)
        return self.covered_fraction(np.bincount(ids)[ids] > 1, n) if len(ids) else 0.0

    @functools.cached_property
    def word_ids(self) -> "np.ndarray":
        """Word numbers, int64 (n_words,): one number per distinct word, in order of appearance."""
        numbers: dict[str, int] = {}
        return np.array([numbers.setdefault(word, len(numbers)) for word in self.words], np.int64)

    @functools.cached_property
    def word_lengths(self) -> "np.ndarray":
        """Characters of each word, int64 (n_words,)."""
        return np.array([len(word) for word in self.words], np.int64)

    @functools.cached_property
    def _ngrams(self) -> "dict[int, np.ndarray]":
        return {1: self.word_ids}

    def ngram_ids(self, n: int) -> "np.ndarray":
        """Returns int64 (n_words - n + 1,): equal numbers for equal n-grams; empty when there are too few words."""
        if len(self.words) < n:
            return np.empty(0, np.int64)
        if n not in self._ngrams:
            pairs = self.ngram_ids(n - 1)[:-1] * len(self.words) + self.word_ids[n - 1 :]
            self._ngrams[n] = np.unique(pairs, return_inverse=True)[1].reshape(-1)
        return self._ngrams[n]

    def covered_fraction(self, starts: "np.ndarray", n: int) -> float:
        """Returns the fraction of the words' characters in the n-grams that begin where ``starts`` (bool) is true."""
        changes = np.zeros(len(self.words) + 1, np.int64)
        np.add.at(changes, np.flatnonzero(starts), 1)
        np.add.at(changes, np.flatnonzero(starts) + n, -1)
        covered = np.cumsum(changes)[:-1] > 0
        return ratio(int(self.word_lengths[covered].sum()), int(self.word_lengths.sum()))


def count_repeats(parts: Sequence[str]) -> tuple[int, int]:
    """Returns the number of ``parts`` that repeat an earlier one, and their number of characters."""
    counts = Counter(parts)
    return len(parts) - len(counts), sum(len(part) * (number - 1) for part, number in counts.items())

"""Statistics of a page for MassiveText's rules (Rae et al. 2021, "Scaling Language Models: … Gopher", appendix A1.1).

    text ── split() ──> words          text ── splitlines() ──> lines          text ── blank lines ──> paragraphs

The paper does not define how it splits words. Here white space separates them, and punctuation belongs to the word.
``PageStatistics`` counts as the paper words it. ``DatatroveStatistics`` counts as datatrove's Gopher and
FineWeb filters do, which FineWeb (Penedo et al. 2024) used:

    text ── Punkt, Treebank ──> words          text ── line feeds ──> lines          text ── blank lines ──> paragraphs

    words       punctuation is a word of its own: nltk's ``word_tokenize``, which datatrove called when FineWeb was made
                (v0.2.0, April 2024; since v0.3 it is spaCy's English tokenizer)
    characters  fractions of characters refer to the whole text, including white space
    n-grams     of 2 to 4 words: the characters of the most frequent one times its count, so overlaps count twice;
                of 5 to 10 words: only those that repeat earlier words, found from left to right without overlaps

``ScriptStatistics`` counts as datatrove does, with words of any script (text/segments.py).

Formulas: ``gopher_quality_filter.py`` and ``gopher_repetition_filter.py`` of datatrove 0.10.1.
"""

import dataclasses
import functools
import re
from collections import Counter
from collections.abc import Sequence
from typing import Literal

import numpy as np
from datatrove.utils.text import PUNCTUATION_SET, TERMINAL_PUNCTUATION

from headrace.data_prep.filters.filter import ratio
from headrace.data_prep.filters.punkt import sentence_spans
from headrace.data_prep.filters.treebank import treebank_words
from headrace.data_prep.text.folding import composed, plain_letters
from headrace.data_prep.text.segments import is_unspaced, word_segments

Part = Literal["lines", "paragraphs"]
MARKS = tuple(sorted(TERMINAL_PUNCTUATION))
"""Terminal punctuation of all scripts, from datatrove's list."""
LINE_END = re.compile(
    rf"[{re.escape(''.join(MARKS))}\u2026\u0df4\u0f0d\u0f0e」』】»”]$|[\u0370-\u03ff\u1f00-\u1fff][;\u037e]$|[\u0530-\u058f]:$"
    "|[\u0900-\u0d7f] ?\\|$"
)
"""Matches the end of a line of prose: also an ellipsis, the ends of Sinhala and Tibetan, the end of speech, before
which Chinese and Japanese put no mark, the Greek question mark, and a colon or bar for Armenian and Indic stops."""
CLOSING = " \u00a0\u202f\u200e\u200f\"'”’“‘»«›‹)]}）］｝」』】〉》〕"
"""Quotation marks, brackets and spaces that may follow the mark at the end of a sentence."""
SPEECH = "".join(MARKS) + "…\"'“”„‟‘’‚«»‹›「」『』《》〈〉—–―"
"""Marks of speech and of the ends of sentences."""
ENDING = "-"
"""The beginning of a stop word that is the end of a word."""
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

    @property
    def words_and_marks(self) -> list[str]:
        """The words among which the rule of words with letters counts."""
        return self.words

    @functools.cached_property
    def bare_words(self) -> set[str]:
        """The words in lower case, without the punctuation around them."""
        matches = (_BARE.search(word.lower()) for word in self.words)
        return {match[0] if match else "" for match in matches}

    def present(self, words: tuple[str, ...]) -> set[str]:
        """Returns those of ``words``, in lower case, that are on the page."""
        return self.bare_words.intersection(words)

    def ends_sentence(self, line: str, marks: tuple[str, ...] | None) -> bool:
        """Whether ``line`` ends in one of ``marks``; None: datatrove's list of terminal punctuation."""
        return line.endswith(MARKS if marks is None else marks)

    @functools.cached_property
    def lines(self) -> list[str]:
        """The stripped, non-empty lines."""
        return [stripped for line in self.text.splitlines() if (stripped := line.strip())]

    @functools.cached_property
    def nonblank_lines(self) -> list[str]:
        """The lines between line feeds that hold more than white space, not stripped."""
        return [line for line in self.text.split("\n") if line.strip()]

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


@functools.lru_cache(maxsize=1)
def words_of(text: str) -> list[str]:
    """Returns the words of nltk's ``word_tokenize``. The last result is kept for the next filter of the same page."""
    return treebank_words(text, sentence_spans(text))


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
        return ratio(self.written_length(top) * number, len(self.text))

    def written_length(self, ngram: str) -> int:
        """Returns the characters of ``ngram``, words with spaces between them, in the text."""
        return len(ngram)

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


class ScriptStatistics(DatatroveStatistics):
    """The words of any script without dictionaries, counted as datatrove does, in Unicode's composition (NFC).

    A stop word is present in any case and with other accents (``plain_letters``). One that begins with a hyphen is the
    end of a word: ``-는``. In scripts without spaces, where each letter counts as a word, a stop word is present
    wherever its letters are.
    """

    def __init__(self, text: str) -> None:
        super().__init__(composed(text))

    @property
    def words_and_marks(self) -> list[str]:
        """Without the marks of speech and of the ends of sentences, of which dialogues have as many as words."""
        return [word for word in self.words if word.strip(SPEECH)]

    @functools.cached_property
    def words(self) -> list[str]:
        return word_segments(self.text)

    @functools.cached_property
    def bare_words(self) -> set[str]:
        return set(map(plain_letters, set(self.words)))

    def written_length(self, ngram: str) -> int:
        return len(ngram) - sum(is_unspaced(word) for word in ngram.split(" ")[1:])

    def present(self, words: tuple[str, ...]) -> set[str]:
        plain = {word: plain_letters(word) for word in words}
        lengths = {len(word) - 1 for word in words if word.startswith(ENDING)}
        ends = {ENDING + word[-length:] for word in self.bare_words for length in lengths if len(word) > length}
        known = {word for word, letters in plain.items() if letters in self.bare_words or letters in ends}
        return known | {word for word in words if is_unspaced(word) and word in self._plain}

    def ends_sentence(self, line: str, marks: tuple[str, ...] | None) -> bool:
        """Whether ``line`` ends in one of ``marks``, whatever quotation marks and brackets follow it.

        None: ``LINE_END``.
        """
        ends = (line.rstrip(), line.rstrip().rstrip(CLOSING))
        return any(end.endswith(marks) if marks else LINE_END.search(end[-3:]) is not None for end in ends)

    @functools.cached_property
    def _plain(self) -> str:
        return plain_letters(self.text)

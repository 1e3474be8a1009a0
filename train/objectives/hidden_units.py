"""The tokens that masked language modelling hides together: words, collocations, spans and n-grams of words.

Each function draws units of at most a number of tokens in all; positions of a row, whose words are adjacent inside a
text and end with it.
"""

from collections.abc import Collection, Sequence

import numpy as np
from numpy.typing import NDArray

from headrace.train.objectives.base import Vocabulary

MOST_WORDS = 5
"""The most words of a collocation."""
SPAN_LENGTHS = np.arange(1, 11)
SPAN_SHARES = 0.2 * 0.8 ** (SPAN_LENGTHS - 1) / (1 - 0.8**10)
"""SpanBERT's lengths in words: geometric with p = 0.2, at most 10, 3.8 in the mean (Joshi et al. 2020, section 3.1)."""
NGRAM_LENGTHS = np.arange(1, 4)
NGRAM_SHARES = (1 / NGRAM_LENGTHS) / (1 / NGRAM_LENGTHS).sum()
"""ALBERT's lengths in words: p(n) is proportional to 1/n, n at most 3 (Lan et al. 2020, section 4.1)."""

Ids = NDArray[np.int64]
Units = Sequence[Sequence[int]]
"""Positions of tokens that are hidden together."""


def words_of(tokens: Ids, maskable: Ids, vocabulary: Vocabulary) -> list[list[int]]:
    """Returns the positions of each word: a token that begins one, and those after it that continue it."""
    words: list[list[int]] = []
    for position in maskable.tolist():
        if words and words[-1][-1] == position - 1 and vocabulary.continues_V[tokens[position]]:
            words[-1].append(position)
        else:
            words.append([position])
    return words


def collocations_of(words: Sequence[list[int]], tokens: Ids, collocations: Collection[tuple[int, ...]]) -> Units:
    """Returns the positions of each collocation, and of each word that is in none: from left to right the longest
    n-gram of ``words`` whose tokens are one of ``collocations``."""
    units: list[list[int]] = []
    first = 0
    while first < len(words):
        unit, after = words[first], first + 1
        for end in range(min(first + MOST_WORDS, len(words)), first + 1, -1):
            positions = [position for word in words[first:end] for position in word]
            is_adjacent = positions[-1] - positions[0] == len(positions) - 1
            if is_adjacent and tuple(tokens[positions].tolist()) in collocations:
                unit, after = positions, end
                break
        units.append(unit)
        first = after
    return units


def drawn_words(words: Units, number: int, generator: np.random.Generator) -> Units:
    """Draws words, or other units, of at most ``number`` tokens together; one that would be too many is passed over
    (BERT)."""
    chosen: list[Sequence[int]] = []
    for index in generator.permutation(len(words)).tolist():
        if len(words[index]) <= number:
            chosen.append(words[index])
            number -= len(words[index])
    return chosen


def drawn_spans(words: Sequence[list[int]], number: int, generator: np.random.Generator) -> Units:
    """Draws spans of whole words, ``number`` tokens together: for each a length, then a first word (SpanBERT).

    A span ends with its document, before a token that is in another span, or at ``number`` tokens.
    """
    spans: list[list[int]] = []
    word_of = {position: index for index, word in enumerate(words) for position in word}
    free = set(word_of)
    while number:
        length = int(generator.choice(SPAN_LENGTHS, p=SPAN_SHARES))
        anchors = sorted(free)
        first = word_of[anchors[int(generator.integers(len(anchors)))]]
        span: list[int] = []
        for position in (position for word in words[first : first + length] for position in word):
            if len(span) == number or position not in free or (span and position != span[-1] + 1):
                break
            span.append(position)
        span = span or [next(position for position in words[first] if position in free)]
        free.difference_update(span)
        number -= len(span)
        spans.append(span)
    return spans


def drawn_ngrams(words: Sequence[list[int]], number: int, generator: np.random.Generator) -> Units:
    """Draws n-grams of one to three whole words: an order of the first words, then for each a length (ALBERT).

    One that would be too many tokens is shortened by words, and passed over if its first word is too many. One that
    overlaps an earlier n-gram is passed over. google-research/albert does the same, but for n-grams that go on over a
    separator: here they end with their text.
    """
    chosen: list[list[int]] = []
    covered: set[int] = set()
    for first in generator.permutation(len(words)).tolist():
        if not number:
            break
        longest = int(generator.choice(NGRAM_LENGTHS, p=NGRAM_SHARES))
        ngram = list(words[first])
        for word in words[first + 1 : first + longest]:
            if word[0] != ngram[-1] + 1 or len(ngram) + len(word) > number:
                break
            ngram += word
        if len(ngram) <= number and covered.isdisjoint(ngram):
            chosen.append(ngram)
            covered.update(ngram)
            number -= len(ngram)
    return chosen

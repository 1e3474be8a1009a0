"""The features of a linear classifier: hashed n-grams of words and characters, with the square roots of their shares.

    "The mill turns" ── fold, words ──> the mill turns ── n-grams ──> the, mill, turns, the mill, mill turns
                     ── XXH64 ──> buckets ── counts c of n ──> values √(c / n), whose squares sum to 1

The root of the shares makes the product of two documents the Bhattacharyya coefficient of their n-grams (1: the same
shares), so that a word that is repeated a hundred times counts ten times. Values are whole numbers in parts of ONE.

``ngrams`` is the definition in plain Python; ``features`` is the same, compiled.
"""

from collections.abc import Iterator
from typing import Annotated, Any

import numpy as np
import xxhash
from numpy.typing import NDArray
from pydantic import Field

from headrace.data_prep.kernel import int64, kernel, kernel_in_threads
from headrace.data_prep.text.folding import composed, fold
from headrace.data_prep.text.words import character_classes, words, write_words
from headrace.data_prep.text.xxh64 import xxh64
from headrace.pipeline.core.errors import ConfigError
from headrace.pipeline.core.settings import Natural, settings

ONE_BITS = 15
ONE = 1 << ONE_BITS
"""The value of a feature that is the only one of its document."""
MOST_NGRAM = 8
"""The longest n-gram of words or characters."""
BUCKET_BITS = (10, 28)
"""Fewest and most bits of the number of buckets."""
TextFeatures = tuple[NDArray[np.int32], NDArray[np.uint16]]
"""Buckets of a document, ascending, and their values in parts of ONE."""


@settings
class NgramSettings:
    """The n-grams that a classifier counts."""

    words: Natural = 2
    """The longest n-gram of words; 0: none. With 2, single words and pairs count."""
    characters: tuple[int, int] | None = None
    """Shortest and longest n-gram of characters, over the words with one space between them; None: none."""
    bucket_bits: Annotated[int, Field(ge=BUCKET_BITS[0], le=BUCKET_BITS[1])] = 20
    """The n-grams share 2 to this power buckets. Weights take 4 bytes a bucket and class."""
    fold: bool = True
    """Whether capitals count as small letters."""

    def __post_init__(self) -> None:
        first, last = self.characters or (1, 1)
        if not 0 <= self.words <= MOST_NGRAM or not 1 <= first <= last <= MOST_NGRAM:
            problem = f"n-grams of up to {self.words} words and of {first} to {last} characters"
            raise ConfigError("n-grams", problem, f"give numbers of at most {MOST_NGRAM}, the smaller one first")
        if not self.words and self.characters is None:
            raise ConfigError("n-grams", "neither words nor characters are counted", "give words or characters")


def ngrams(text: str, counted: NgramSettings) -> Iterator[tuple[bytes, int]]:
    """Yields each n-gram of ``text`` that is ``counted``, in UTF-8, with its bucket: words first, then characters.

    The bucket of an n-gram of words is the low bits of its XXH64; that of characters is the bits above the lowest 32.
    """
    mask = (1 << counted.bucket_bits) - 1
    parts = words(text, counted.fold)
    for length in range(1, counted.words + 1):
        for start in range(len(parts) - length + 1):
            ngram = " ".join(parts[start : start + length]).encode("utf-8", "surrogatepass")
            yield ngram, xxhash.xxh64_intdigest(ngram) & mask
    joined, (first, last) = " ".join(parts), counted.characters or (1, 0)
    for length in range(first, last + 1):
        for start in range(len(joined) - length + 1):
            ngram = joined[start : start + length].encode("utf-8", "surrogatepass")
            yield ngram, xxhash.xxh64_intdigest(ngram) >> 32 & mask


def features(text: str, counted: NgramSettings) -> TextFeatures:
    """Returns the features of ``text``; none for a text without words. Other threads may run meanwhile."""
    folded = fold(text) if counted.fold else composed(text)
    if folded.isascii():
        codes: NDArray[Any] = np.frombuffer(folded.encode(), np.uint8)
    else:
        codes = np.frombuffer(folded.encode("utf-32-le", "surrogatepass"), "<u4")
    first, last = counted.characters or (1, 0)
    return _shares(codes, character_classes(), counted.words, first, last, counted.bucket_bits)


@kernel
def _buckets(
    codes: NDArray[np.integer[Any]], classes: NDArray[np.uint8], most_words: int, first: int, last: int, bits: int
) -> NDArray[np.int32]:  # pragma: no cover (compiled)
    """Returns the bucket of each n-gram, in any order and with repetitions."""
    text = np.empty(5 * codes.size, np.uint8)
    starts, ends = np.empty(codes.size, np.int64), np.empty(codes.size, np.int64)
    n_words = write_words(codes, classes, text, starts, ends)
    size = ends[n_words - 1] if n_words else 0
    buckets = np.empty(most_words * n_words + max(last - first + 1, 0) * size, np.int32)
    mask, number = np.uint64((1 << bits) - 1), 0
    for length in range(1, most_words + 1):
        for start in range(n_words - length + 1):
            buckets[number] = xxh64(text, starts[start], ends[start + length - 1]) & mask
            number += 1
    characters = np.empty(size + 1, np.int64)
    n_characters = 0
    for offset in range(size if last >= first else 0):
        if text[offset] & 0xC0 != 0x80:
            characters[n_characters] = offset
            n_characters += 1
    characters[n_characters] = size
    for length in range(first, last + 1):
        for start in range(n_characters - length + 1):
            hashed = xxh64(text, characters[start], characters[start + length])
            buckets[number] = (hashed >> np.uint64(32)) & mask
            number += 1
    return buckets[:number]


@kernel_in_threads
def _shares(
    codes: NDArray[np.integer[Any]], classes: NDArray[np.uint8], most_words: int, first: int, last: int, bits: int
) -> tuple[NDArray[np.int32], NDArray[np.uint16]]:  # pragma: no cover (compiled)
    buckets = np.sort(_buckets(codes, classes, most_words, first, last, bits))
    distinct, values = np.empty(buckets.size, np.int32), np.empty(buckets.size, np.uint16)
    number, start = 0, 0
    while start < buckets.size:
        end = start + 1
        while end < buckets.size and buckets[end] == buckets[start]:
            end += 1
        distinct[number] = buckets[start]
        values[number] = np.sqrt(np.float64((int64(end - start) << 2 * ONE_BITS) // buckets.size))
        number, start = number + 1, end
    return distinct[:number].copy(), values[:number].copy()


@kernel_in_threads
def margins(
    starts: NDArray[Any], buckets: NDArray[Any], values: NDArray[np.uint16], weights: NDArray[np.int32]
) -> NDArray[np.int64]:  # pragma: no cover (compiled)
    """Returns w·x of each text, whose features begin at ``starts``, (texts + 1,), by each column of ``weights``,
    (buckets + 1, columns), of which the last row is for a feature of value 1 that all texts have: (texts, columns), in
    parts of 2^31."""
    totals = np.empty((starts.size - 1, weights.shape[1]), np.int64)
    for row in range(totals.shape[0]):
        for column in range(weights.shape[1]):
            totals[row, column] = int64(weights[-1, column]) * ONE
        for index in range(starts[row], starts[row + 1]):
            for column in range(weights.shape[1]):
                totals[row, column] += int64(weights[buckets[index], column]) * int64(values[index])
    return totals

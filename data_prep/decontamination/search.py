"""Finds the n-grams of benchmark items in a text, word for word.

    text ── words ──> XXH64 of every 8 words ── marks ──> table of keys ── compare all words ──> hits

A mark is one bit, addressed by the upper half of a key. A text has no n-gram at almost all of its words, and one look
at the marks shows it. The marks fit into the processor's cache; the table does not.
"""

import numpy as np
from numpy.typing import NDArray

from headrace.data_prep.decontamination.config import SHORTEST_WORDS
from headrace.data_prep.decontamination.ngrams import NGrams
from headrace.data_prep.kernel import kernel
from headrace.data_prep.text.folding import fold
from headrace.data_prep.text.words import character_classes, write_words
from headrace.data_prep.text.xxh64 import xxh64

EMPTY = -1
SLOTS_PER_KEY = 2
MARKS_PER_KEY = 8
"""Bits in the marks for each key, so less than one in eight is set."""

Hits = NDArray[np.int64]
"""(n_hits, 2): index of the first word in the text, and index of the n-gram; sorted."""


class Search:
    """Searches texts for ``ngrams``."""

    def __init__(self, ngrams: NGrams, ignored: NDArray[np.bool_] | None = None) -> None:
        """Builds the hash table and the marks.

        Args:
            ngrams: the n-grams to find.
            ignored: whether an n-gram is left out of the hits, (n_ngrams,); None leaves out none.
        """
        self.ngrams = ngrams
        self._ignored = np.zeros(ngrams.keys.size, dtype=np.bool_) if ignored is None else ignored
        self._slots = _slots(ngrams.keys, SLOTS_PER_KEY * max(1, ngrams.keys.size))
        self._marks = _marks(ngrams.keys, MARKS_PER_KEY * max(1, ngrams.keys.size))

    def hits(self, text: str) -> Hits:
        """Returns the n-grams in ``text``, with the index of their first word."""
        n = self.ngrams
        return _search(
            _codes(text), character_classes(), self._marks, self._slots, n.keys, n.text, n.bounds, self._ignored
        )


def _codes(text: str) -> NDArray[np.uint32]:
    return np.frombuffer(fold(text).encode("utf-32-le", "surrogatepass"), dtype="<u4")


@kernel
def _slots(keys: NDArray[np.uint64], least: int) -> NDArray[np.int64]:  # pragma: no cover (compiled)
    """Returns a hash table with open addressing and at least ``least`` slots.

    A slot holds the index of the first n-gram with its key, or EMPTY.
    """
    size = 1
    while size < least:
        size *= 2
    slots = np.full(size, EMPTY, np.int64)
    mask = np.uint64(size - 1)
    for number in range(keys.size):
        if number and keys[number] == keys[number - 1]:
            continue
        slot = keys[number] & mask
        while slots[slot] != EMPTY:
            slot = (slot + np.uint64(1)) & mask
        slots[slot] = number
    return slots


@kernel
def _marks(keys: NDArray[np.uint64], least: int) -> NDArray[np.uint8]:  # pragma: no cover (compiled)
    """Returns a bit array of at least ``least`` bits, in which each key has set its bit (see ``_mark``)."""
    size = 8
    while size < least:
        size *= 2
    marks = np.zeros(size // 8, np.uint8)
    for key in keys:
        mark = _mark(key, marks)
        marks[mark >> 3] |= 1 << (mark & 7)
    return marks


@kernel
def _mark(key: np.uint64, marks: NDArray[np.uint8]) -> np.int64:  # pragma: no cover (compiled)
    """Returns the index of the bit of ``key``: its upper half, modulo the number of bits."""
    return np.int64(key >> np.uint64(32)) & (8 * marks.size - 1)


@kernel
def _search(
    codes: NDArray[np.uint32],
    classes: NDArray[np.uint8],
    marks: NDArray[np.uint8],
    slots: NDArray[np.int64],
    keys: NDArray[np.uint64],
    ngrams: NDArray[np.uint8],
    bounds: NDArray[np.uint64],
    ignored: NDArray[np.bool_],
) -> Hits:  # pragma: no cover (compiled)
    text = np.empty(5 * codes.size, np.uint8)
    starts = np.empty(codes.size, np.int64)
    ends = np.empty(codes.size, np.int64)
    n_words = write_words(codes, classes, text, starts, ends)
    hits, n_hits = np.empty((8, 2), np.int64), 0
    mask = np.uint64(slots.size - 1)
    for word in range(n_words - SHORTEST_WORDS + 1):
        key = xxh64(text, starts[word], ends[word + SHORTEST_WORDS - 1])
        mark = _mark(key, marks)
        if not marks[mark >> 3] >> (mark & 7) & 1:
            continue
        slot = key & mask
        while slots[slot] != EMPTY and keys[slots[slot]] != key:
            slot = (slot + np.uint64(1)) & mask
        ngram = slots[slot]
        while ngram != EMPTY and ngram < keys.size and keys[ngram] == key:
            wanted = ngrams[bounds[ngram] : bounds[ngram + 1]]
            if not ignored[ngram] and _begins_with(text, starts[word], ends[n_words - 1], wanted):
                if n_hits == len(hits):
                    hits = np.concatenate((hits, np.empty_like(hits)))
                hits[n_hits] = word, ngram
                n_hits += 1
            ngram += 1
    return hits[:n_hits]


@kernel
def _begins_with(
    text: NDArray[np.uint8], start: int, end: int, ngram: NDArray[np.uint8]
) -> bool:  # pragma: no cover (compiled)
    """Whether text[start:end] begins with the whole words of ``ngram``."""
    stop = start + ngram.size
    if stop > end or (stop < end and text[stop] != 32):
        return False
    for i in range(ngram.size):  # noqa: SIM110
        if text[start + i] != ngram[i]:
            return False
    return True

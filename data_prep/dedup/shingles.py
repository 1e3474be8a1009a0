"""Shingles of a text (its word n-grams) and their hashes.

    text ──> words ── every run of 5 ──> shingles ── XXH64 ──> (n_shingles,) uint64

    words     the mill wheel turns 2 a day                 (see ``text.words``)
    shingles  "the mill wheel turns 2", "mill wheel turns 2 a", "wheel turns 2 a day"

A shingle is its words in UTF-8, joined by one space. Its 64-bit hash is XXH64 with seed 0; MinHash uses the low 32
bits. Digits are part of words, so documents that differ only in numbers have different shingles. A set of 64-bit hashes
stands for a set of shingles: among 10^6 shingles the probability of a collision is below 10^-7.

``shingles`` is the definition in plain Python; ``shingle_hashes`` is the same, compiled.
"""

from typing import Any

import numpy as np
import xxhash
from numpy.typing import NDArray

from headrace.data_prep.kernel import kernel
from headrace.data_prep.text.folding import fold
from headrace.data_prep.text.words import character_classes, words, write_words
from headrace.data_prep.text.xxh64 import xxh64


def shingles(text: str, size_words: int) -> list[bytes]:
    """Returns the shingles of ``text``, in order and with repetitions."""
    parts = words(text)
    starts = range(max(1, len(parts) - size_words + 1)) if parts else range(0)
    return [" ".join(parts[start : start + size_words]).encode() for start in starts]


def shingle_hash32(shingle: bytes) -> int:
    """Returns the 32-bit hash of a shingle. Pass it to datasketch: ``MinHash(hashfunc=shingle_hash32)``."""
    return xxhash.xxh64_intdigest(shingle) & 0xFFFFFFFF


def shingle_hashes(text: str, size_words: int) -> NDArray[np.uint64]:
    """Returns the 64-bit hashes of the shingles of ``text``, in order and with repetitions: (n_shingles,) uint64.

    A text with fewer than ``size_words`` words has one shingle; a text without any word has none.
    """
    folded = fold(text)
    if folded.isascii():
        codes = np.frombuffer(folded.encode(), dtype=np.uint8)
    else:
        codes = np.frombuffer(folded.encode("utf-32-le", "surrogatepass"), dtype="<u4")
    return _hash_shingles(codes, character_classes(), size_words)


def shingle_set(text: str, size_words: int) -> NDArray[np.uint64]:
    """Returns the set of the shingles of ``text`` as sorted, distinct 64-bit hashes."""
    return np.unique(shingle_hashes(text, size_words))


@kernel
def _hash_shingles(
    codes: NDArray[np.integer[Any]], classes: NDArray[np.uint8], size_words: int
) -> NDArray[np.uint64]:  # pragma: no cover (compiled)
    text = np.empty(5 * codes.size, np.uint8)
    starts = np.empty(codes.size, np.int64)
    ends = np.empty(codes.size, np.int64)
    n_words = write_words(codes, classes, text, starts, ends)
    n_shingles = max(1, n_words - size_words + 1) if n_words else 0
    hashes = np.empty(n_shingles, np.uint64)
    for first in range(n_shingles):
        last = min(first + size_words, n_words) - 1
        hashes[first] = xxh64(text, starts[first], ends[last])
    return hashes

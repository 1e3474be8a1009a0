"""Words, shingles and their hashes.

    text ── fold ──> words ── every run of 5 ──> shingles ── XXH64 ──> (n_shingles,) uint64

    "The Mill-Wheel turns, 2 × a day"  ->  the mill wheel turns 2 a day
    shingles  "the mill wheel turns 2", "mill wheel turns 2 a", "wheel turns 2 a day"

**Word**: the text is case-folded and brought to Unicode's canonical composition (NFC). Then a word is a maximal run of
letters, marks, numbers and connector punctuation (categories L, M, N, Pc: what ``\\w`` matches, and combining marks).
Characters of scripts that are written without spaces (Han, kana, Thai, Lao, Myanmar, Khmer) are one word each, with the
marks that follow. Format characters (category Cf: soft hyphen, joiners, direction marks) are skipped, but the
zero-width space separates. Digits stay as they are: documents that differ only in numbers have different shingles.

**Shingle**: the words joined by one space, in UTF-8. Its 64-bit hash is XXH64 with seed 0; MinHash uses the low 32
bits of it. Sets of 64-bit hashes stand for the sets of shingles: among 10^6 shingles the chance of one collision is
below 10^-7.

``words`` and ``shingles`` are the definition in plain Python; ``shingle_hashes`` is the same, compiled. What is a
letter comes from Python's unicodedata: Pythons of different Unicode versions may differ on the newest characters.
"""

import functools
import unicodedata
from typing import Any

import numpy as np
import xxhash
from numpy.typing import NDArray

from headrace.data_prep.dedup.folding import fold
from headrace.data_prep.dedup.xxh64 import xxh64
from headrace.data_prep.kernel import kernel

SEPARATOR, LETTER, MARK, ALONE, SKIPPED = range(5)

ALONE_RANGES = (
    (0x0E00, 0x0EFF),  # Thai, Lao
    (0x1000, 0x109F),  # Myanmar
    (0x1780, 0x17FF),  # Khmer
    (0x3005, 0x3007),  # Han iteration mark, closing mark, zero
    (0x3040, 0x30FF),  # Hiragana, Katakana
    (0x31F0, 0x31FF),  # Katakana phonetic extensions
    (0x3400, 0x4DBF),  # Han, extension A
    (0x4E00, 0x9FFF),  # Han
    (0xF900, 0xFAFF),  # Han compatibility
    (0x20000, 0x3FFFF),  # Han, supplementary planes
)
"""Blocks whose letters are words of their own (Unicode's Blocks.txt)."""

ZERO_WIDTH_SPACE = 0x200B


def words(text: str) -> list[str]:
    """The words of ``text``, in order."""
    classes = character_classes()
    found: list[str] = []
    previous = SEPARATOR
    for character in fold(text):
        kind = classes[ord(character)]
        if kind == SKIPPED:
            continue
        if kind != SEPARATOR:
            continues = previous == LETTER if kind == LETTER else kind == MARK and previous != SEPARATOR
            if continues:
                found[-1] += character
            else:
                found.append(character)
        if kind != MARK or previous == SEPARATOR:
            previous = LETTER if kind == MARK else kind
    return found


def shingles(text: str, size_words: int) -> list[bytes]:
    """The shingles of ``text``, in order and with repetitions: what ``shingle_hashes`` hashes."""
    parts = words(text)
    starts = range(max(1, len(parts) - size_words + 1)) if parts else range(0)
    return [" ".join(parts[start : start + size_words]).encode() for start in starts]


def shingle_hash32(shingle: bytes) -> int:
    """The 32-bit hash of one shingle; give it to datasketch as ``MinHash(hashfunc=shingle_hash32)``."""
    return xxhash.xxh64_intdigest(shingle) & 0xFFFFFFFF


def shingle_hashes(text: str, size_words: int) -> NDArray[np.uint64]:
    """The 64-bit hashes of the shingles of ``text``, in order and with repetitions: (n_shingles,) uint64.

    A text with fewer than ``size_words`` words has one shingle; a text without any word has none.
    """
    folded = fold(text)
    if folded.isascii():
        codes = np.frombuffer(folded.encode(), dtype=np.uint8)
    else:
        codes = np.frombuffer(folded.encode("utf-32-le", "surrogatepass"), dtype="<u4")
    return _hash_shingles(codes, character_classes(), size_words)


def shingle_set(text: str, size_words: int) -> NDArray[np.uint64]:
    """The set of the shingles of ``text`` as sorted, distinct 64-bit hashes."""
    return np.unique(shingle_hashes(text, size_words))


@functools.lru_cache(maxsize=1)
def character_classes() -> NDArray[np.uint8]:
    """SEPARATOR, LETTER, MARK, ALONE or SKIPPED for each code point: (0x110000,) uint8."""
    kinds = {"L": LETTER, "N": LETTER, "P": SEPARATOR, "M": MARK}
    categories = map(unicodedata.category, map(chr, range(0x110000)))
    special = {"Pc": LETTER, "Cf": SKIPPED}
    classes = np.array([special.get(c, kinds.get(c[0], SEPARATOR)) for c in categories], dtype=np.uint8)
    for first, last in ALONE_RANGES:
        block = classes[first : last + 1]
        block[block == LETTER] = ALONE
    classes[ZERO_WIDTH_SPACE] = SEPARATOR
    classes.flags.writeable = False
    return classes


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


@kernel
def write_words(
    codes: NDArray[np.integer[Any]],
    classes: NDArray[np.uint8],
    text: NDArray[np.uint8],
    starts: NDArray[np.int64],
    ends: NDArray[np.int64],
) -> int:  # pragma: no cover (compiled)
    """Write the words to ``text``, one space between them, with the place of each; the number of words."""
    n_words, end, previous = 0, 0, SEPARATOR
    for code in codes:
        kind = classes[code]
        if kind == SKIPPED:
            continue
        if kind == SEPARATOR:
            previous = SEPARATOR
            continue
        if not ((kind == LETTER and previous == LETTER) or (kind == MARK and previous != SEPARATOR)):
            if n_words:
                text[end] = 32
                end += 1
            starts[n_words] = end
            n_words += 1
        if kind != MARK or previous == SEPARATOR:
            previous = LETTER if kind == MARK else kind
        end = _write_utf8(text, end, code)
        ends[n_words - 1] = end
    return n_words


@kernel
def _write_utf8(text: NDArray[np.uint8], end: int, code: int) -> int:  # pragma: no cover (compiled)
    if code < 0x80:
        text[end] = code
        return end + 1
    if code < 0x800:
        text[end] = 0xC0 | (code >> 6)
        text[end + 1] = 0x80 | (code & 0x3F)
        return end + 2
    if code < 0x10000:
        text[end] = 0xE0 | (code >> 12)
        text[end + 1] = 0x80 | ((code >> 6) & 0x3F)
        text[end + 2] = 0x80 | (code & 0x3F)
        return end + 3
    text[end] = 0xF0 | (code >> 18)
    text[end + 1] = 0x80 | ((code >> 12) & 0x3F)
    text[end + 2] = 0x80 | ((code >> 6) & 0x3F)
    text[end + 3] = 0x80 | (code & 0x3F)
    return end + 4

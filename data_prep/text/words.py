"""Splits a text into the words that deduplication and decontamination compare.

    text ── fold ──> letters, marks, separators … ──> words

    "The Mill-Wheel turns, 2 × a day"  ->  the mill wheel turns 2 a day

The text is case-folded and brought to Unicode's canonical composition (NFC). A word is then a maximal run of letters,
marks, numbers and connector punctuation (categories L, M, N, Pc: the characters that ``\\w`` matches, and combining
marks). Each character of a script that is written without spaces (Han, kana, Thai, Lao, Myanmar, Khmer) is a word of
its own, together with the marks that follow it. Format characters (category Cf: soft hyphen, joiners, direction marks)
are skipped, but the zero-width space separates words. Digits are not changed.

``words`` is the definition in plain Python; ``write_words`` is the same, compiled. Character categories come from
Python's unicodedata, so Pythons with different Unicode versions may differ on the newest characters.
"""

import functools
import unicodedata
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headrace.data_prep.kernel import kernel
from headrace.data_prep.text.folding import CODE_POINTS, all_characters, composed, fold

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
"""First and last code point of each block whose letters are single words (Unicode's Blocks.txt)."""

ZERO_WIDTH_SPACE = 0x200B


def words(text: str, folds: bool = True) -> list[str]:
    """Returns the words of ``text``, in order, with its capitals unless it ``folds`` them."""
    classes = character_classes()
    segments: list[str] = []
    previous = SEPARATOR
    for character in fold(text) if folds else composed(text):
        kind = classes[ord(character)]
        if kind == SKIPPED:
            continue
        if kind != SEPARATOR:
            continues = previous == LETTER if kind == LETTER else kind == MARK and previous != SEPARATOR
            if continues:
                segments[-1] += character
            else:
                segments.append(character)
        if kind != MARK or previous == SEPARATOR:
            previous = LETTER if kind == MARK else kind
    return segments


def word_count(text: str) -> int:
    """Returns the number of words in ``text``."""
    codes = np.frombuffer(fold(text).encode("utf-32-le", "surrogatepass"), dtype="<u4")
    return _count(codes, character_classes())


@functools.lru_cache(maxsize=1)
def character_classes() -> NDArray[np.uint8]:
    """Returns the class of each code point, SEPARATOR, LETTER, MARK, ALONE or SKIPPED: (0x110000,) uint8."""
    kinds = {"L": LETTER, "N": LETTER, "P": SEPARATOR, "M": MARK}
    categories = list(map(unicodedata.category, all_characters()))
    special = {"Pc": LETTER, "Cf": SKIPPED}
    class_of = {category: special.get(category, kinds.get(category[0], SEPARATOR)) for category in set(categories)}
    classes = np.fromiter(map(class_of.__getitem__, categories), np.uint8, CODE_POINTS)
    for first, last in ALONE_RANGES:
        block = classes[first : last + 1]
        block[block == LETTER] = ALONE
    classes[ZERO_WIDTH_SPACE] = SEPARATOR
    classes.flags.writeable = False
    return classes


@kernel
def write_words(
    codes: NDArray[np.integer[Any]],
    classes: NDArray[np.uint8],
    text: NDArray[np.uint8],
    starts: NDArray[np.int64],
    ends: NDArray[np.int64],
) -> int:  # pragma: no cover (compiled)
    """Writes the folded words in UTF-8 to ``text``, with one space between them.

    Args:
        codes: code points of the folded text, (n,).
        classes: from ``character_classes``.
        text: receives the words; 5 · n bytes are always enough.
        starts: receives the offset of each word in ``text``; (n,) is always enough.
        ends: receives the end offset of each word; (n,) is always enough.

    Returns:
        The number of words.
    """
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
def _count(codes: NDArray[np.uint32], classes: NDArray[np.uint8]) -> int:  # pragma: no cover (compiled)
    starts = np.empty(codes.size, np.int64)
    return write_words(codes, classes, np.empty(5 * codes.size, np.uint8), starts, np.empty_like(starts))


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

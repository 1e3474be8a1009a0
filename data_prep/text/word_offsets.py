"""Finds the words of a text in the text itself: folding may change the number of characters before a word.

    text     Straße, "é" 1        words   strasse | é | 1
    offsets  0       9   12       of the character with which each word begins

A text is aligned if folding maps each character to one: almost all are, and then the folded text has the offsets.
Others are halved between two chunks until a part is aligned or is one chunk.
"""

import bisect
import functools
import unicodedata
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headrace.data_prep.kernel import kernel
from headrace.data_prep.text.folding import fold
from headrace.data_prep.text.words import ALONE, LETTER, MARK, SEPARATOR, SKIPPED, character_classes, word_count


class WordOffsets:
    """Offsets of the words in ``text``."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._starts: list[int] = word_starts(text).tolist()

    def __len__(self) -> int:
        return len(self._starts)

    def start(self, word: int) -> int:
        """Returns the offset of the word with index ``word``; the end of the text after the last word."""
        return self._starts[word] if word < len(self._starts) else len(self._text)

    def end(self, word: int) -> int:
        """Returns the end offset of the word before index ``word`` (at least 1), including punctuation after it."""
        start = self.start(word - 1)
        return start + len(self._text[start : self.start(word)].rstrip())

    def word_across(self, character: int) -> tuple[int, int]:
        """Returns start and end of the word around the offset ``character``; the offset twice if there is none."""
        word = bisect.bisect_left(self._starts, character)
        if word and self.end(word) > character:
            return self.start(word - 1), self.end(word)
        return character, character


def word_starts(text: str) -> NDArray[np.int64]:
    """Returns the offset of the first character of each word of ``text``: (n_words,)."""
    return np.concatenate([np.zeros(0, np.int64), *_pieces(text, 0)])


def _pieces(text: str, offset: int) -> list[NDArray[np.int64]]:
    """Returns ``word_starts`` of a part of a text that begins at ``offset``, in pieces."""
    folded = fold(text)
    if text.isascii() or (len(text.casefold()) == len(text) and text.casefold() == folded):
        return [offset + _starts(_codes(folded), character_classes())]
    chunks = np.flatnonzero(chunk_starts()[_codes(text)])
    chunks = chunks[chunks > 0]
    if not chunks.size:
        return [offset + _starts_in_chunk(text)]
    middle = int(chunks[chunks.size // 2])
    return _pieces(text[:middle], offset) + _pieces(text[middle:], offset + middle)


def _starts_in_chunk(chunk: str) -> NDArray[np.int64]:
    """Returns ``word_starts`` of one chunk: a word begins where the words up to a character become more."""
    lengths = range(1, len(chunk) + 1)
    starts = [
        bisect.bisect_right(lengths, word, key=lambda length: word_count(chunk[:length]))
        for word in range(word_count(chunk))
    ]
    return np.array(starts, np.int64)


def _codes(text: str) -> NDArray[np.uint32]:
    return np.frombuffer(text.encode("utf-32-le", "surrogatepass"), "<u4")


@functools.cache
def chunk_starts() -> NDArray[np.bool_]:
    """Returns for each code point whether it starts a chunk, like white space, punctuation and Han: (0x110000,).

    Folding does not combine such a character with the one before it, and no word continues across it. So the words of
    each chunk can be found separately, and a chunk holds at most two words.
    """
    table = np.isin(character_classes(), (SEPARATOR, ALONE))
    table[[code for code in np.flatnonzero(table).tolist() if unicodedata.category(chr(code))[0] == "M"]] = False
    return table


@kernel
def _starts(
    codes: NDArray[np.integer[Any]], classes: NDArray[np.uint8]
) -> NDArray[np.int64]:  # pragma: no cover (compiled)
    """Returns the index at which each word of ``words.write_words`` begins: (n_words,)."""
    starts = np.empty(codes.size, np.int64)
    n_words, previous = 0, SEPARATOR
    for place in range(codes.size):
        kind = classes[codes[place]]
        if kind == SKIPPED:
            continue
        if kind == SEPARATOR:
            previous = SEPARATOR
            continue
        if not ((kind == LETTER and previous == LETTER) or (kind == MARK and previous != SEPARATOR)):
            starts[n_words] = place
            n_words += 1
        if kind != MARK or previous == SEPARATOR:
            previous = LETTER if kind == MARK else kind
    return starts[:n_words].copy()

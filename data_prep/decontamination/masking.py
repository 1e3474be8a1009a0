"""Takes matches out of a text, with what stands around them.

    … piece | 200 characters | match | 200 characters | piece …      ->      piece, blank line, piece

GPT-3 (appendix C) makes a document of each piece; here they stay one document, with the id they have.
"""

import bisect
import functools
import unicodedata
from collections.abc import Sequence
from itertools import accumulate, pairwise

import numpy as np
from numpy.typing import NDArray

from headrace.data_prep.decontamination.search import word_count
from headrace.data_prep.dedup.shingles import ALONE, SEPARATOR, character_classes

PIECE_CHARACTERS = 200
"""Shorter pieces are not kept (GPT-3, appendix C)."""
MOST_PIECES = 10
"""A document that is cut into more pieces is contaminated as a whole (GPT-3, appendix C)."""
JOINT = "\n\n"

Run = tuple[int, int]
"""The first word of a run, and the word after its last."""


def masked(text: str, runs: Sequence[Run], window_characters: int) -> str | None:
    """``text`` without the words of ``runs`` (sorted by first word) and ``window_characters`` on each side of them.

    A word that a window cuts goes too. None when too little is left, or too many pieces.
    """
    places, cuts = Places(text), list[tuple[int, int]]()
    for first, last in runs:
        start, _ = places.word_across(max(0, places.start(first) - window_characters))
        _, end = places.word_across(min(len(text), places.end(last) + window_characters))
        if cuts and start <= cuts[-1][1]:
            cuts[-1] = cuts[-1][0], max(end, cuts[-1][1])
        else:
            cuts.append((start, end))
    edges = [0, *(edge for cut in cuts for edge in cut), len(text)]
    pieces = [piece for start, end in zip(edges[::2], edges[1::2], strict=True) if (piece := text[start:end].strip())]
    kept = [piece for piece in pieces if len(piece) >= PIECE_CHARACTERS]
    return JOINT.join(kept) if kept and len(pieces) <= MOST_PIECES else None


class Places:
    """Where the words of ``text`` lie in it: folding may change the number of characters, so they are counted."""

    def __init__(self, text: str) -> None:
        begins = chunk_beginnings()[np.frombuffer(text.encode("utf-32-le", "surrogatepass"), "<u4")]
        begins[:1] = True
        self._text = text
        self._starts = np.flatnonzero(begins).tolist()
        chunks = (text[start:end] for start, end in pairwise([*self._starts, len(text)]))
        self._words = [0, *accumulate(map(word_count, chunks))]

    def start(self, word: int) -> int:
        """The character that word number ``word`` begins at; the end of the text beyond its last word."""
        if word >= self._words[-1]:
            return len(self._text)
        chunk = bisect.bisect_right(self._words, word) - 1
        first = self._starts[chunk]
        length = (self._starts[chunk + 1] if chunk + 1 < len(self._starts) else len(self._text)) - first
        within = word - self._words[chunk]
        return first + bisect.bisect_right(
            range(length), within, key=lambda i: word_count(self._text[first : first + i + 1])
        )

    def end(self, word: int) -> int:
        """The character after the word before number ``word`` (not the first) and the punctuation that follows it."""
        start = self.start(word - 1)
        return start + len(self._text[start : self.start(word)].rstrip())

    def word_across(self, character: int) -> tuple[int, int]:
        """Beginning and end of the word on both sides of ``character``; the character itself where there is none."""
        chunk = bisect.bisect_right(self._starts, character) - 1
        word = self._words[chunk] + word_count(self._text[self._starts[chunk] : character]) if chunk >= 0 else 0
        if word and self.end(word) > character:
            return self.start(word - 1), self.end(word)
        return character, character


@functools.cache
def chunk_beginnings() -> NDArray[np.bool_]:
    """(0x110000,): the characters that begin a chunk, such as white space, punctuation and Han.

    Folding changes nothing across such a boundary: none of them joins what stands before it. And a word that goes on
    after it was no word before it. So chunks can be counted one by one, and hold two words at most.
    """
    table = np.isin(character_classes(), (SEPARATOR, ALONE))
    table[[code for code in np.flatnonzero(table).tolist() if unicodedata.category(chr(code))[0] == "M"]] = False
    return table

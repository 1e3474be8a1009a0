"""Folds a text: removes differences of case and of composed or decomposed accents, in linear time.

    "E\\u0301cole"  ── casefold ──> "e\\u0301cole"  ── NFC ──> "\\u00e9cole"

Python's NFC takes quadratic time in the length of a run of combining marks that is not yet in canonical order. Runs
that are longer than in any language are therefore sorted here first. Equivalent texts have the same NFC (UAX #15), so
the result is the same.

Tables by code point are built here, too: a Python loop over the million of them takes a second (``changed_by``).
"""

import functools
import itertools
import unicodedata
from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray

CODE_POINTS = 0x110000
BLOCK = 256
"""Code points that are looked at together: few blocks of this size hold a character that changes."""


@functools.cache
def all_characters() -> str:
    """Returns the character of each code point."""
    return np.arange(CODE_POINTS, dtype="<u4").tobytes().decode("utf-32-le", "surrogatepass")


def changed_by(change: Callable[[str], str]) -> Iterator[tuple[str, str]]:
    """Yields each character that ``change`` changes, and what it becomes.

    A block of text that ``change`` leaves as it is must hold no such character: most blocks are passed over so.
    """
    for start in range(0, CODE_POINTS, BLOCK):
        block = all_characters()[start : start + BLOCK]
        if change(block) != block:
            yield from ((character, new) for character in block if (new := change(character)) != character)


LONG_RUN = 32
"""Combining marks in a row. Unicode's stream-safe format (UAX #15) allows 30; languages need fewer than ten."""


def fold(text: str) -> str:
    """Returns ``text`` case-folded and in canonical composition (NFC)."""
    return text.lower() if text.isascii() else composed(text.casefold())


def composed(text: str) -> str:
    """Returns ``text`` in canonical composition (NFC). Its time grows with its length also for hostile texts."""
    return text if text.isascii() else unicodedata.normalize("NFC", _with_sorted_marks(text))


def plain_letters(text: str) -> str:
    """Returns ``text`` as it is compared with lists of words, whatever its case, composition, accents and points.

    ``Και``, ``ΚΑΙ`` and ``καὶ`` are equal, ``İÇİN`` and ``için``, ``şi`` and ``și``, Arabic with and without its vowel
    signs, hamzas and Persian letters. Signs of vowels and sounds of Indic scripts, Thai and kana stay.
    """
    if text.isascii():
        return text.lower()
    parts = unicodedata.normalize("NFD", _with_sorted_marks(text.casefold()))
    return unicodedata.normalize("NFC", parts.translate(_plain_table()))


@functools.cache
def _plain_table() -> dict[int, int | None]:
    """Returns the character that ``plain_letters`` puts for each of some; None: nothing."""
    table: dict[int, int | None] = {ord(mark): None for mark in _marks() if is_point(unicodedata.combining(mark))}
    return table | str.maketrans("\u0131\u06a9\u06cc\u0649", "i\u0643\u064a\u064a", "\u0640\u200c\u200d")


def is_point(combining_class: int) -> bool:
    """Whether it is that of points of Hebrew and Arabic, or of accents, and not of signs that make another letter."""
    return 10 <= combining_class <= 36 or combining_class >= 200


def _with_sorted_marks(text: str) -> str:
    """Returns ``text`` with its long runs of combining marks in canonical order."""
    if _marks().isdisjoint(text[:: LONG_RUN // 2]):  # a long run has a mark at one of these indices
        return text
    is_mark = _mark_table()[np.frombuffer(text.encode("utf-32-le", "surrogatepass"), "<u4")]
    edges = np.flatnonzero(np.diff(is_mark, prepend=False, append=False)).reshape(-1, 2)
    runs = edges[edges[:, 1] - edges[:, 0] >= LONG_RUN].tolist()
    ends = [0, *(end for _, end in runs)]
    starts = [*(start for start, _ in runs), len(text)]
    others = [text[end:start] for end, start in zip(ends, starts, strict=True)]
    ordered = [_sorted(text[start:end]) for start, end in runs]
    return "".join(itertools.chain.from_iterable(itertools.zip_longest(others, ordered, fillvalue="")))


def _sorted(run: str) -> str:
    """Returns a run of combining marks, decomposed and in canonical order."""
    decomposed = itertools.chain.from_iterable(unicodedata.normalize("NFD", mark) for mark in run)
    return "".join(sorted(decomposed, key=unicodedata.combining))


@functools.cache
def _marks() -> frozenset[str]:
    """Returns all characters that decompose to combining marks only."""
    decomposed = changed_by(functools.partial(unicodedata.normalize, "NFD"))
    marks = itertools.compress(all_characters(), map(unicodedata.combining, all_characters()))
    return frozenset(marks).union(c for c, parts in decomposed if unicodedata.combining(parts[0]))


@functools.cache
def _mark_table() -> NDArray[np.bool_]:
    """Returns for each code point whether it is one of ``_marks``: (0x110000,)."""
    table = np.zeros(CODE_POINTS, np.bool_)
    table[list(map(ord, _marks()))] = True
    return table

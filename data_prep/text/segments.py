"""Words and sentences of a text in any script, with punctuation marks as words of their own.

    "Wir gehen, 今天"  ── word_segments ──>  Wir  gehen  ,  今  天

``word_segments`` needs no dictionary. Letters, marks, digits, the apostrophes between them and the marks of a decimal
number are a word, dots and dashes in a row one mark. In scripts
that are written without spaces (``ALONE_RANGES`` of words.py) each letter, with the marks on it, is a word: an
approximation, whose n-grams are shorter than those of real words. ``characters_per_word`` of
language_values.json is the measured length of these.
"""

import functools
import itertools
import re
from typing import TYPE_CHECKING

import numpy as np
from datatrove.utils.text import TERMINAL_PUNCTUATION

from headrace.data_prep.text.words import ALONE_RANGES, MARK, character_classes

if TYPE_CHECKING:
    from numpy.typing import NDArray

JOINERS = "\u200c\u200d"
"""Zero-width non-joiner and joiner, which stand inside words of Persian and of Indic scripts."""
DECIMAL = ".,:"
"""Marks that belong to a number between two of its digits."""
REPEATED = ".-–—=*~#•…"
"""Marks of which several in a row are one: dots and rules."""
CLOSING = "\"'”’»)\\]}」』】〉》）"
"""Marks that may follow the mark at the end of a sentence."""
WIDE_ENDS = "。！？｡．"
"""Marks that end a sentence although no space follows: those of scripts without spaces between words."""
UNMARKED_RANGES = "\u0e00-\u0eff"
"""Thai and Lao, which end a sentence by a space alone."""


def ranges_of(numbers: "NDArray[np.intp]") -> str:
    """Returns the ascending code points ``numbers`` as the inside of a character class of a regular expression."""
    parts = np.split(numbers, np.flatnonzero(np.diff(numbers) > 1) + 1)
    return "".join(f"{re.escape(chr(part[0]))}-{re.escape(chr(part[-1]))}" for part in parts if len(part))


def is_unspaced(word: str) -> bool:
    """Whether ``word`` begins with a letter of a script that is written without spaces."""
    return any(first <= ord(word[0]) <= last for first, last in ALONE_RANGES)


def alone_class() -> str:
    """Returns the scripts without spaces as the inside of a character class."""
    return "".join(f"{chr(first)}-{chr(last)}" for first, last in ALONE_RANGES)


@functools.cache
def word_pattern() -> "re.Pattern[str]":
    """Builds the expression that matches one word or mark."""
    marks = ranges_of(np.flatnonzero(character_classes() == MARK)) + JOINERS
    alone = alone_class()
    run = f"(?:[^\\W{alone}][{marks}]*)+"
    words = f"(?=\\w)[{alone}][{marks}]*|{run}(?:(?:['’]|(?<=\\d)[{DECIMAL}](?=\\d)){run})*"
    return re.compile(f"{words}|[{re.escape(REPEATED)}]{{2,}}|[^\\w\\s{marks}]")


@functools.lru_cache(maxsize=1)
def word_segments(text: str) -> list[str]:
    """Returns the words and marks of ``text``. The last result is kept for the next filter of the same page."""
    return word_pattern().findall(text)


@functools.cache
def end_pattern() -> "re.Pattern[str]":
    """Builds the expression that matches the end of a sentence.

    ``.``, ``!`` and ``?`` need a space or the end of the line after them, and no small letter there. A full stop also
    needs two letters or digits before it, so that ``z. B.`` is no end. Marks of other scripts end a sentence anywhere.
    In Thai and Lao a space between two letters does.
    """
    others = re.escape("".join(sorted(set(TERMINAL_PUNCTUATION) - set(".!?"))) + WIDE_ENDS)
    spaced = f"(?:[!?]|(?<=\\w\\w)\\.)[{CLOSING}]*(?=\\s+[^\\sa-z]|\\s*$)"
    unmarked = f"(?<=[{UNMARKED_RANGES}])[ ]+(?=[{UNMARKED_RANGES}])"
    return re.compile(f"[{others}]+[{CLOSING}]*|{spaced}|{unmarked}")


def sentence_segments(text: str) -> list[str]:
    """Returns the sentences of ``text`` by their end marks, in any script. The end of a line ends a sentence."""
    sentences: list[str] = []
    for line in text.splitlines():
        ends = [0, *(match.end() for match in end_pattern().finditer(line)), len(line)]
        pieces = (line[start:end].strip() for start, end in itertools.pairwise(ends))
        sentences += [piece for piece in pieces if any(map(str.isalnum, piece))]
    return sentences

"""Tables by code point: how compiled passes over a page's UTF-32 see Python's ideas of space, word and case.

    code point ── table[code] ──> number of its lower-case character among those that matter │ flags

``UNSURE`` stands for the capitals whose lower case is not one character by itself: ``İ`` becomes two, ``Σ`` becomes
``σ`` or ``ς`` by what stands around it. A compiled pass leaves text with these to Python.
"""

import functools
import re
from collections.abc import Iterable

import numpy as np

CODE_POINTS = 0x110000
OTHER, UNSURE = 0, 1
"""Numbers of characters that do not matter, and of those whose lower case cannot be told; the others follow."""
FLAG = 1 << 15
SECOND_FLAG = 1 << 14
NUMBER = SECOND_FLAG - 1
"""The bits of a table's entry that hold the number; the flags lie above."""
CONTEXT = "Σ"
"""The one character that ``str.lower`` treats by its neighbours (CPython's ``handle_capital_sigma``)."""


def codes_of(text: str) -> "np.ndarray":
    """The code points of ``text``, uint32 (characters,)."""
    return np.frombuffer(text.encode("utf-32-le", "surrogatepass"), np.uint32)


def numbers_of(characters: Iterable[str]) -> dict[str, int]:
    """A number for each distinct character, from ``UNSURE + 1`` on."""
    return {character: number for number, character in enumerate(sorted(set(characters)), UNSURE + 1)}


def numbered(numbers: dict[str, int]) -> "np.ndarray":
    """uint16 (0x110000,): the number of each code point's lower case; ``numbers`` holds fewer than 2^14 - 2."""
    table = np.full(CODE_POINTS, OTHER, np.uint16)
    for character, number in numbers.items():
        table[ord(character)] = number
    for code, lower in _lowered().items():
        table[code] = UNSURE if len(lower) > 1 or chr(code) == CONTEXT else numbers.get(lower, OTHER)
    return table


@functools.cache
def matching(pattern: str) -> "np.ndarray":
    """bool (0x110000,), read-only: which characters ``pattern``, a class such as ``\\s``, matches."""
    found = np.zeros(CODE_POINTS, bool)
    for match in re.finditer(f"{pattern}+", _every_character()):
        found[match.start() : match.end()] = True
    found.setflags(write=False)
    return found


@functools.cache
def _every_character() -> str:
    return "".join(map(chr, range(CODE_POINTS)))


@functools.cache
def _lowered() -> dict[int, str]:
    """The code points that are not their own lower case, with it."""
    return {code: lower for code, c in enumerate(_every_character()) if (lower := c.lower()) != c}

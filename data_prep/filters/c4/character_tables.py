"""Tables by code point, with which compiled passes over a page follow Python's rules for space, word and case.

    code point ── table[code] ──> number of its lower-case character among those that matter | flags

``UNSURE`` stands for capitals whose lower case is not one character by itself: ``İ`` becomes two characters, and ``Σ``
becomes ``σ`` or ``ς``, depending on its neighbours. A compiled pass leaves text that holds one of them to Python.
"""

import functools
import re
from collections.abc import Iterable

import numpy as np

from headrace.data_prep.text.folding import CODE_POINTS, all_characters, changed_by

OTHER, UNSURE = 0, 1
"""The numbers of characters that do not matter, and of those whose lower case is not certain. The others follow."""
FLAG = 1 << 15
SECOND_FLAG = 1 << 14
NUMBER = SECOND_FLAG - 1
"""The bits of an entry that hold the number. The flags are above them."""
CONTEXT_DEPENDENT = "Σ"
"""The only character whose ``str.lower`` depends on its neighbours (CPython's ``handle_capital_sigma``)."""


def code_points(text: str) -> "np.ndarray":
    """Returns the code points of ``text``, uint32 (characters,)."""
    return np.frombuffer(text.encode("utf-32-le", "surrogatepass"), np.uint32)


def number_characters(characters: Iterable[str]) -> dict[str, int]:
    """Numbers the distinct characters, starting at ``UNSURE + 1``."""
    return {character: number for number, character in enumerate(sorted(set(characters)), UNSURE + 1)}


def lower_case_table(numbers: dict[str, int]) -> "np.ndarray":
    """Returns uint16 (0x110000,): the number of each code point's lower case. ``numbers`` holds at most 2^14 - 3."""
    table = np.full(CODE_POINTS, OTHER, np.uint16)
    for character, number in numbers.items():
        table[ord(character)] = number
    for code, lower in _lower_cases().items():
        is_unsure = len(lower) > 1 or chr(code) == CONTEXT_DEPENDENT
        table[code] = UNSURE if is_unsure else numbers.get(lower, OTHER)
    return table


@functools.cache
def character_class(pattern: str) -> "np.ndarray":
    """Returns bool (0x110000,), read-only: the code points that ``pattern``, a class such as ``\\s``, matches."""
    is_member = np.zeros(CODE_POINTS, bool)
    for match in re.finditer(f"{pattern}+", all_characters()):
        is_member[match.start() : match.end()] = True
    is_member.setflags(write=False)
    return is_member


@functools.cache
def _lower_cases() -> dict[int, str]:
    """Returns the lower case of each code point that is not its own lower case."""
    return {ord(character): lower for character, lower in changed_by(str.lower)}

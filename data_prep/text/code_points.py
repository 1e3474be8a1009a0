"""All code points, from which tables by code point are built. A Python loop over the million of them takes a second."""

import functools
from collections.abc import Callable, Iterator

import numpy as np

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

"""Buttons inside sentences: their labels belong to the line around them.

    Press the | Save | button.  ── buttons ──> the three blocks are one line

A button that begins or ends a paragraph belongs to its sentence if the letters around it say that this goes on.
"""

import numpy as np
from numpy.typing import NDArray

from headrace.data_prep.extraction.parsing.elements import BLOCK as BLOCK_RULE
from headrace.data_prep.extraction.parsing.elements import NUMBER, RULES
from headrace.data_prep.extraction.parsing.scan import (
    BLOCK,
    BLOCK_FLAGS,
    ELEMENT_NAME,
    END,
    JOINS,
    LINK_CHARACTERS,
    PARENT,
    START,
    Scan,
)

BUTTON, P = NUMBER["button"], NUMBER["p"]


def with_buttons(scan: Scan, order: NDArray[np.int64], keep: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Returns ``keep`` with whole sentences that have buttons inside, by most of their characters: (blocks,)."""
    kept = keep.copy()
    for first, last in buttons(scan, order, keep):
        blocks = order[first:last]
        sizes = scan.records[blocks, END] - scan.records[blocks, START]
        kept[first:last] = sizes[keep[first:last]].sum() * 2 >= sizes.sum()
    return kept


def buttons(scan: Scan, order: NDArray[np.int64], keep: NDArray[np.bool_]) -> list[tuple[int, int]]:
    """Returns the ranges of the blocks of each line with a block to ``keep`` that has buttons inside a sentence."""
    joins, ranges = np.flatnonzero(scan.records[order, BLOCK_FLAGS] & JOINS), list[tuple[int, int]]()
    if not (keep[joins] | keep[joins - 1]).any():
        return ranges
    for group in np.split(joins, np.flatnonzero(np.diff(joins) > 1) + 1):
        first, last = max(int(group[0]) - 1, 0), int(group[-1]) + 1
        if not keep[first:last].any():
            continue
        is_button = [_name(scan, block) == BUTTON for block in order[first:last]]
        while last - first > 1 and is_button[0] and not _begins(scan, order[first + 1]):
            first, is_button = first + 1, is_button[1:]
        while last - first > 1 and is_button[-1] and not _goes_on(scan, order[last - 2]):
            last, is_button = last - 1, is_button[:-1]
        if any(is_button) and not all(is_button) and container(scan, order[first:last]) > 0:
            ranges.append((first, last))
    return ranges


def _name(scan: Scan, block: int) -> int:
    return int(scan.records[scan.records[block, BLOCK], ELEMENT_NAME])


def container(scan: Scan, blocks: NDArray[np.int64]) -> int:
    """Returns the element around the buttons, of which the other ``blocks`` are the text; 0 if there is none."""
    elements = {int(scan.records[block, BLOCK]) for block in blocks if _name(scan, block) != BUTTON}
    for button in (int(scan.records[block, BLOCK]) for block in blocks if _name(scan, block) == BUTTON):
        around = int(scan.records[button, PARENT])
        while around > 0 and not RULES[scan.records[around, ELEMENT_NAME]] & BLOCK_RULE:
            around = int(scan.records[around, PARENT])
        elements.add(around)
    text = [block for block in blocks if _name(scan, block) != BUTTON and _is_text(scan, block)]
    return elements.pop() if len(elements) == 1 and text else 0


def _piece(scan: Scan, block: int) -> bytes:
    return scan.text[scan.records[block, START] : scan.records[block, END]].tobytes()


def _is_text(scan: Scan, block: int) -> bool:
    """Whether a block has more than one word, most of them in no link."""
    piece = _piece(scan, block)
    return (b" " in piece or max(piece) > 0xE0) and scan.records[block, LINK_CHARACTERS] * 2 < len(piece)


def _begins(scan: Scan, block: int) -> bool:
    """Whether a sentence may go on in a paragraph's ``block`` after the button that it begins with."""
    first = _piece(scan, block)[:1]
    return _name(scan, block) == P and _is_text(scan, block) and not first.isdigit() and not first.isupper()


def _goes_on(scan: Scan, block: int) -> bool:
    """Whether a sentence may go on in the button after a paragraph's ``block``."""
    return _name(scan, block) == P and _is_text(scan, block) and _piece(scan, block).decode()[-1].isalpha()

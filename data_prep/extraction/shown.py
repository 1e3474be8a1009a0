"""Changes of the text of the blocks that were kept: it is what a reader sees of them.

    Scan, order, keep ── as_shown ──> Scan, order, keep
        Press the | Save | button            Press the Save button            a button inside a sentence
        is 100 80 euros                      is 80 euros                      <del>100</del> <ins>80</ins>
        x squared | x2 | x^2                 x^2                              MathJax's preview, drawing and TeX
        10<sup>80</sup>                      10^80                            notation.py
        1\\n2\\n3 | for i in range(3):         for i in range(3):               numbers of lines

Left out are deleted text, words that are hidden inside a sentence, numbers of lines of code, and what draws a formula
whose TeX or MathML is there. Words in an element that its style makes a block stand on a line of their own.
"""

import numpy as np
from numpy.typing import NDArray

from headrace.data_prep.extraction.buttons import buttons, container
from headrace.data_prep.extraction.edits import SPACES, Edits, MarkedText
from headrace.data_prep.extraction.notation import add_notation
from headrace.data_prep.extraction.parsing.elements import BLOCK as BLOCK_RULE
from headrace.data_prep.extraction.parsing.elements import RULES, numbers
from headrace.data_prep.extraction.parsing.scan import (
    BLOCK,
    BLOCK_FLAGS,
    BLOCKS,
    CODE_CLASS,
    ELEMENT_CLASSES,
    ELEMENT_FLAGS,
    ELEMENT_NAME,
    ELEMENTS,
    END,
    PARENT,
    PRE_BLOCK,
    SPACED,
    START,
    TEXT_END,
    TEXT_START,
    Scan,
)
from headrace.data_prep.extraction.parsing.tag import (
    ALT_TEXT,
    AS_BLOCK,
    DISPLAY,
    DRAWING,
    GUTTER,
    HIDDEN,
    LINE_NUMBERS,
    NOT_DISPLAYED,
    STRUCK,
    TEX,
)
from headrace.data_prep.kernel import kernel, kernel_in_place

(CODE, DATALIST, DEL, MATH, PRE, S, SCRIPT, STRIKE, SUB, SUP) = numbers(
    "code datalist del math pre s script strike sub sup"
)
CHANGED = np.zeros(len(RULES), np.bool_)
CHANGED[list(numbers("datalist del math s strike sub sup"))] = True
CHANGED_FLAGS = DRAWING | LINE_NUMBERS | GUTTER | AS_BLOCK | STRUCK | HIDDEN | NOT_DISPLAYED | TEX
UNSEEN_FLAGS = HIDDEN | NOT_DISPLAYED
IN_NUMBERS = np.isin(np.arange(256), list(b"0123456789 \n\t.:|"))
"""Bytes of numbers of lines and of what is around them."""
AROUND_CODE = 8
"""Elements around numbers of lines whose class may say that they are code's."""


@kernel
def changed_elements(scan: Scan, order: NDArray[np.int64], keep: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Returns the elements with text in blocks to ``keep`` that a reader sees otherwise, and all formulas; none if only
    formulas are left."""
    records, size = scan.records, scan.registers[BLOCKS]
    before = np.zeros(size + 1, np.int64)  # the blocks to keep before each
    for index in range(order.size):
        before[order[index] + 1] = keep[index]
    for block in range(size):
        before[block + 1] += before[block]
    changed, count, is_changed = np.empty(scan.registers[ELEMENTS], np.int64), 0, False
    for element in range(1, scan.registers[ELEMENTS]):
        name, flags = records[element, ELEMENT_NAME], records[element, ELEMENT_FLAGS]
        start, end, parent = records[element, TEXT_START], records[element, TEXT_END], records[element, PARENT]
        if start == end or not (CHANGED[name] or flags & CHANGED_FLAGS):
            continue
        if not CHANGED[name] and not flags & (CHANGED_FLAGS ^ UNSEEN_FLAGS):
            is_alone = records[parent, TEXT_START] == start and records[parent, TEXT_END] == end
            if RULES[name] & BLOCK_RULE or is_alone:
                continue
        first, last = _block_at(records, size, start), _block_at(records, size, end - 1)
        if before[last + 1] > before[first]:
            changed[count] = element
            count += 1
            is_tex = name in (MATH, SCRIPT) and flags & (ALT_TEXT | TEX)
            is_changed |= not is_tex or flags & DISPLAY != 0
    return changed[: count if is_changed else 0]


@kernel_in_place
def _block_at(records: NDArray[np.int32], size: int, at: int) -> int:
    """Returns the last of the blocks that begins at or before ``at``."""
    low, high = 0, size
    while high - low > 1:
        middle = (low + high) // 2
        if records[middle, START] <= at:
            low = middle
        else:
            high = middle
    return low


def as_shown(
    scan: Scan, order: NDArray[np.int64], keep: NDArray[np.bool_]
) -> tuple[Scan, NDArray[np.int64], NDArray[np.bool_]]:
    """Returns the page, the blocks and ``keep`` as a reader sees them: blocks without text are no longer there."""
    numbers = changed_elements(scan, order, keep)
    joined = [(first, last) for first, last in buttons(scan, order, keep) if keep[first:last].all()]
    if not numbers.size and not joined:
        return scan, order, keep
    edits = Edits(scan)
    parts = edits.parts(numbers)
    _remove_unseen(edits, parts)
    edits.settle()
    add_notation(edits, parts)
    for part in parts:
        if part.flags & AS_BLOCK and not RULES[part.name] & BLOCK_RULE:
            first, last = edits.trimmed(part)
            edits.line_feed(first)
            edits.line_feed(last)
        elif part.flags & DISPLAY and part.name in (MATH, SCRIPT):
            _set_apart(edits, part)
    present = np.ones(order.size, np.bool_)
    for first, last in joined:
        present[first + 1 : last] = False
        for index in range(first + 1, last):
            _join(edits, order[index])
    new = edits.applied()
    if joined and new is scan:
        new = scan._replace(records=scan.records.copy(order="F"))
    for first, last in joined:
        block, end = order[first], new.records[order[last - 1], END]
        new.records[block, END] = end
        new.records[order[first + 1 : last], START] = new.records[order[first + 1 : last], END] = end
        new.records[block, BLOCK] = container(scan, order[first:last])
    if new is not scan:
        present &= _trimmed(new, scan, order)
    return new, order[present], keep[present]


def _remove_unseen(edits: Edits, parts: list[MarkedText]) -> None:
    """Removes what no reader sees, or sees struck out."""
    others = np.empty(0, np.int64)
    if any(part.flags & (LINE_NUMBERS | GUTTER) for part in parts):
        others = np.flatnonzero(~IN_NUMBERS[np.frombuffer(edits.text, np.uint8)])
    maths = [part.start for part in parts if part.name == MATH or (part.name == SCRIPT and part.flags & TEX)]
    until = 0
    for part in parts:
        if part.end <= until:
            continue
        is_deleted = part.name in (DATALIST, DEL, S, STRIKE) or part.flags & STRUCK
        is_hidden = part.flags & (HIDDEN | NOT_DISPLAYED) and not is_deleted and _is_in_sentence(edits, part, maths)
        is_number = part.flags & (LINE_NUMBERS | GUTTER) and _is_number(edits, part, others)
        if is_deleted or is_hidden or is_number:
            edits.remove_words(part.start, part.end)
            until = part.end
    _remove_drawings(edits, parts)


def _is_in_sentence(edits: Edits, part: MarkedText, maths: list[int]) -> bool:
    """Whether an element is inside a block most of which is other text, and has no formula."""
    start, end = edits.bounds(edits.trimmed(part)[0])
    is_inside = part.end <= end and (part.end - part.start) * 2 < end - start
    index = int(np.searchsorted(maths, part.start))
    return is_inside and not RULES[part.name] & BLOCK_RULE and not (index < len(maths) and maths[index] < part.end)


def _is_number(edits: Edits, part: MarkedText, others: NDArray[np.int64]) -> bool:
    """Whether an element whose class says so has numbers at the beginning of lines, and nothing else."""
    index = np.searchsorted(others, part.start)
    if index < others.size and others[index] < part.end:
        return False
    first, _ = edits.trimmed(part)
    if edits.text[edits.bounds(first)[0] : first].rstrip(b" \t")[-1:] not in (b"", b"\n"):
        return False
    if part.flags & LINE_NUMBERS or edits.is_pre(first):
        return True
    around: MarkedText | None = part
    for _ in range(AROUND_CODE):
        around = edits.part(around.parent) if around else None
        if around and (around.name in (CODE, PRE) or edits.scan.records[around.number, ELEMENT_CLASSES] & CODE_CLASS):
            return True
    return False


def _remove_drawings(edits: Edits, parts: list[MarkedText]) -> None:
    """Removes what MathJax drew where its TeX follows; else all of it but the MathML that it has for readers aloud."""
    tex = {edits.trimmed(part)[0] for part in parts if part.name == SCRIPT and part.flags & TEX}
    maths = [part for part in parts if part.name == MATH]
    starts = [math.start for math in maths]
    for part in reversed(parts):
        if not part.flags & DRAWING:
            continue
        after = part.end
        while after < len(edits.text) and edits.text[after] in SPACES:
            after += 1
        if after in tex:
            tex.add(edits.trimmed(part)[0])
            start = part.start + (edits.text[part.start] in SPACES and edits.text[part.end] not in SPACES)
            edits.remove(start, part.end)
            continue
        index = int(np.searchsorted(starts, part.start))
        if index < len(maths) and maths[index].end <= part.end:
            edits.remove(edits.trimmed(part)[0], maths[index].start)
            edits.remove(maths[index].end, part.end)


def _set_apart(edits: Edits, part: MarkedText) -> None:
    """Puts spaces around a formula that a browser shows on a line of its own."""
    first, last = edits.trimmed(part)
    start, end = edits.bounds(first)
    if start < first and edits.text[first - 1] not in SPACES:
        edits.insert(first, " ", part._replace(number=part.number - 1))
    if last < end and chr(edits.text[last]).isalnum():
        edits.insert(last, " ", part._replace(number=part.number - 1), closes=True)


def _join(edits: Edits, block: int) -> None:
    """Joins a block to the one before it."""
    at, flags = int(edits.scan.records[block, START]), edits.scan.records[block, BLOCK_FLAGS]
    if flags & SPACED or (edits.text[at - 1 : at] + edits.text[at : at + 1]).isalnum():
        edits.insert(at, " ", None)


def _trimmed(new: Scan, old: Scan, order: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Takes the white space off the ends of blocks that changed. Returns which blocks have text: (blocks,)."""
    size, text = new.registers[BLOCKS], new.text
    sizes = new.records[:size, END] - new.records[:size, START]
    for block in np.flatnonzero(sizes != old.records[:size, END] - old.records[:size, START]).tolist():
        start, end = new.records[block, START], new.records[block, END]
        piece = text[start:end].tobytes()
        if not piece.strip():
            new.records[block, START] = end
        elif not new.records[block, BLOCK_FLAGS] & PRE_BLOCK:
            new.records[block, START] = end - len(piece.lstrip(SPACES))
            new.records[block, END] = start + len(piece.rstrip(SPACES))
    return new.records[order, END] > new.records[order, START]

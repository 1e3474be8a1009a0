"""Changes of the text of the blocks that were kept: it is what a reader sees of them.

    Scan, order, keep ── as_shown ──> Scan, order, keep
        Press the | Save | button            Press the Save button            a button inside a sentence
        is 100 80 euros                      is 80 euros                      <del>100</del> <ins>80</ins>
        x squared | x2 | x^2                 x^2                              MathJax's preview, drawing and TeX
        10<sup>80</sup>                      10^80                            notation.py
        1\\n2\\n3 | for i in range(3):         for i in range(3):               numbers of lines

Left out are deleted text, words that are hidden inside a sentence, numbers of lines of code, and what draws a formula
whose TeX or MathML is there. Words in an element that its style makes a block stand on a line of their own.
A button that begins or ends a paragraph belongs to its sentence if the letters around it say that this goes on.
"""

import numpy as np
from numpy.typing import NDArray

from headrace.data_prep.extraction.edits import SPACES, Edits
from headrace.data_prep.extraction.markup import NUMBER, RULE, RULES, numbers
from headrace.data_prep.extraction.notation import add_notation
from headrace.data_prep.extraction.scan import (
    CODE_CLASS,
    FLAG,
    JOINS,
    PRE_BLOCK,
    SPACED,
    B,
    E,
    Element,
    R,
    Scan,
    elements,
)
from headrace.data_prep.kernel import kernel, kernel_in_place

BUTTON, P = NUMBER["button"], NUMBER["p"]


def with_buttons(scan: Scan, order: NDArray[np.int64], keep: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Returns ``keep`` with whole sentences that have buttons inside, by most of their characters: (blocks,)."""
    kept = keep.copy()
    for first, last in buttons(scan, order, keep):
        blocks = order[first:last]
        sizes = scan.records[blocks, B.end] - scan.records[blocks, B.start]
        kept[first:last] = sizes[keep[first:last]].sum() * 2 >= sizes.sum()
    return kept


def buttons(scan: Scan, order: NDArray[np.int64], keep: NDArray[np.bool_]) -> list[tuple[int, int]]:
    """Returns the ranges of the blocks of each line with a block to ``keep`` that has buttons inside a sentence."""
    ranges = []
    for first, last in joined_blocks(scan, order, keep).tolist():
        is_button = [_name(scan, block) == BUTTON for block in order[first:last]]
        while last - first > 1 and is_button[0] and not _begins(scan, order[first + 1]):
            first, is_button = first + 1, is_button[1:]
        while last - first > 1 and is_button[-1] and not _goes_on(scan, order[last - 2]):
            last, is_button = last - 1, is_button[:-1]
        if any(is_button) and not all(is_button) and container(scan, order[first:last]) > 0:
            ranges.append((first, last))
    return ranges


@kernel
def joined_blocks(scan: Scan, order: NDArray[np.int64], keep: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Returns the ranges of blocks of lines with a block to ``keep``, with buttons and other text: (lines, 2)."""
    ranges, lines, index = np.empty((order.size, 2), np.int64), 0, 0
    while index < order.size:
        first, kept, pressed = max(index - 1, 0), False, 0
        while index < order.size and scan.records[order[index], B.flags] & JOINS:
            index += 1
        for other in range(first, index):
            kept |= keep[other]
            pressed += scan.records[scan.records[order[other], B.element], E.name] == BUTTON
        if kept and 0 < pressed < index - first:
            ranges[lines, 0], ranges[lines, 1] = first, index
            lines += 1
        index += 1
    return ranges[:lines]


def _name(scan: Scan, block: int) -> int:
    return int(scan.records[scan.records[block, B.element], E.name])


def container(scan: Scan, blocks: NDArray[np.int64]) -> int:
    """Returns the element around the buttons, of which the other ``blocks`` are the text; 0 if there is none."""
    elements = {int(scan.records[block, B.element]) for block in blocks if _name(scan, block) != BUTTON}
    for button in (int(scan.records[block, B.element]) for block in blocks if _name(scan, block) == BUTTON):
        around = int(scan.records[button, E.parent])
        while around > 0 and not RULES[scan.records[around, E.name]] & RULE.block:
            around = int(scan.records[around, E.parent])
        elements.add(around)
    text = [block for block in blocks if _name(scan, block) != BUTTON and _is_text(scan, block)]
    return elements.pop() if len(elements) == 1 and text else 0


def piece(scan: Scan, block: int) -> bytes:
    """Returns the text of a block."""
    return scan.text[scan.records[block, B.start] : scan.records[block, B.end]].tobytes()


def _is_text(scan: Scan, block: int) -> bool:
    """Whether a block has more than one word, most of them in no link."""
    text = piece(scan, block)
    return (b" " in text or max(text) > 0xE0) and scan.records[block, B.link_characters] * 2 < len(text)


def _begins(scan: Scan, block: int) -> bool:
    """Whether a sentence may go on in a paragraph's ``block`` after the button that it begins with."""
    first = piece(scan, block)[:1]
    return _name(scan, block) == P and _is_text(scan, block) and not first.isdigit() and not first.isupper()


def _goes_on(scan: Scan, block: int) -> bool:
    """Whether a sentence may go on in the button after a paragraph's ``block``."""
    return _name(scan, block) == P and _is_text(scan, block) and piece(scan, block).decode()[-1].isalpha()


(CODE, DATALIST, DEL, MATH, PRE, S, SCRIPT, STRIKE, SUB, SUP) = numbers(
    "code datalist del math pre s script strike sub sup"
)
CHANGED = np.isin(np.arange(len(RULES)), numbers("datalist del math s strike sub sup"))
UNSEEN_FLAGS = FLAG.hidden | FLAG.not_displayed
NUMBER_FLAGS = FLAG.line_numbers | FLAG.gutter
CHANGED_FLAGS = UNSEEN_FLAGS | NUMBER_FLAGS | FLAG.drawing | FLAG.as_block | FLAG.struck | FLAG.tex
IN_NUMBERS = np.isin(np.arange(256), list(b"0123456789 \n\t.:|"))
"""Bytes of numbers of lines and of what is around them."""
AROUND_CODE = 8
"""Elements around numbers of lines whose class may say that they are code's."""


@kernel
def changed_elements(scan: Scan, order: NDArray[np.int64], keep: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Returns the elements with text in blocks to ``keep`` that a reader sees otherwise, and all formulas; none if only
    formulas are left."""
    records, size = scan.records, scan.registers[R.blocks]
    before = np.zeros(size + 1, np.int64)  # the blocks to keep before each
    for index in range(order.size):
        before[order[index] + 1] = keep[index]
    for block in range(size):
        before[block + 1] += before[block]
    changed, count, is_changed = np.empty(scan.registers[R.elements], np.int64), 0, False
    for element in range(1, scan.registers[R.elements]):
        name, flags = records[element, E.name], records[element, E.flags]
        start, end, parent = records[element, E.text_start], records[element, E.text_end], records[element, E.parent]
        if start == end or not (CHANGED[name] or flags & CHANGED_FLAGS):
            continue
        if not CHANGED[name] and not flags & (CHANGED_FLAGS ^ UNSEEN_FLAGS):
            is_alone = records[parent, E.text_start] == start and records[parent, E.text_end] == end
            if RULES[name] & RULE.block or is_alone:
                continue
        first, last = _block_at(records, size, start), _block_at(records, size, end - 1)
        if before[last + 1] > before[first]:
            changed[count] = element
            count += 1
            is_tex = name in (MATH, SCRIPT) and flags & (FLAG.alt_text | FLAG.tex)
            is_changed |= not is_tex or flags & FLAG.display != 0
    return changed[: count if is_changed else 0]


@kernel_in_place
def _block_at(records: NDArray[np.int32], size: int, at: int) -> int:
    """Returns the last of the blocks that begins at or before ``at``."""
    low, high = 0, size
    while high - low > 1:
        middle = (low + high) // 2
        if records[middle, B.start] <= at:
            low = middle
        else:
            high = middle
    return low


def as_shown(
    scan: Scan, order: NDArray[np.int64], keep: NDArray[np.bool_], as_tex: bool = False
) -> tuple[Scan, NDArray[np.int64], NDArray[np.bool_]]:
    """Returns the page, the blocks and ``keep`` as a reader sees them: blocks without text are no longer there, and
    MathML is TeX if ``as_tex``."""
    changed = changed_elements(scan, order, keep)
    joined = [(first, last) for first, last in buttons(scan, order, keep) if keep[first:last].all()]
    if not changed.size and not joined:
        return scan, order, keep
    edits = Edits(scan)
    parts = elements(scan, changed)
    _remove_unseen(edits, parts)
    edits.settle()
    add_notation(edits, parts, as_tex)
    for part in parts:
        if part.flags & FLAG.as_block and not RULES[part.name] & RULE.block:
            first, last = edits.trimmed(part)
            edits.line_feed(first)
            edits.line_feed(last)
        elif part.flags & FLAG.display and part.name in (MATH, SCRIPT):
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
        block, end = order[first], new.records[order[last - 1], B.end]
        new.records[block, B.end] = end
        new.records[order[first + 1 : last], B.start] = new.records[order[first + 1 : last], B.end] = end
        new.records[block, B.element] = container(scan, order[first:last])
    if new is not scan:
        present &= _trimmed(new, scan, order)
    return new, order[present], keep[present]


def _remove_unseen(edits: Edits, parts: list[Element]) -> None:
    """Removes what no reader sees, or sees struck out."""
    others = np.empty(0, np.int64)
    if any(part.flags & NUMBER_FLAGS for part in parts):
        others = np.flatnonzero(~IN_NUMBERS[np.frombuffer(edits.text, np.uint8)])
    maths = [part.start for part in parts if part.name == MATH or (part.name == SCRIPT and part.flags & FLAG.tex)]
    until = 0
    for part in parts:
        if part.end <= until:
            continue
        is_deleted = part.name in (DATALIST, DEL, S, STRIKE) or part.flags & FLAG.struck
        is_hidden = part.flags & UNSEEN_FLAGS and not is_deleted and _is_in_sentence(edits, part, maths)
        is_number = part.flags & NUMBER_FLAGS and _is_number(edits, part, others)
        if is_deleted or is_hidden or is_number:
            edits.remove_words(part.start, part.end)
            until = part.end
    _remove_drawings(edits, parts)


def _is_in_sentence(edits: Edits, part: Element, maths: list[int]) -> bool:
    """Whether an element is inside a block most of which is other text, and has no formula."""
    start, end = edits.bounds(edits.trimmed(part)[0])
    is_inside = part.end <= end and (part.end - part.start) * 2 < end - start
    index = int(np.searchsorted(maths, part.start))
    return is_inside and not RULES[part.name] & RULE.block and not (index < len(maths) and maths[index] < part.end)


def _is_number(edits: Edits, part: Element, others: NDArray[np.int64]) -> bool:
    """Whether an element whose class says so has numbers at the beginning of lines, and nothing else."""
    index = np.searchsorted(others, part.start)
    if index < others.size and others[index] < part.end:
        return False
    first, _ = edits.trimmed(part)
    if edits.text[edits.bounds(first)[0] : first].rstrip(b" \t")[-1:] not in (b"", b"\n"):
        return False
    if part.flags & FLAG.line_numbers or edits.is_pre(first):
        return True
    around: Element | None = part
    for _ in range(AROUND_CODE):
        around = edits.part(around.parent) if around else None
        if around and (around.name in (CODE, PRE) or edits.scan.records[around.number, E.purposes] & CODE_CLASS):
            return True
    return False


def _remove_drawings(edits: Edits, parts: list[Element]) -> None:
    """Removes what MathJax drew where its TeX follows; else all of it but the MathML that it has for readers aloud."""
    tex = {edits.trimmed(part)[0] for part in parts if part.name == SCRIPT and part.flags & FLAG.tex}
    maths = [part for part in parts if part.name == MATH]
    starts = [math.start for math in maths]
    for part in reversed(parts):
        if not part.flags & FLAG.drawing:
            continue
        after = part.end
        while after < len(edits.text) and edits.text[after] in SPACES:
            after += 1
        if after in tex:
            tex.add(edits.trimmed(part)[0])
            start = part.start + (edits.text[part.start] in SPACES and after == part.end)
            edits.remove(start, part.end)
            continue
        index = int(np.searchsorted(starts, part.start))
        if index < len(maths) and maths[index].end <= part.end:
            edits.remove(edits.trimmed(part)[0], maths[index].start)
            edits.remove(maths[index].end, part.end)


def _set_apart(edits: Edits, part: Element) -> None:
    """Puts spaces around a formula that a browser shows on a line of its own."""
    first, last = edits.trimmed(part)
    start, end = edits.bounds(first)
    if start < first and edits.text[first - 1] not in SPACES:
        edits.insert(first, " ", part._replace(number=part.number - 1))
    if last < end and chr(edits.text[last]).isalnum():
        edits.insert(last, " ", part._replace(number=part.number - 1), closes=True)


def _join(edits: Edits, block: int) -> None:
    """Joins a block to the one before it."""
    at, flags = int(edits.scan.records[block, B.start]), edits.scan.records[block, B.flags]
    if flags & SPACED or (edits.text[at - 1 : at] + edits.text[at : at + 1]).isalnum():
        edits.insert(at, " ", None)


def _trimmed(new: Scan, old: Scan, order: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Takes the white space off the ends of blocks that changed. Returns which blocks have text: (blocks,)."""
    size, text = new.registers[R.blocks], new.text
    sizes = new.records[:size, B.end] - new.records[:size, B.start]
    for block in np.flatnonzero(sizes != old.records[:size, B.end] - old.records[:size, B.start]).tolist():
        start, end = new.records[block, B.start], new.records[block, B.end]
        piece = text[start:end].tobytes()
        if not piece.strip():
            new.records[block, B.start] = end
        elif not new.records[block, B.flags] & PRE_BLOCK:
            new.records[block, B.start] = end - len(piece.lstrip(SPACES))
            new.records[block, B.end] = start + len(piece.rstrip(SPACES))
    return np.asarray(new.records[order, B.end] > new.records[order, B.start])

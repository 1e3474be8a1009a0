"""The state of one pass over a page, and the text that it collects.

    <p>One <b>two</b>   three<br>four</p><ul><li>five      page: UTF-8
     ── characters, cut ──> "One two three\\nfour" | "five"      blocks of text, in the order of the document

A block is text that no block-level element and no blank line interrupts. White space in it is one space, a line break
is one line feed; inside ``pre`` all characters stay. Text that stands in a table but in none of its cells moves before
the table (foster parenting), so blocks are a list in which each names the next.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from headrace.data_prep.extraction.parsing.elements import NUMBER, numbers
from headrace.data_prep.extraction.parsing.entities import reference
from headrace.data_prep.extraction.parsing.hashes import space_bytes
from headrace.data_prep.extraction.parsing.keywords import CLASSES
from headrace.data_prep.kernel import int64, kernel_in_place

MAX_DEPTH = 1000
"""Open elements at a time. Searches in them take time in proportion; of 500 real pages the deepest has 442 levels."""
ROOT = NUMBER["html"]
REMOVED = -1
"""The name of an element whose end tag came while others inside it were open."""

# Columns of the stack of open elements.
NAME, HASH, ELEMENT, BLOCK_ELEMENT, FLOW, CURSOR, IS_SILENT, IS_PRE, IN_TABLE, NAMESPACE, OUTER_LINK = range(11)
STACK_COLUMNS = 11
LOUD, SILENT_ALL, ALT_ONLY, TEX_ONLY = range(4)
"""Values of IS_SILENT: all text counts, none, that of the attribute ``alttext``, or that of a TeX annotation."""
HTML, SVG, MATHML, INTEGRATION = 0, 1, 2, 3
"""Namespaces; INTEGRATION is that of a foreign element in which HTML stands."""

# Columns of records: each kind has columns of its own, and as many rows as there are of its kind.
START, END, BLOCK, LINK_CHARACTERS, NEXT, BLOCK_FLAGS = range(6)
"""Columns of blocks. Block 0 is the beginning of the list, without text."""
PARENT, ELEMENT_NAME, ELEMENT_FLAGS, TEXT_START, TEXT_END, VALUE_FIRST, VALUE_LAST, ELEMENT_CLASSES = range(6, 14)
"""Columns of elements: what they are, the text that they enclose, and an attribute of the page that forms of text need.

Element 0 is the page; the parent of an element has a smaller number."""
FACT_KIND, FACT_START, FACT_END, FACT_ELEMENT = range(14, 18)
"""Columns of facts of the page: their kind (page_fact_names.py), the bytes that state them, and where they stand."""
RECORD_COLUMNS = 18
TOKEN_ELEMENT, TOKEN_HASH = range(2)
"""Columns of words of the attributes that name what an element is for: 31 bits of their hash."""
PRE_BLOCK, JOINS, SPACED = 1, 2, 4
"""Flags of blocks: text as it is; the line goes on from the block before, over the edge of a button; after a space."""

# Registers.
(
    TEXT, BLOCK_START, HAS_TEXT, SPACE, BREAKS, DEPTH, ELEMENTS, BLOCKS, TOKENS, FACTS, IN_LINK, OPEN_BLOCK, OPEN_FLOW,
    LINKED, OPEN_PRE, OPEN_P, FORM, FAULT, IS_XML, PLAIN_END, AFTER_PLAIN, HAS_REFERENCES,
    IS_ALT, WITH_ALT, MATH_END, NEXT_TEX, JOIN, INDENT, LAST_MATH,
) = range(29)  # fmt: skip
REGISTERS = 29
TOO_NESTED = 1


class Scan(NamedTuple):
    """The page, what was found, and where the pass is. Offsets are in bytes."""

    page: NDArray[np.uint8]
    text: NDArray[np.uint8]
    """The text of all blocks, one after another."""
    records: NDArray[np.int32]
    tokens: NDArray[np.int32]
    stack: NDArray[np.int64]
    registers: NDArray[np.int64]


def new_scan(page: bytes, is_xml: bool, with_alt: bool) -> Scan:
    """Returns the state before the first byte of ``page``."""
    size, data = len(page), np.frombuffer(page, np.uint8)
    marks = np.count_nonzero(data == 0x3C)
    scan = Scan(
        data,
        np.empty(size + size // 4 + 64, np.uint8),
        np.empty((2 * marks + 8, RECORD_COLUMNS), np.int32, order="F"),  # a tag opens two elements at most
        np.empty((size // 2 + 8, 2), np.int32),  # a word has two letters at least
        np.empty((MAX_DEPTH, STACK_COLUMNS), np.int64),
        np.zeros(REGISTERS, np.int64),
    )
    scan.records[0] = 0
    scan.records[0, [NEXT, PARENT, ELEMENT_NAME]] = -1, -1, ROOT
    scan.stack[0] = 0
    scan.stack[0, NAME] = ROOT
    scan.registers[[DEPTH, ELEMENTS, BLOCKS, IS_XML, WITH_ALT]] = 1, 1, 1, is_xml, with_alt
    return scan


@kernel_in_place
def cut(scan: Scan) -> None:
    """Ends the open block, if it has text, and puts it into the list."""
    registers, records = scan.registers, scan.records
    if registers[HAS_TEXT]:
        number, flow = registers[BLOCKS], registers[OPEN_FLOW]
        before = scan.stack[flow, CURSOR]
        records[number, START] = registers[BLOCK_START]
        records[number, END] = registers[TEXT]
        records[number, BLOCK] = registers[OPEN_BLOCK]
        records[number, LINK_CHARACTERS] = registers[LINKED]
        records[number, NEXT] = records[before, NEXT]
        records[number, BLOCK_FLAGS] = registers[OPEN_PRE]
        records[before, NEXT] = number
        while True:  # what follows the table follows what was moved before it
            scan.stack[flow, CURSOR] = number
            outer = scan.stack[flow, FLOW]
            if outer == flow or scan.stack[outer, CURSOR] != before:
                break
            flow = outer
        registers[BLOCKS] = number + 1
        registers[BLOCK_START] = registers[TEXT]
    registers[TEXT] = registers[BLOCK_START]
    registers[HAS_TEXT] = registers[SPACE] = registers[BREAKS] = registers[LINKED] = 0
    registers[JOIN] = registers[INDENT] = 0


@kernel_in_place
def cut_at_button(scan: Scan, is_end: bool) -> None:
    """Ends the open block at the edge of a button, after which its line may go on."""
    registers = scan.registers
    joins = JOINS | SPACED * (registers[SPACE] and not is_end)
    joins *= registers[HAS_TEXT] and not registers[BREAKS]
    cut(scan)
    registers[JOIN] = joins


@kernel_in_place
def line_break(scan: Scan) -> None:
    """Notes a ``br``; in ``pre`` it is a line feed."""
    registers = scan.registers
    if scan.stack[registers[DEPTH] - 1, IS_PRE]:
        scan.text[registers[TEXT]] = 0x0A
        registers[TEXT] += 1
    else:
        registers[BREAKS] += 1
        registers[JOIN] = registers[INDENT] = 0


@kernel_in_place
def flow_of(scan: Scan) -> int:
    """Returns the level of the stack whose cursor says where text at the current position stands."""
    top = scan.registers[DEPTH] - 1
    if not scan.stack[top, IN_TABLE] or scan.stack[top, NAMESPACE] != HTML:
        return int(scan.stack[top, FLOW])
    while scan.stack[top, NAME] != TABLE and top > 0:
        top -= 1
    return int(top)


TABLE = NUMBER["table"]


@kernel_in_place
def begin(scan: Scan) -> None:
    """Makes the open block one that may take text of the current position, and writes the space before this text."""
    registers = scan.registers
    flow = flow_of(scan)
    if registers[HAS_TEXT] and (flow != registers[OPEN_FLOW] or registers[BREAKS] > 1):
        cut(scan)
    if not registers[HAS_TEXT]:
        top = registers[DEPTH] - 1
        registers[OPEN_FLOW], registers[OPEN_BLOCK] = flow, scan.stack[top, BLOCK_ELEMENT]
        registers[HAS_TEXT], registers[OPEN_PRE] = 1, int64(scan.stack[top, IS_PRE])
        if registers[JOIN]:
            registers[OPEN_PRE] |= registers[JOIN] | SPACED * registers[SPACE]
    elif registers[BREAKS] or registers[SPACE]:
        scan.text[registers[TEXT]] = 0x0A if registers[BREAKS] else 0x20
        registers[TEXT] += 1
        if registers[INDENT] > 1 and _is_code(scan):
            scan.text[registers[TEXT] : registers[TEXT] + registers[INDENT]] = 0x20
            registers[TEXT] += registers[INDENT]
    registers[SPACE] = registers[BREAKS] = registers[JOIN] = registers[INDENT] = 0


CODE_NAMES = numbers("code kbd samp tt")
CODE_CLASS = 1 << list(CLASSES).index("code")


@kernel_in_place
def _is_code(scan: Scan) -> bool:
    """Whether the current position is in an element of code, or in one whose class names code."""
    for level in range(scan.registers[DEPTH] - 1, 0, -1):
        element = scan.stack[level, ELEMENT]
        if scan.stack[level, NAME] in CODE_NAMES or scan.records[element, ELEMENT_CLASSES] & CODE_CLASS:
            return True
    return False


@kernel_in_place
def characters(scan: Scan, at: int, end: int) -> int:
    """Adds the text from ``at`` to the next ``<`` after its first byte, at most to ``end``. Returns where it stops."""
    registers = scan.registers
    top = registers[DEPTH] - 1
    silence = scan.stack[top, IS_SILENT]
    if silence and not (silence == ALT_ONLY and at < registers[PLAIN_END]):
        page = scan.page
        at += 1
        while at < end and page[at] != 0x3C:
            at += 1
        return at
    before = registers[TEXT]
    at = _preformatted(scan, at, end) if scan.stack[top, IS_PRE] else _flowing(scan, at, end)
    if registers[IN_LINK] and registers[HAS_TEXT]:
        text = scan.text
        for index in range(max(before, registers[BLOCK_START]), registers[TEXT]):
            registers[LINKED] += (text[index] & 0xC0) != 0x80 and text[index] > 0x20
    return at


@kernel_in_place
def _flowing(scan: Scan, at: int, end: int) -> int:
    """Adds text whose white space is one space. Soft hyphens are left out."""
    page, text, registers = scan.page, scan.text, scan.registers
    first, has_begun = at, False
    out, space = registers[TEXT], registers[SPACE]
    while at < end:
        byte = page[at]
        if has_begun and 0x20 < byte < 0x80 and byte != 0x26 and byte != 0x3C:  # most of all characters
            if space:
                text[out], out, space = 0x20, out + 1, 0
            text[out], out, at = byte, out + 1, at + 1
            continue
        if byte <= 0x20 and space_bytes(page, at):
            space, at = 1, at + 1
            continue
        if byte == 0x3C and at > first:
            break
        size, read = 1, out + 2 + registers[INDENT]  # what ``begin`` may write stands before it
        if byte == 0x26 or byte >= 0x80:
            at, size = _character(scan, at, end, read)
            if space_bytes(text, read):
                space = 1
                registers[INDENT] += registers[BREAKS] and not has_begun and text[read] == 0xC2
                continue
            if size == 2 and text[read] == 0xC2 and text[read + 1] == 0xAD:  # soft hyphen
                continue
        else:
            text[read], at = byte, at + 1
        if not has_begun:
            registers[TEXT], registers[SPACE], has_begun = out, space, True
            begin(scan)
            out = registers[TEXT]
        elif space:
            text[out], out = 0x20, out + 1
        space = 0
        for index in range(size):
            text[out + index] = text[read + index]
        out += size
    registers[TEXT] = out
    registers[SPACE] = space and registers[HAS_TEXT]
    if space and registers[JOIN]:
        registers[JOIN] |= SPACED
    return at


@kernel_in_place
def _preformatted(scan: Scan, at: int, end: int) -> int:
    """Adds text as it is; a line ends with one line feed."""
    page, text, registers = scan.page, scan.text, scan.registers
    first, has_begun = at, False
    while at < end:
        byte = page[at]
        if byte == 0x3C and at > first:
            break
        read = registers[TEXT] + 1  # ``begin`` may write one byte before it
        if byte == 0x0D:
            at += 1 + (at + 1 < end and page[at + 1] == 0x0A)
            text[read], size = 0x0A, 1
        else:
            at, size = _character(scan, at, end, read)
        if not space_bytes(text, read) and (not registers[HAS_TEXT] or not has_begun):
            begin(scan)
            has_begun = True
        for index in range(size):
            text[registers[TEXT] + index] = text[read + index]
        registers[TEXT] += size
    return at


@kernel_in_place
def _character(scan: Scan, at: int, end: int, out: int) -> tuple[int, int]:
    """Writes the character or the reference at ``at`` to the text at ``out``.

    Returns the offset after it, and the number of bytes written.
    """
    page, text, registers = scan.page, scan.text, scan.registers
    byte = page[at]
    if byte == 0x26 and (registers[HAS_REFERENCES] or at >= registers[PLAIN_END]):  # &
        after, size = reference(page, at, text, out)
        if size and after <= end:
            return after, size
    size = 1 if byte < 0xC0 else 2 if byte < 0xE0 else 3 if byte < 0xF0 else 4
    size = min(size, end - at)
    for index in range(size):
        text[out + index] = page[at + index]
    return at + size, size

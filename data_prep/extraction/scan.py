"""The state of one pass over a page, and the text that it collects.

    <p>One <b>two</b>   three<br>four</p><ul><li>five      page: UTF-8
     ── characters, cut ──> "One two three\\nfour" | "five"      blocks of text, in the order of the document

A block is text that no block-level element and no blank line interrupts. White space in it is one space, a line break
is one line feed; inside ``pre`` all characters stay. Text that stands in a table but in none of its cells moves before
the table (foster parenting), so blocks are a list in which each names the next.
"""

from collections import namedtuple
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from headrace.data_prep.extraction.markup import NUMBER, PURPOSES, next_byte, numbers, reference, space_bytes
from headrace.data_prep.kernel import int64, kernel, kernel_in_place

MAX_DEPTH = 1000
"""Open elements at a time. Searches in them take time in proportion; of 500 real pages the deepest has 442 levels."""
ROOT = NUMBER["html"]
REMOVED = -1
"""The name of an element whose end tag came while others inside it were open."""

# Numbers of columns and registers by their names: scan.stack[level, S.name], scan.records[block, B.start], tag[T.keep].
StackColumns = namedtuple(
    "StackColumns", "name hash element block_element flow cursor is_silent is_pre in_table namespace outer_link"
)
S = StackColumns(*range(11))
"""Columns of the stack of open elements."""
LOUD, SILENT_ALL, ALT_ONLY, TEX_ONLY = range(4)
"""Values of ``is_silent``: all text counts, none, that of the attribute ``alttext``, or that of a TeX annotation."""
HTML, SVG, MATHML, INTEGRATION = 0, 1, 2, 3
"""Namespaces; INTEGRATION is that of a foreign element in which HTML stands."""

# Columns of records: each kind has columns of its own, and as many rows as there are of its kind.
BlockColumns = namedtuple("BlockColumns", "start end element link_characters next flags")
B = BlockColumns(*range(6))
"""Columns of blocks: their text, the element around it, … Block 0 is the beginning of the list, without text."""
PRE_BLOCK, JOINS, SPACED = 1, 2, 4
"""Flags of blocks: text as it is; the line goes on from the block before, over the edge of a button; after a space."""
ElementColumns = namedtuple("ElementColumns", "parent name flags text_start text_end value_start value_end purposes")
E = ElementColumns(*range(6, 14))
"""Columns of elements: what they are, the text that they enclose, and an attribute of the page that forms of text need.

Element 0 is the page; the parent of an element has a smaller number."""
FactColumns = namedtuple("FactColumns", "kind start end element")
F = FactColumns(*range(14, 18))
"""Columns of facts of the page: their kind (page_facts.py), the bytes that state them, and where they stand."""
RECORD_COLUMNS = 18
TOKEN_ELEMENT, TOKEN_HASH = range(2)
"""Columns of words of the attributes that name what an element is for: 31 bits of their hash."""
Registers = namedtuple(
    "Registers",
    "text block_start has_text space breaks depth elements blocks tokens facts in_link open_block open_flow linked"
    " open_pre open_p form fault is_xml plain_end after_plain has_references is_alt with_alt math_end next_tex join"
    " indent last_math",
)
R = Registers(*range(29))
"""Registers of a pass: the numbers of what was found, and the state of the open block and of the text."""
TOO_NESTED = 1
TagRegisters = namedtuple(
    "TagRegisters",
    "name hash end is_end is_self_closed flags value_start value_end fact fact_start fact_end first_token kept_start"
    " kept_end purposes keep cuts breaks_line opens namespace opens_row columns rows",
)
T = TagRegisters(*range(23))
"""Registers of a tag. Offsets are in bytes of the page.

Up to ``value_end`` what it is, and its last value. ``fact`` is what it states of the page (page_facts.py), with the
bytes that say so; ``kept`` is the attribute that forms of text need (VALUE_OF in tags.py), ``first_token`` the first
of the words of its attributes, ``purposes`` what they name (PURPOSES), as bits. From ``keep`` on what it does: the
depth that stays open, whether a block and a line end, whether it opens an element, in which namespace, and first a row
of a table. ``columns`` and ``rows`` are those that a cell says to span, plus one; 0 if it says nothing."""
Flags = namedtuple(
    "Flags",
    "hidden aria_hidden not_displayed has_href shadow_root html_annotation tex font_style alt_text display drawn_tex"
    " drawing tex_image line_numbers gutter as_block struck math_class",
)
FLAG = Flags(*(1 << bit for bit in range(18)))
"""Flags of tags and elements, as bits. ``drawing`` is a formula that MathJax drew, ``tex_image`` an image whose ``alt``
is TeX; ``gutter`` may have numbers of lines, ``math_class`` a formula that a script draws."""
CLASS_WORDS = {
    FLAG.drawn_tex: "katex-html",
    FLAG.drawing: "MathJax MathJax_Display MathJax_SVG MathJax_SVG_Display MathJax_CHTML MathJax_PHTML"
    " MathJax_PlainSource MathJax_Preview MathJax_MathML mjx-chtml",
    FLAG.tex_image: "mwe-math-fallback-image-inline mwe-math-fallback-image-display tex latex",
    FLAG.math_class: "math",
    FLAG.line_numbers: "lineno linenos linenodiv linenumber linenumbers line-numbers-rows rouge-gutter lntd lnt"
    " blob-num js-line-number hljs-ln-numbers hljs-ln-n diff-line-num file-line-num crayon-num crayon-nums"
    " crayon-nums-content linenr lineNo source-line-no src-line-numbers code-line-number"
    " react-syntax-highlighter-line-number CodeMirror-linenumber ace_gutter-cell jxr_linenumber",
    FLAG.gutter: "gutter gl ln lno line-number line-numbers line_numbers line-num line-no line_no line-nums linenum"
    " linenums cm-gutterElement",
}
"""The words of classes that set a flag. Their case counts."""


class Scan(NamedTuple):
    """The page, what was found, and where the pass is. Offsets are in bytes."""

    page: NDArray[np.uint8]
    text: NDArray[np.uint8]
    """The text of all blocks, one after another."""
    records: NDArray[np.int32]
    tokens: NDArray[np.int32]
    stack: NDArray[np.int64]
    registers: NDArray[np.int64]


class Element(NamedTuple):
    """An element as Python sees it: its number, and its columns from ``E.parent`` to ``E.value_end``."""

    number: int
    parent: int
    name: int
    flags: int
    start: int
    end: int
    value_start: int
    value_end: int


def elements(scan: Scan, numbers: NDArray[np.int64]) -> list[Element]:
    """Returns the elements ``numbers``."""
    rows = scan.records[numbers, E.parent : E.value_end + 1].tolist()
    return [Element(number, *row) for number, row in zip(numbers.tolist(), rows, strict=True)]


def new_scan(page: bytes, is_xml: bool, with_alt: bool) -> Scan:
    """Returns the state before the first byte of ``page``."""
    size, data = len(page), np.frombuffer(page, np.uint8)
    marks = _marks(data)
    scan = Scan(
        data,
        np.empty(size + size // 4 + 64, np.uint8),
        np.empty((2 * marks + 8, RECORD_COLUMNS), np.int32, order="F"),  # a tag opens two elements at most
        np.empty((size // 2 + 8, 2), np.int32),  # a word has two letters at least
        np.empty((MAX_DEPTH, len(S)), np.int64),
        np.zeros(len(R), np.int64),
    )
    scan.records[0], scan.stack[0] = 0, 0
    scan.records[0, B.next] = scan.records[0, E.parent] = -1
    scan.records[0, E.name] = ROOT
    scan.stack[0, S.name] = ROOT
    scan.registers[R.depth] = scan.registers[R.elements] = scan.registers[R.blocks] = 1
    scan.registers[R.is_xml], scan.registers[R.with_alt] = is_xml, with_alt
    return scan


@kernel
def _marks(page: NDArray[np.uint8]) -> int:
    """Returns the number of ``<``. Numbers of a byte let the compiler use vectors."""
    number, at = 0, 0
    while at + 128 <= page.size:
        part = np.uint8(0)
        for index in range(128):
            part = np.uint8(part + (page[at + index] == 0x3C))
        number, at = number + int64(part), at + 128
    for index in range(at, page.size):
        number += page[index] == 0x3C
    return number


@kernel_in_place
def cut(scan: Scan) -> None:
    """Ends the open block, if it has text, and puts it into the list."""
    registers, records = scan.registers, scan.records
    if registers[R.has_text]:
        number, flow = registers[R.blocks], registers[R.open_flow]
        before = scan.stack[flow, S.cursor]
        records[number, B.start] = registers[R.block_start]
        records[number, B.end] = registers[R.text]
        records[number, B.element] = registers[R.open_block]
        records[number, B.link_characters] = registers[R.linked]
        records[number, B.next] = records[before, B.next]
        records[number, B.flags] = registers[R.open_pre]
        records[before, B.next] = number
        while True:  # what follows the table follows what was moved before it
            scan.stack[flow, S.cursor] = number
            outer = scan.stack[flow, S.flow]
            if outer == flow or scan.stack[outer, S.cursor] != before:
                break
            flow = outer
        registers[R.blocks] = number + 1
        registers[R.block_start] = registers[R.text]
    else:  # white space of ``pre`` is dropped, and with it what opened in it
        element = registers[R.elements] - 1
        while records[element, E.text_start] > registers[R.block_start]:
            records[element, E.text_start] = records[element, E.text_end] = registers[R.block_start]
            element -= 1
    registers[R.text] = registers[R.block_start]
    registers[R.has_text] = registers[R.space] = registers[R.breaks] = registers[R.linked] = 0
    registers[R.join] = registers[R.indent] = 0


@kernel_in_place
def cut_at_button(scan: Scan, is_end: bool) -> None:
    """Ends the open block at the edge of a button, after which its line may go on."""
    registers = scan.registers
    joins = JOINS | SPACED * (registers[R.space] and not is_end)
    joins *= registers[R.has_text] and not registers[R.breaks]
    cut(scan)
    registers[R.join] = joins


@kernel_in_place
def line_break(scan: Scan) -> None:
    """Notes a ``br``; in ``pre`` it is a line feed."""
    registers = scan.registers
    if scan.stack[registers[R.depth] - 1, S.is_pre]:
        scan.text[registers[R.text]] = 0x0A
        registers[R.text] += 1
    else:
        registers[R.breaks] += 1
        registers[R.join] = registers[R.indent] = 0


@kernel_in_place
def flow_of(scan: Scan) -> int:
    """Returns the level of the stack whose cursor says where text at the current position stands."""
    top = scan.registers[R.depth] - 1
    if not scan.stack[top, S.in_table] or scan.stack[top, S.namespace] != HTML:
        return int(scan.stack[top, S.flow])
    while scan.stack[top, S.name] != TABLE and top > 0:
        top -= 1
    return int(top)


TABLE = NUMBER["table"]


@kernel_in_place
def begin(scan: Scan) -> None:
    """Makes the open block one that may take text of the current position, and writes the space before this text."""
    registers = scan.registers
    flow = flow_of(scan)
    if registers[R.has_text] and (flow != registers[R.open_flow] or registers[R.breaks] > 1):
        cut(scan)
    if not registers[R.has_text]:
        top = registers[R.depth] - 1
        registers[R.open_flow], registers[R.open_block] = flow, scan.stack[top, S.block_element]
        registers[R.has_text], registers[R.open_pre] = 1, int64(scan.stack[top, S.is_pre])
        if registers[R.join]:
            registers[R.open_pre] |= registers[R.join] | SPACED * registers[R.space]
    elif registers[R.breaks] or registers[R.space]:
        scan.text[registers[R.text]] = 0x0A if registers[R.breaks] else 0x20
        registers[R.text] += 1
        if registers[R.indent] > 1 and _is_code(scan):
            scan.text[registers[R.text] : registers[R.text] + registers[R.indent]] = 0x20
            registers[R.text] += registers[R.indent]
    registers[R.space] = registers[R.breaks] = registers[R.join] = registers[R.indent] = 0


CODE_NAMES = numbers("code kbd samp tt")
CODE_CLASS = 1 << list(PURPOSES).index("code")


@kernel_in_place
def _is_code(scan: Scan) -> bool:
    """Whether the current position is in an element of code, or in one whose class names code."""
    for level in range(scan.registers[R.depth] - 1, 0, -1):
        element = scan.stack[level, S.element]
        if scan.stack[level, S.name] in CODE_NAMES or scan.records[element, E.purposes] & CODE_CLASS:
            return True
    return False


@kernel_in_place
def characters(scan: Scan, at: int, end: int) -> int:
    """Adds the text from ``at`` to the next ``<`` after its first byte, at most to ``end``. Returns where it stops."""
    registers = scan.registers
    top = registers[R.depth] - 1
    silence = scan.stack[top, S.is_silent]
    if silence and not (silence == ALT_ONLY and at < registers[R.plain_end]):
        return next_byte(scan.page, at + 1, end, 0x3C)
    before = registers[R.text]
    at = _preformatted(scan, at, end) if scan.stack[top, S.is_pre] else _flowing(scan, at, end)
    if registers[R.in_link] and registers[R.has_text]:
        text = scan.text
        for index in range(max(before, registers[R.block_start]), registers[R.text]):
            registers[R.linked] += (text[index] & 0xC0) != 0x80 and text[index] > 0x20
    return at


@kernel_in_place
def _flowing(scan: Scan, at: int, end: int) -> int:
    """Adds text whose white space is one space. Soft hyphens are left out."""
    page, text, registers = scan.page, scan.text, scan.registers
    first, has_begun = at, False
    out, space = registers[R.text], registers[R.space]
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
        size, read = 1, out + 2 + registers[R.indent]  # what ``begin`` may write stands before it
        if byte == 0x26 or byte >= 0x80:
            at, size = _character(scan, at, end, read)
            if space_bytes(text, read):
                space = 1
                registers[R.indent] += registers[R.breaks] and not has_begun and text[read] == 0xC2
                continue
            if size == 2 and text[read] == 0xC2 and text[read + 1] == 0xAD:  # soft hyphen
                continue
        else:
            text[read], at = byte, at + 1
        if not has_begun:
            registers[R.text], registers[R.space], has_begun = out, space, True
            begin(scan)
            out = registers[R.text]
        elif space:
            text[out], out = 0x20, out + 1
        space = 0
        for index in range(size):
            text[out + index] = text[read + index]
        out += size
    registers[R.text] = out
    registers[R.space] = space and registers[R.has_text]
    if space and registers[R.join]:
        registers[R.join] |= SPACED
    return at


@kernel_in_place
def _preformatted(scan: Scan, at: int, end: int) -> int:
    """Adds text as it is; a line ends with one line feed."""
    page, text, registers = scan.page, scan.text, scan.registers
    first, has_begun, was_return = at, False, False
    while at < end:
        if page[at] == 0x3C and at > first:
            break
        read = registers[R.text] + 1  # ``begin`` may write one byte before it
        at, size = _character(scan, at, end, read)
        is_second = was_return and text[read] == 0x0A
        was_return = text[read] == 0x0D
        if is_second:
            continue
        if was_return:
            text[read] = 0x0A
        if not space_bytes(text, read) and (not registers[R.has_text] or not has_begun):
            begin(scan)
            has_begun = True
        for index in range(size):
            text[registers[R.text] + index] = text[read + index]
        registers[R.text] += size
    return at


@kernel_in_place
def _character(scan: Scan, at: int, end: int, out: int) -> tuple[int, int]:
    """Writes the character or the reference at ``at`` to the text at ``out``.

    Returns the offset after it, and the number of bytes written.
    """
    page, text, registers = scan.page, scan.text, scan.registers
    byte = page[at]
    if byte == 0x26 and (registers[R.has_references] or at >= registers[R.plain_end]):  # &
        after, size = reference(page, at, text, out)
        is_value = at < registers[R.plain_end] < registers[R.after_plain]  # of an attribute
        if is_value and after < end and page[at + 1] != 0x23 and page[after - 1] != 0x3B:
            size *= not (page[after] == 0x3D or 0x30 <= page[after] <= 0x39 or 0x61 <= page[after] | 0x20 <= 0x7A)
        if size and after <= end:
            return after, size
    size = 1 if byte < 0xC0 else 2 if byte < 0xE0 else 3 if byte < 0xF0 else 4
    size = min(size, end - at)
    for index in range(size):
        text[out + index] = page[at + index]
    return at + size, size

"""Blocks of a page: the tree construction of the HTML standard, as far as it decides which text stands where.

    page ── blocks_of ──> Scan: text, blocks, elements, tokens

Source: WHATWG HTML, section 13.2.6 (tree construction); kinds of elements are in elements.py.
"""

import numpy as np
from numpy.typing import NDArray

from headrace.data_prep.extraction.parsing.elements import CHARACTERS, RAW, RULES, numbers
from headrace.data_prep.extraction.parsing.end_tags import end
from headrace.data_prep.extraction.parsing.fact_tags import JSON_LD_KIND, note_fact
from headrace.data_prep.extraction.parsing.hashes import begins_with, is_letter
from headrace.data_prep.extraction.parsing.markup import (
    begins_markup,
    bracket_end,
    comment_end,
    raw_end,
    read_tag,
    section_end,
)
from headrace.data_prep.extraction.parsing.open_elements import is_foreign, pop_to, push
from headrace.data_prep.extraction.parsing.page_fact_names import KIND
from headrace.data_prep.extraction.parsing.scan import (
    AFTER_PLAIN,
    DEPTH,
    ELEMENT_CLASSES,
    ELEMENTS,
    FAULT,
    HAS_REFERENCES,
    HAS_TEXT,
    HTML,
    IS_ALT,
    IS_SILENT,
    IS_XML,
    LAST_MATH,
    MATH_END,
    MATHML,
    NAME,
    NEXT_TEX,
    PLAIN_END,
    SPACE,
    TEXT,
    TEXT_END,
    TEXT_START,
    TOKEN_ELEMENT,
    TOKENS,
    VALUE_FIRST,
    VALUE_LAST,
    WITH_ALT,
    Scan,
    characters,
    cut,
    line_break,
)
from headrace.data_prep.extraction.parsing.start_tags import start
from headrace.data_prep.extraction.parsing.tag import (
    ALT_TEXT,
    ATTRIBUTES,
    BREAKS_LINE,
    CLASSES,
    CUTS,
    FIRST_TOKEN,
    IS_END_TAG,
    IS_SELF_CLOSED,
    KEEP,
    KEY,
    OPENS,
    OPENS_IN,
    OPENS_ROW,
    OWN_END,
    OWN_START,
    SPAN_COLUMNS,
    SPAN_ROWS,
    TAG_END,
    TAG_HASH,
    TAG_NAME,
    TAG_REGISTERS,
    TEX,
    TEX_IMAGE,
)
from headrace.data_prep.kernel import int64, kernel, kernel_in_place

BODY, HTML_NAME, IMG, LISTING, MATH, MSPACE, PLAINTEXT, PRE, SCRIPT, TD, TH, TITLE, TR, XMP = numbers(
    "body html img listing math mspace plaintext pre script td th title tr xmp"
)
TITLE_KIND = KIND["title"]


@kernel
def blocks_of(scan: Scan) -> None:
    """Reads the page of ``scan`` from its beginning to its end, or to a fault (``registers[FAULT]``)."""
    page, registers = scan.page, scan.registers
    tag = np.zeros(TAG_REGISTERS, np.int64)
    at = int64(0)
    while at < page.size and not registers[FAULT]:
        is_plain = at < registers[PLAIN_END]
        if is_plain or page[at] != 0x3C or not begins_markup(page, at):
            at = characters(scan, at, registers[PLAIN_END] if is_plain else page.size)
            if is_plain and at >= registers[PLAIN_END]:
                at = registers[AFTER_PLAIN]
                registers[SPACE] |= registers[IS_ALT] & registers[HAS_TEXT]
                if scan.stack[registers[DEPTH] - 1, NAME] == IMG:
                    pop_to(scan, registers[DEPTH] - 1)
        elif page[at + 1] == 0x21 or page[at + 1] == 0x3F or not _is_tag(page, at):
            at = _declaration(scan, at)
        elif not read_tag(scan, at, tag):
            break
        else:
            at = _tag(scan, tag)
    pop_to(scan, 1)
    cut(scan)


@kernel_in_place
def _is_tag(page: NDArray[np.uint8], at: int) -> bool:
    """Whether a name follows ``<`` or ``</``."""
    return is_letter(page[at + 1]) or (page[at + 1] == 0x2F and is_letter(page[at + 2]))


@kernel_in_place
def _declaration(scan: Scan, at: int) -> int:
    """Passes over a comment, a declaration, or an end tag without a name; the text of a CDATA section is kept."""
    page, registers = scan.page, scan.registers
    if begins_with(page, at, b"<!--"):
        return comment_end(page, at)
    if begins_with(page, at, b"<![cdata[") and (is_foreign(scan, registers[DEPTH]) or registers[IS_XML]):
        end = section_end(page, at + 9)
        after = min(end + 3, page.size)
        _begin_plain(scan, end, after, False)
        return at + 9 if end > at + 9 else after
    return bracket_end(page, at + 2)


@kernel_in_place
def _begin_plain(scan: Scan, end: int, after: int, has_references: bool) -> None:
    """Makes what follows text without markup, up to ``end``; the page goes on at ``after``."""
    registers = scan.registers
    registers[PLAIN_END], registers[AFTER_PLAIN] = end, after
    registers[HAS_REFERENCES] = has_references
    registers[IS_ALT] = 0


@kernel_in_place
def _tag(scan: Scan, tag: NDArray[np.int64]) -> int:
    """Does what the ``tag`` says. Returns the offset where the page goes on."""
    registers = scan.registers
    tag[KEEP] = registers[DEPTH]
    for register in range(CUTS, OPENS_ROW + 1):
        tag[register] = 0
    if tag[IS_END_TAG]:
        end(scan, tag)
    else:
        start(scan, tag)
    pop_to(scan, tag[KEEP])
    if tag[CUTS]:
        cut(scan)
    if tag[BREAKS_LINE]:
        line_break(scan)
    return _open(scan, tag) if tag[OPENS] else _without_content(scan, tag)


@kernel_in_place
def _without_content(scan: Scan, tag: NDArray[np.int64]) -> int:
    """Ends a tag that opens nothing; its words are those of no element. Returns where the page goes on."""
    registers, name = scan.registers, tag[TAG_NAME]
    if name in (HTML_NAME, BODY):
        _give_words(scan, tag, 0)
    else:
        registers[TOKENS] = tag[FIRST_TOKEN]
    is_tex = tag[ATTRIBUTES] & TEX_IMAGE
    if name == IMG and (registers[WITH_ALT] or is_tex) and tag[OWN_END] > tag[OWN_START]:
        if is_tex and _follows_math(scan):
            return int(tag[TAG_END])
        if is_tex:
            push(scan, IMG, 0, HTML, tag[ATTRIBUTES])
        else:
            registers[SPACE] |= registers[HAS_TEXT]
        _begin_plain(scan, tag[OWN_END], tag[TAG_END], True)
        registers[IS_ALT] = not is_tex
        return int(tag[OWN_START])
    return int(tag[TAG_END])


@kernel_in_place
def _follows_math(scan: Scan) -> bool:
    """Whether the text so far ends with a formula: an image after it shows the same one."""
    math, text = scan.registers[LAST_MATH], scan.registers[TEXT]
    return bool(math > 0 and scan.records[math, TEXT_START] < text and scan.records[math, TEXT_END] == text)


@kernel_in_place
def _open(scan: Scan, tag: NDArray[np.int64]) -> int:
    """Opens the element of a tag. Returns where its content begins: at its end tag if no reader sees it."""
    registers, name, at = scan.registers, tag[TAG_NAME], tag[TAG_END]
    if tag[OPENS_ROW]:
        push(scan, TR, 0, HTML, 0)
        _give_words(scan, tag, registers[ELEMENTS])
    is_math = tag[OPENS_IN] == MATHML and name == MATH
    if is_math and not tag[ATTRIBUTES] & ALT_TEXT and _has_tex(scan, at):
        tag[ATTRIBUTES] |= TEX
    element = registers[ELEMENTS]
    push(scan, name, tag[TAG_HASH], tag[OPENS_IN], tag[ATTRIBUTES])
    if registers[ELEMENTS] > element:
        scan.records[element, ELEMENT_CLASSES] = tag[CLASSES]
        if tag[OWN_END]:
            scan.records[element, VALUE_FIRST], scan.records[element, VALUE_LAST] = tag[OWN_START], tag[OWN_END]
        elif name in (TD, TH):
            scan.records[element, VALUE_FIRST], scan.records[element, VALUE_LAST] = tag[SPAN_COLUMNS], tag[SPAN_ROWS]
        elif tag[OPENS_IN] == MATHML:
            scan.records[element, VALUE_FIRST] = scan.records[element, VALUE_LAST] = at
    if is_math:
        registers[LAST_MATH] = element
    if is_math and tag[ATTRIBUTES] & ALT_TEXT:
        _begin_plain(scan, tag[OWN_END], at, True)
        return int(tag[OWN_START])
    if tag[IS_SELF_CLOSED] and tag[OPENS_IN] == MATHML:
        registers[SPACE] |= name == MSPACE and registers[HAS_TEXT] and not scan.stack[registers[DEPTH] - 1, IS_SILENT]
        pop_to(scan, registers[DEPTH] - 1)
    return _content(scan, tag) if tag[OPENS_IN] == HTML else at


@kernel_in_place
def _give_words(scan: Scan, tag: NDArray[np.int64], element: int) -> None:
    """Makes the words of a tag those of ``element``."""
    for word in range(tag[FIRST_TOKEN], scan.registers[TOKENS]):
        scan.tokens[word, TOKEN_ELEMENT] = element


@kernel_in_place
def _has_tex(scan: Scan, at: int) -> bool:
    """Whether the MathML that begins at ``at`` has an annotation in TeX. What is found is kept for the next one."""
    page, registers = scan.page, scan.registers
    if registers[MATH_END] < at:
        end = at
        while end < page.size and not (page[end] == 0x3C and begins_with(page, end, b"</math")):
            end += 1
        registers[MATH_END] = end
    if registers[NEXT_TEX] < at:
        tex = at
        while tex < page.size and not (page[tex] | 0x20 == 0x61 and begins_with(page, tex, b"application/x-tex")):
            tex += 1
        registers[NEXT_TEX] = tex
    return bool(registers[NEXT_TEX] < registers[MATH_END])


@kernel_in_place
def _content(scan: Scan, tag: NDArray[np.int64]) -> int:
    """Begins the content of an HTML element. Returns its offset: that of the end tag if no reader sees the content."""
    page, name, at = scan.page, tag[TAG_NAME], tag[TAG_END]
    if RULES[name] & (RAW | CHARACTERS) and not scan.registers[IS_XML]:
        end = page.size if name == PLAINTEXT else raw_end(page, at, tag[TAG_HASH], name == SCRIPT)
        if name == TITLE or tag[KEY] == JSON_LD_KIND:
            note_fact(scan, TITLE_KIND if name == TITLE else JSON_LD_KIND, at, end)
        is_tex = name == SCRIPT and tag[ATTRIBUTES] & TEX
        if name == TITLE or (RULES[name] & RAW and not is_tex):
            return end
        _begin_plain(scan, end, end, name not in (XMP, PLAINTEXT, SCRIPT))
    elif name in (PRE, LISTING) and at < page.size:
        at += page[at] == 0x0D and at + 1 < page.size and page[at + 1] == 0x0A
        at += page[at] == 0x0A
    return int(at)

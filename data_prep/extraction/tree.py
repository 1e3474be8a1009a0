"""Blocks of a page: the tree construction of the HTML standard, as far as it decides which text stands where.

    page ── blocks_of ──> Scan: text, blocks, elements, tokens

Source: WHATWG HTML, section 13.2.6 (tree construction); kinds of elements are in markup.py, end tags in
open_elements.py.
"""

import numpy as np
from numpy.typing import NDArray

from headrace.data_prep.extraction.markup import MATH_TEXT, RULE, RULES, begins_with, is_letter, numbers
from headrace.data_prep.extraction.open_elements import (
    depth_for_part,
    end,
    is_foreign,
    is_part_of_table,
    level_in_scope,
    name_at,
    pop_to,
    push,
    without,
    without_formatting,
    without_implied,
    without_p,
)
from headrace.data_prep.extraction.page_facts import JSON_LD_KIND, TITLE_KIND, note_fact
from headrace.data_prep.extraction.scan import (
    FLAG,
    HTML,
    INTEGRATION,
    MATHML,
    SVG,
    TOKEN_ELEMENT,
    E,
    R,
    S,
    Scan,
    T,
    characters,
    cut,
    line_break,
)
from headrace.data_prep.extraction.tags import begins_markup, bracket_end, comment_end, raw_end, read_tag, section_end
from headrace.data_prep.kernel import int64, kernel, kernel_in_place


@kernel_in_place
def start(scan: Scan, tag: NDArray[np.int64]) -> None:
    """Decides what a start tag closes and opens."""
    registers, name, depth = scan.registers, tag[T.name], scan.registers[R.depth]
    rules = RULES[name]
    if is_foreign(scan, depth):
        breaks_out = rules & RULE.breaks_out or (name == FONT and tag[T.flags] & FLAG.font_style)
        if not breaks_out and not _is_math_text(scan, depth):
            tag[T.namespace] = _foreign_namespace(scan, depth, tag)
            tag[T.opens] = not tag[T.is_self_closed] or tag[T.namespace] == MATHML
            return
        while is_foreign(scan, depth) and not _is_math_text(scan, depth):
            depth -= 1
    tag[T.keep] = depth
    if name in (SVG_NAME, MATH):
        tag[T.opens], tag[T.namespace] = not tag[T.is_self_closed], SVG if name == SVG_NAME else MATHML
    elif registers[R.is_xml] and tag[T.is_self_closed] and not rules & RULE.void:
        tag[T.cuts] = rules & RULE.block != 0
    elif name in (HTML_NAME, HEAD, BODY, FRAME, FRAMESET):
        tag[T.cuts] = not scan.stack[depth - 1, S.is_silent]
    elif rules & RULE.table_part or is_part_of_table(name, rules) or name == COL:
        part_depth = depth_for_part(scan, depth, name)
        if part_depth > 0:
            tag[T.keep], tag[T.opens] = part_depth, name not in (COL, COLGROUP)
            tag[T.opens_row] = name in (TD, TH) and name_at(scan, part_depth - 1) != TR
    else:
        _start_other(scan, depth, tag)


@kernel_in_place
def _is_math_text(scan: Scan, depth: int) -> bool:
    """Whether the innermost element is one of MathML in which HTML stands."""
    return scan.stack[depth - 1, S.namespace] == MATHML and scan.stack[depth - 1, S.name] in MATH_TEXT


@kernel_in_place
def _foreign_namespace(scan: Scan, depth: int, tag: NDArray[np.int64]) -> int:
    """Returns the namespace of the content of an element in SVG or MathML."""
    namespace, name = scan.stack[depth - 1, S.namespace], tag[T.name]
    if namespace == SVG:
        return INTEGRATION if name in (FOREIGN_OBJECT, DESC, TITLE) else SVG
    if name == SVG_NAME:
        return SVG
    return INTEGRATION if name == ANNOTATION_XML and tag[T.flags] & FLAG.html_annotation else MATHML


@kernel_in_place
def _start_other(scan: Scan, depth: int, tag: NDArray[np.int64]) -> None:
    """Decides for an HTML element that is no part of a table."""
    registers, name = scan.registers, tag[T.name]
    rules = RULES[name]
    if rules & RULE.closes_p:
        depth = without_p(scan, depth)
    is_ignored = False
    if H1 <= name <= H6:
        depth -= H1 <= name_at(scan, depth - 1) <= H6
    elif name in (LI, DD, DT):
        depth = without_p(scan, _without_item(scan, depth, name))
    elif name == BUTTON:
        depth = without(scan, depth, BUTTON, 0)
    elif name in (OPTION, OPTGROUP):
        while name_at(scan, depth - 1) == OPTION or (name == OPTGROUP and name_at(scan, depth - 1) == OPTGROUP):
            depth -= 1
    elif name in (RB, RTC, RT, RP):
        if level_in_scope(scan, depth, RUBY, 0):
            depth = without_implied(scan, depth, RTC if name in (RT, RP) else 0)
    elif name == FORM_NAME:
        is_ignored = registers[R.form] != 0
        registers[R.form] = registers[R.form] or depth
    elif name in (SELECT, INPUT):
        keep = without(scan, depth, SELECT, 0)
        is_ignored, depth = name == SELECT and keep < depth, keep
    elif name in (A, NOBR):
        keep = without_formatting(scan, depth, tag[T.hash])
        depth = keep if keep > 0 else depth
        if name == A:
            registers[R.in_link] = tag[T.flags] & FLAG.has_href != 0
    tag[T.keep] = depth
    if rules & RULE.void:
        tag[T.breaks_line] = name == BR
        tag[T.cuts] = rules & RULE.block != 0
    else:
        tag[T.opens], tag[T.namespace] = not is_ignored, HTML


@kernel_in_place
def _without_item(scan: Scan, depth: int, name: int) -> int:
    """Returns the depth without the open list item, term or description that a new one ends."""
    level = depth - 1
    while level > 0:
        open_name = name_at(scan, level)
        if (name == LI and open_name == LI) or (name != LI and open_name in (DD, DT)):
            return level
        if scan.stack[level, S.namespace] != HTML:
            break
        if open_name > 0 and RULES[open_name] & RULE.special and open_name not in (ADDRESS, DIV, P):
            break
        level -= 1
    return depth


(
    A, ADDRESS, ANNOTATION_XML, BODY, BR, BUTTON, COL, COLGROUP, DD, DESC, DIV, DT, FONT, FOREIGN_OBJECT, FORM_NAME,
    FRAME, FRAMESET, H1, H6, HEAD, HTML_NAME, IMG, INPUT, LI, LISTING, MATH, MSPACE, NOBR, OPTGROUP, OPTION, P,
    PLAINTEXT, PRE, RB, RP, RT, RTC, RUBY, SCRIPT, SELECT, SVG_NAME, TD, TH, TITLE, TR, XMP,
) = numbers(
    "a address annotation-xml body br button col colgroup dd desc div dt font foreignobject form"
    " frame frameset h1 h6 head html img input li listing math mspace nobr optgroup option p"
    " plaintext pre rb rp rt rtc ruby script select svg td th title tr xmp"
)  # fmt: skip


@kernel
def blocks_of(scan: Scan) -> None:
    """Reads the page of ``scan`` from its beginning to its end, or to a fault (``registers[FAULT]``)."""
    page, registers = scan.page, scan.registers
    tag = np.zeros(len(T), np.int64)
    at = int64(0)
    while at < page.size and not registers[R.fault]:
        is_plain = at < registers[R.plain_end]
        if is_plain or page[at] != 0x3C or not begins_markup(page, at):
            at = characters(scan, at, registers[R.plain_end] if is_plain else page.size)
            if is_plain and at >= registers[R.plain_end]:
                at = registers[R.after_plain]
                registers[R.space] |= registers[R.is_alt] & registers[R.has_text]
                if scan.stack[registers[R.depth] - 1, S.name] == IMG:
                    pop_to(scan, registers[R.depth] - 1)
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
    if begins_with(page, at, b"<![cdata[") and (is_foreign(scan, registers[R.depth]) or registers[R.is_xml]):
        end = section_end(page, at + 9)
        after = min(end + 3, page.size)
        _begin_plain(scan, end, after, False)
        return at + 9 if end > at + 9 else after
    return bracket_end(page, at + 2)


@kernel_in_place
def _begin_plain(scan: Scan, end: int, after: int, has_references: bool) -> None:
    """Makes what follows text without markup, up to ``end``; the page goes on at ``after``."""
    registers = scan.registers
    registers[R.plain_end], registers[R.after_plain] = end, after
    registers[R.has_references] = has_references
    registers[R.is_alt] = 0


@kernel_in_place
def _tag(scan: Scan, tag: NDArray[np.int64]) -> int:
    """Does what the ``tag`` says. Returns the offset where the page goes on."""
    registers = scan.registers
    tag[T.keep] = registers[R.depth]
    for register in range(T.cuts, T.opens_row + 1):
        tag[register] = 0
    if tag[T.is_end]:
        end(scan, tag)
    else:
        start(scan, tag)
    pop_to(scan, tag[T.keep])
    if tag[T.cuts]:
        cut(scan)
    if tag[T.breaks_line] and not scan.stack[registers[R.depth] - 1, S.is_silent]:
        line_break(scan)
    return _open(scan, tag) if tag[T.opens] else _without_content(scan, tag)


@kernel_in_place
def _without_content(scan: Scan, tag: NDArray[np.int64]) -> int:
    """Ends a tag that opens nothing; its words are those of no element. Returns where the page goes on."""
    registers, name = scan.registers, tag[T.name]
    if name in (HTML_NAME, BODY):
        _give_words(scan, tag, 0)
    else:
        registers[R.tokens] = tag[T.first_token]
    is_tex = tag[T.flags] & FLAG.tex_image
    if name == IMG and (registers[R.with_alt] or is_tex) and tag[T.kept_end] > tag[T.kept_start]:
        if is_tex and _follows_math(scan):
            return int(tag[T.end])
        if is_tex:
            push(scan, IMG, 0, HTML, tag[T.flags])
        else:
            registers[R.space] |= registers[R.has_text]
        _begin_plain(scan, tag[T.kept_end], tag[T.end], True)
        registers[R.is_alt] = not is_tex
        return int(tag[T.kept_start])
    return int(tag[T.end])


@kernel_in_place
def _follows_math(scan: Scan) -> bool:
    """Whether the text so far ends with a formula: an image after it shows the same one."""
    math, text = scan.registers[R.last_math], scan.registers[R.text]
    return bool(math > 0 and scan.records[math, E.text_start] < text and scan.records[math, E.text_end] == text)


@kernel_in_place
def _open(scan: Scan, tag: NDArray[np.int64]) -> int:
    """Opens the element of a tag. Returns where its content begins: at its end tag if no reader sees it."""
    registers, name, at = scan.registers, tag[T.name], tag[T.end]
    if tag[T.opens_row]:
        push(scan, TR, 0, HTML, 0)
        _give_words(scan, tag, registers[R.elements])
    is_math = tag[T.namespace] == MATHML and name == MATH
    if is_math and not tag[T.flags] & FLAG.alt_text and _has_tex(scan, at):
        tag[T.flags] |= FLAG.tex
    element = registers[R.elements]
    push(scan, name, tag[T.hash], tag[T.namespace], tag[T.flags])
    if registers[R.elements] > element:
        scan.records[element, E.purposes] = tag[T.purposes]
        if tag[T.kept_end]:
            _note_value(scan, element, tag[T.kept_start], tag[T.kept_end])
        elif name in (TD, TH):
            _note_value(scan, element, tag[T.columns], tag[T.rows])
        elif tag[T.namespace] == MATHML:
            _note_value(scan, element, at, at)
    if is_math:
        registers[R.last_math] = element
    if is_math and tag[T.flags] & FLAG.alt_text:
        _begin_plain(scan, tag[T.kept_end], at, True)
        return int(tag[T.kept_start])
    if tag[T.is_self_closed] and tag[T.namespace] == MATHML:
        is_silent = scan.stack[registers[R.depth] - 1, S.is_silent]
        registers[R.space] |= name == MSPACE and registers[R.has_text] and not is_silent
        pop_to(scan, registers[R.depth] - 1)
    return _content(scan, tag) if tag[T.namespace] == HTML else at


@kernel_in_place
def _note_value(scan: Scan, element: int, start: int, end: int) -> None:
    scan.records[element, E.value_start], scan.records[element, E.value_end] = start, end


@kernel_in_place
def _give_words(scan: Scan, tag: NDArray[np.int64], element: int) -> None:
    """Makes the words of a tag those of ``element``."""
    for word in range(tag[T.first_token], scan.registers[R.tokens]):
        scan.tokens[word, TOKEN_ELEMENT] = element


@kernel_in_place
def _has_tex(scan: Scan, at: int) -> bool:
    """Whether the MathML that begins at ``at`` has an annotation in TeX. What is found is kept for the next one."""
    page, registers = scan.page, scan.registers
    if registers[R.math_end] < at:
        end = at
        while end < page.size and not (page[end] == 0x3C and begins_with(page, end, b"</math")):
            end += 1
        registers[R.math_end] = end
    if registers[R.next_tex] < at:
        tex = at
        while tex < page.size and not (page[tex] | 0x20 == 0x61 and begins_with(page, tex, b"application/x-tex")):
            tex += 1
        registers[R.next_tex] = tex
    return bool(registers[R.next_tex] < registers[R.math_end])


@kernel_in_place
def _content(scan: Scan, tag: NDArray[np.int64]) -> int:
    """Begins the content of an HTML element. Returns its offset: that of the end tag if no reader sees the content."""
    page, name, at = scan.page, tag[T.name], tag[T.end]
    if RULES[name] & (RULE.raw | RULE.characters) and not scan.registers[R.is_xml]:
        end = page.size if name == PLAINTEXT else raw_end(page, at, tag[T.hash], name == SCRIPT)
        if name == TITLE or tag[T.fact] == JSON_LD_KIND:
            note_fact(scan, TITLE_KIND if name == TITLE else JSON_LD_KIND, at, end)
        is_tex = name == SCRIPT and tag[T.flags] & FLAG.tex
        if name == TITLE or (RULES[name] & RULE.raw and not is_tex):
            return end
        _begin_plain(scan, end, end, name not in (XMP, PLAINTEXT, SCRIPT))
    elif name in (PRE, LISTING) and at < page.size:
        at += page[at] == 0x0D and at + 1 < page.size and page[at + 1] == 0x0A
        at += page[at] == 0x0A
    return int(at)

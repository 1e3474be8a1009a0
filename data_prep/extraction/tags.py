"""Tags and other markup: where they begin and end, and what attributes say of an element.

    <div class="post mainBody" hidden> ── read_tag ──> registers of a tag: name DIV, HIDDEN, end; words post, main, body

What attributes state of the page is in page_facts.py. Source: WHATWG HTML, section 13.2.5 (tokenization).
"""

import numpy as np
from numpy.typing import NDArray

from headrace.data_prep.extraction.markup import (
    FIRST_MATHML,
    FOLLOW,
    FOUND,
    HASH_MASK,
    HASH_PRIME,
    HASH_START,
    HASHES,
    NAMES,
    NUMBER,
    NUMBERS,
    begins_with,
    hash_table,
    is_letter,
    is_space,
    lower_hash,
    name_hash,
    next_byte,
    number_of,
)
from headrace.data_prep.extraction.page_facts import FACT_ELEMENTS, note_fact, note_subject, understand_fact
from headrace.data_prep.extraction.scan import CLASS_WORDS, FLAG, TOKEN_ELEMENT, TOKEN_HASH, R, Scan, T
from headrace.data_prep.kernel import int64, kernel_in_place

CLASS, ID, ROLE, ITEMPROP, STYLE, HREF, ENCODING, TYPE = map(
    name_hash, (b"class", b"id", b"role", b"itemprop", b"style", b"href", b"encoding", b"type")
)
HIDDEN_NAME, ARIA_NAME, SHADOW_NAME = map(name_hash, (b"hidden", b"aria-hidden", b"shadowrootmode"))
COLOR, FACE, SIZE, TRUE = map(name_hash, (b"color", b"face", b"size", b"true"))
ITEMTYPE, TYPEOF, ABOUT = map(name_hash, (b"itemtype", b"typeof", b"about"))
ALTTEXT, DISPLAY_NAME, COLSPAN, ROWSPAN = map(name_hash, (b"alttext", b"display", b"colspan", b"rowspan"))

TOKEN_MASK = 2**31 - 1
CLASS_HASHES, CLASS_BITS = hash_table(
    {word.encode(): bit for bit, words in CLASS_WORDS.items() for word in words.split()}, 256
)
MAX_SPAN = 65534
VALUE_OF: NDArray[np.int64] = np.zeros(len(NAMES), np.int64)
"""The attribute of each element that forms of text need: the hash of its name, by the element's number; 0 for none."""
for _element, _known in {
    "a": "href", "img": "alt", "math": "alttext", "ol": "start", "li": "value", "pre": "class", "code": "class",
    "div": "class",
}.items():  # fmt: skip
    VALUE_OF[NUMBER[_element]] = name_hash(_known.encode())


@kernel_in_place
def understand(scan: Scan, name: int, tag: NDArray[np.int64]) -> None:
    """Notes what the attribute says whose name has the hash ``name``."""
    page, start, end = scan.page, tag[T.value_start], tag[T.value_end]
    if name in (CLASS, ID, ROLE, ITEMPROP):
        add_words(scan, start, end, tag)
        if name == CLASS:
            tag[T.flags] |= _class_bits(page, start, end)
    elif name == HREF:
        tag[T.flags] |= FLAG.has_href
    elif name == STYLE:
        tag[T.flags] |= _style_bits(page, start, end)
    elif name == HIDDEN_NAME:
        tag[T.flags] |= FLAG.hidden
    elif name == ARIA_NAME:
        if lower_hash(page, start, end) == TRUE:
            tag[T.flags] |= FLAG.aria_hidden
    elif name == SHADOW_NAME:
        tag[T.flags] |= FLAG.shadow_root
    elif name == ENCODING:
        if begins_with(page, start, b"text/html") or begins_with(page, start, b"application/xhtml+xml"):
            tag[T.flags] |= FLAG.html_annotation
        elif begins_with(page, start, b"application/x-tex"):
            tag[T.flags] |= FLAG.tex
    elif name == TYPE:
        if begins_with(page, start, b"math/tex"):
            tag[T.flags] |= FLAG.tex | (FLAG.display if end - start > 8 else 0)  # "; mode=display"
    elif name == ALTTEXT:
        tag[T.flags] |= FLAG.alt_text if end > start else 0
    elif name == DISPLAY_NAME:
        tag[T.flags] |= FLAG.display if begins_with(page, start, b"block") else 0
    elif name in (COLOR, FACE, SIZE):
        tag[T.flags] |= FLAG.font_style
    elif name in (ITEMTYPE, TYPEOF, ABOUT):
        note_subject(scan, name == ABOUT, start, end)
    elif name == COLSPAN:
        tag[T.columns] = _span(page, start, end)
    elif name == ROWSPAN:
        tag[T.rows] = _span(page, start, end)
    if name == VALUE_OF[tag[T.name]]:
        tag[T.kept_start], tag[T.kept_end] = start, end
    if tag[T.name] in FACT_ELEMENTS:
        understand_fact(scan, name, tag)


@kernel_in_place
def _style_bits(page: NDArray[np.uint8], start: int, end: int) -> int:
    """Returns what a style says: NOT_DISPLAYED, AS_BLOCK, STRUCK."""
    bits = 0
    for at in range(start, end - 11):
        letter = page[at] | 0x20
        if letter == 0x64 and begins_with(page, at, b"display"):
            value = at + 7
            while value < end and (is_space(page[value]) or page[value] == 0x3A):
                value += 1
            if begins_with(page, value, b"none"):
                bits |= FLAG.not_displayed
            elif (
                begins_with(page, value, b"block")
                or begins_with(page, value, b"flex")
                or begins_with(page, value, b"grid")
                or begins_with(page, value, b"table")
                or begins_with(page, value, b"list-item")
                or begins_with(page, value, b"flow-root")
            ):
                bits |= FLAG.as_block
        elif letter == 0x6C and begins_with(page, at, b"line-through"):
            bits |= FLAG.struck
    return bits


@kernel_in_place
def _class_bits(page: NDArray[np.uint8], start: int, end: int) -> int:
    """Returns the bits that the words of a class set."""
    bits, word = 0, HASH_START
    for at in range(start, end + 1):
        if at == end or is_space(page[at]):
            if word != HASH_START:
                bits |= number_of(word, CLASS_HASHES, CLASS_BITS)
            word = HASH_START
        else:
            word = (word ^ int64(page[at])) * HASH_PRIME & HASH_MASK
    return bits


@kernel_in_place
def _span(page: NDArray[np.uint8], start: int, end: int) -> int:
    """Returns the number that ``start`` begins with, at most MAX_SPAN, plus one; 0 if there is none.

    Source: the rules for parsing non-negative integers.
    """
    while start < end and is_space(page[start]):
        start += 1
    if start < end and page[start] == 0x2B:
        start += 1
    number = -1
    while start < end and 0x30 <= page[start] <= 0x39:
        number = min(max(number, 0) * 10 + int64(page[start]) - 0x30, MAX_SPAN)
        start += 1
    return number + 1


@kernel_in_place
def add_words(scan: Scan, start: int, end: int, tag: NDArray[np.int64]) -> None:
    """Adds the words between ``start`` and ``end`` to the tokens of the element that comes next, and their classes.

    A word is two or more letters; a capital after a small letter begins a new one.
    """
    page, tokens = scan.page, scan.tokens
    element, number = scan.registers[R.elements], scan.registers[R.tokens]
    word, letters, was_small = HASH_START, 0, False
    state, classes = 0, 0
    for at in range(start, end + 1):
        byte = int64(page[at]) if at < end else 0
        is_capital = 0x41 <= byte <= 0x5A
        state = FOLLOW[state, (byte | 0x20) - 0x61] if is_letter(byte) else 0
        classes |= FOUND[state]
        begins = is_capital and was_small
        is_part = is_letter(byte) or byte >= 0x80
        if begins or not is_part:
            if letters > 1:
                tokens[number, TOKEN_ELEMENT] = element
                tokens[number, TOKEN_HASH] = (word ^ word >> 32) & TOKEN_MASK
                number += 1
            word, letters = HASH_START, 0
        if is_part:
            word, letters = (word ^ (byte | 0x20 if is_capital else byte)) * HASH_PRIME & HASH_MASK, letters + 1
        was_small = 0x61 <= byte <= 0x7A
    scan.registers[R.tokens] = number
    tag[T.purposes] |= classes


@kernel_in_place
def begins_markup(page: NDArray[np.uint8], at: int) -> bool:
    """Whether the ``<`` at ``at`` begins a tag, a comment or a declaration. Otherwise it is text."""
    if at + 1 >= page.size:
        return False
    byte = page[at + 1]
    if byte == 0x2F:  # /
        return at + 2 < page.size
    return is_letter(byte) or byte == 0x21 or byte == 0x3F


@kernel_in_place
def comment_end(page: NDArray[np.uint8], at: int) -> int:
    """Returns the offset after the comment whose ``<!--`` is at ``at``; the end of the page if it is not closed."""
    at += 4
    if at < page.size and page[at] == 0x3E:
        return at + 1
    if at + 1 < page.size and page[at] == 0x2D and page[at + 1] == 0x3E:
        return at + 2
    end = next_byte(page, at, page.size, 0x3E)
    while end < page.size:
        dashes = end - 1 - (page[end - 1] == 0x21)  # --> or --!>
        if dashes > at and page[dashes] == 0x2D and page[dashes - 1] == 0x2D:
            return end + 1
        end = next_byte(page, end + 1, page.size, 0x3E)
    return page.size


@kernel_in_place
def bracket_end(page: NDArray[np.uint8], at: int) -> int:
    """Returns the offset after the next ``>``; the end of the page if there is none."""
    return min(next_byte(page, at, page.size, 0x3E) + 1, page.size)


@kernel_in_place
def section_end(page: NDArray[np.uint8], at: int) -> int:
    """Returns the offset of the ``]]>`` that ends a CDATA section; the end of the page if there is none."""
    while at < page.size and not (
        page[at] == 0x5D and at + 2 < page.size and page[at + 1] == 0x5D and page[at + 2] == 0x3E
    ):
        at += 1
    return at


@kernel_in_place
def raw_end(page: NDArray[np.uint8], at: int, name: int, is_script: bool) -> int:
    """Returns the offset of the end tag, whose name has the hash ``name``, of raw text that begins at ``at``.

    A script that a comment encloses may hold another script (the standard's "script data double escaped state").
    """
    is_escaped = is_double = False
    while at < page.size:
        if page[at] == 0x3C:
            if is_script and begins_with(page, at, b"<!--"):
                is_escaped = True
                at += 2
                continue
            is_end = at + 1 < page.size and page[at + 1] == 0x2F
            start = at + 2 if is_end else at + 1
            end, own_name = tag_name(page, start)
            is_whole = end < page.size and (is_space(page[end]) or page[end] == 0x2F or page[end] == 0x3E)
            if own_name == name and is_whole:
                if is_end and not is_double:
                    return at
                is_double = is_escaped and not is_end
            at = max(start, at + 1)
            continue
        if is_escaped and page[at] == 0x2D and begins_with(page, at, b"-->"):
            is_escaped = is_double = False
        at = at + 1 if is_escaped else next_byte(page, at + 1, page.size, 0x3C)
    return page.size


@kernel_in_place
def tag_name(page: NDArray[np.uint8], at: int) -> tuple[int, int]:
    """Returns the offset after the name at ``at``, and its hash in lower case."""
    name = HASH_START
    while at < page.size:
        byte = int64(page[at])
        if is_space(byte) or byte == 0x2F or byte == 0x3E:
            break
        if 0x41 <= byte <= 0x5A:
            byte |= 0x20
        name = (name ^ byte) * HASH_PRIME & HASH_MASK
        at += 1
    return at, name


@kernel_in_place
def read_tag(scan: Scan, at: int, tag: NDArray[np.int64]) -> bool:
    """Reads the tag whose ``<`` is at ``at`` into ``tag``, and its tokens. Returns False if the page ends inside it."""
    page = scan.page
    start = at + 1
    tag[T.is_end] = page[start] == 0x2F
    at, tag[T.hash] = tag_name(page, start + tag[T.is_end])
    tag[T.name] = number_of(tag[T.hash], HASHES, NUMBERS)
    tag[T.flags] = tag[T.is_self_closed] = tag[T.fact] = tag[T.fact_end] = tag[T.kept_end] = tag[T.purposes] = 0
    tag[T.columns] = tag[T.rows] = 0
    tag[T.first_token] = scan.registers[R.tokens]
    if (tag[T.name] == 0 or tag[T.name] >= FIRST_MATHML) and not tag[T.is_end]:
        add_words(scan, start, at, tag)
    while at < page.size:
        byte = page[at]
        if byte == 0x3E:  # >
            tag[T.end] = at + 1
            tag[T.is_self_closed] = page[at - 1] == 0x2F and at - 1 != tag[T.value_end] - 1
            if tag[T.fact] and tag[T.fact_end]:
                note_fact(scan, tag[T.fact], tag[T.fact_start], tag[T.fact_end])
            return True
        if is_space(byte) or byte == 0x2F:
            at += 1
            continue
        at = _attribute(scan, at, tag)
    return False


@kernel_in_place
def _attribute(scan: Scan, at: int, tag: NDArray[np.int64]) -> int:
    """Reads the attribute at ``at``. Returns the offset after it."""
    page = scan.page
    name, first = HASH_START, at
    while at < page.size:
        byte = int64(page[at])
        if is_space(byte) or byte == 0x2F or byte == 0x3E or (byte == 0x3D and at > first):
            break
        if 0x41 <= byte <= 0x5A:
            byte |= 0x20
        name = (name ^ byte) * HASH_PRIME & HASH_MASK
        at += 1
    after = at
    while after < page.size and is_space(page[after]):
        after += 1
    tag[T.value_start] = tag[T.value_end] = 0
    if after < page.size and page[after] == 0x3D:  # =
        at = _value(page, after + 1, tag)
    if not tag[T.is_end]:
        understand(scan, name, tag)
    return at


@kernel_in_place
def _value(page: NDArray[np.uint8], at: int, tag: NDArray[np.int64]) -> int:
    """Notes where the value after ``=`` begins and ends. Returns the offset after it."""
    while at < page.size and is_space(page[at]):
        at += 1
    if at < page.size and (page[at] == 0x22 or page[at] == 0x27):
        quote, start = page[at], at + 1
        at = next_byte(page, start, page.size, quote)
        tag[T.value_start], tag[T.value_end] = start, at
        return at + 1
    tag[T.value_start] = at
    while at < page.size and page[at] != 0x3E and not is_space(page[at]):
        at += 1
    tag[T.value_end] = at
    return at

"""Attributes: what they say of an element. What they state of the page is in fact_tags.py.

<div class="post mainBody" hidden>         ──> HIDDEN; words "post", "main", "body"
"""

import numpy as np
from numpy.typing import NDArray

from headrace.data_prep.extraction.parsing.elements import NAMES, NUMBER
from headrace.data_prep.extraction.parsing.fact_tags import FACT_ELEMENTS, note_subject, understand_fact
from headrace.data_prep.extraction.parsing.hashes import (
    HASH_MASK,
    HASH_PRIME,
    HASH_START,
    begins_with,
    hash_table,
    is_letter,
    is_space,
    lower_hash,
    name_hash,
    number_of,
)
from headrace.data_prep.extraction.parsing.keywords import FOLLOW, FOUND
from headrace.data_prep.extraction.parsing.scan import (
    ELEMENTS,
    TOKEN_ELEMENT,
    TOKEN_HASH,
    TOKENS,
    Scan,
)
from headrace.data_prep.extraction.parsing.tag import (
    ALT_TEXT,
    ARIA_HIDDEN,
    AS_BLOCK,
    ATTRIBUTES,
    CLASS_WORDS,
    CLASSES,
    DISPLAY,
    FONT_STYLE,
    HAS_HREF,
    HIDDEN,
    HTML_ANNOTATION,
    NOT_DISPLAYED,
    OWN_END,
    OWN_START,
    SHADOW_ROOT,
    SPAN_COLUMNS,
    SPAN_ROWS,
    STRUCK,
    TAG_NAME,
    TEX,
    VALUE_END,
    VALUE_START,
)
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
for _element, _attribute in {
    "a": "href", "img": "alt", "math": "alttext", "ol": "start", "li": "value", "pre": "class", "code": "class",
}.items():  # fmt: skip
    VALUE_OF[NUMBER[_element]] = name_hash(_attribute.encode())


@kernel_in_place
def understand(scan: Scan, name: int, tag: NDArray[np.int64]) -> None:
    """Notes what the attribute says whose name has the hash ``name``."""
    page, start, end = scan.page, tag[VALUE_START], tag[VALUE_END]
    if name in (CLASS, ID, ROLE, ITEMPROP):
        add_words(scan, start, end, tag)
        if name == CLASS:
            tag[ATTRIBUTES] |= _class_bits(page, start, end)
    elif name == HREF:
        tag[ATTRIBUTES] |= HAS_HREF
    elif name == STYLE:
        tag[ATTRIBUTES] |= _style_bits(page, start, end)
    elif name == HIDDEN_NAME:
        tag[ATTRIBUTES] |= HIDDEN
    elif name == ARIA_NAME:
        if lower_hash(page, start, end) == TRUE:
            tag[ATTRIBUTES] |= ARIA_HIDDEN
    elif name == SHADOW_NAME:
        tag[ATTRIBUTES] |= SHADOW_ROOT
    elif name == ENCODING:
        if begins_with(page, start, b"text/html") or begins_with(page, start, b"application/xhtml+xml"):
            tag[ATTRIBUTES] |= HTML_ANNOTATION
        elif begins_with(page, start, b"application/x-tex"):
            tag[ATTRIBUTES] |= TEX
    elif name == TYPE:
        if begins_with(page, start, b"math/tex"):
            tag[ATTRIBUTES] |= TEX | (DISPLAY if end - start > 8 else 0)  # "; mode=display"
    elif name == ALTTEXT:
        tag[ATTRIBUTES] |= ALT_TEXT if end > start else 0
    elif name == DISPLAY_NAME:
        tag[ATTRIBUTES] |= DISPLAY if begins_with(page, start, b"block") else 0
    elif name in (COLOR, FACE, SIZE):
        tag[ATTRIBUTES] |= FONT_STYLE
    elif name in (ITEMTYPE, TYPEOF, ABOUT):
        note_subject(scan, name == ABOUT, start, end)
    elif name == COLSPAN:
        tag[SPAN_COLUMNS] = _span(page, start, end)
    elif name == ROWSPAN:
        tag[SPAN_ROWS] = _span(page, start, end)
    if name == VALUE_OF[tag[TAG_NAME]]:
        tag[OWN_START], tag[OWN_END] = start, end
    if tag[TAG_NAME] in FACT_ELEMENTS:
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
                bits |= NOT_DISPLAYED
            elif (
                begins_with(page, value, b"block")
                or begins_with(page, value, b"flex")
                or begins_with(page, value, b"grid")
                or begins_with(page, value, b"table")
                or begins_with(page, value, b"list-item")
                or begins_with(page, value, b"flow-root")
            ):
                bits |= AS_BLOCK
        elif letter == 0x6C and begins_with(page, at, b"line-through"):
            bits |= STRUCK
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
    element, number = scan.registers[ELEMENTS], scan.registers[TOKENS]
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
    scan.registers[TOKENS] = number
    tag[CLASSES] |= classes

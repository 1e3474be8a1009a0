"""Tags and other markup: where they begin and end.

    <div class="post body" hidden> ── read_tag ──> registers of a tag: name DIV, attributes, end

Source: WHATWG HTML, section 13.2.5 (tokenization).
"""

import numpy as np
from numpy.typing import NDArray

from headrace.data_prep.extraction.parsing.attributes import add_words, understand
from headrace.data_prep.extraction.parsing.elements import FIRST_MATHML, HASHES, NUMBERS
from headrace.data_prep.extraction.parsing.fact_tags import note_fact
from headrace.data_prep.extraction.parsing.hashes import (
    HASH_MASK,
    HASH_PRIME,
    HASH_START,
    begins_with,
    is_letter,
    is_space,
    number_of,
)
from headrace.data_prep.extraction.parsing.scan import TOKENS, Scan
from headrace.data_prep.extraction.parsing.tag import (
    ATTRIBUTES,
    CLASSES,
    CONTENT_END,
    CONTENT_START,
    FIRST_TOKEN,
    IS_END_TAG,
    IS_SELF_CLOSED,
    KEY,
    OWN_END,
    SPAN_COLUMNS,
    SPAN_ROWS,
    TAG_END,
    TAG_HASH,
    TAG_NAME,
    VALUE_END,
    VALUE_START,
)
from headrace.data_prep.kernel import int64, kernel_in_place


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
    while at + 2 < page.size:
        if page[at] == 0x2D and page[at + 1] == 0x2D:
            if page[at + 2] == 0x3E:
                return at + 3
            if page[at + 2] == 0x21 and at + 3 < page.size and page[at + 3] == 0x3E:
                return at + 4
        at += 1
    return page.size


@kernel_in_place
def bracket_end(page: NDArray[np.uint8], at: int) -> int:
    """Returns the offset after the next ``>``; the end of the page if there is none."""
    while at < page.size and page[at] != 0x3E:
        at += 1
    return min(at + 1, page.size)


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
        at += 1
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
    tag[IS_END_TAG] = page[start] == 0x2F
    at, tag[TAG_HASH] = tag_name(page, start + tag[IS_END_TAG])
    tag[TAG_NAME] = number_of(tag[TAG_HASH], HASHES, NUMBERS)
    tag[ATTRIBUTES] = tag[IS_SELF_CLOSED] = tag[KEY] = tag[CONTENT_END] = tag[OWN_END] = tag[CLASSES] = 0
    tag[SPAN_COLUMNS] = tag[SPAN_ROWS] = 0
    tag[FIRST_TOKEN] = scan.registers[TOKENS]
    if (tag[TAG_NAME] == 0 or tag[TAG_NAME] >= FIRST_MATHML) and not tag[IS_END_TAG]:
        add_words(scan, start, at, tag)
    while at < page.size:
        byte = page[at]
        if byte == 0x3E:  # >
            tag[TAG_END] = at + 1
            tag[IS_SELF_CLOSED] = page[at - 1] == 0x2F and at - 1 != tag[VALUE_END] - 1
            if tag[KEY] and tag[CONTENT_END]:
                note_fact(scan, tag[KEY], tag[CONTENT_START], tag[CONTENT_END])
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
    tag[VALUE_START] = tag[VALUE_END] = 0
    if after < page.size and page[after] == 0x3D:  # =
        at = _value(page, after + 1, tag)
    if not tag[IS_END_TAG]:
        understand(scan, name, tag)
    return at


@kernel_in_place
def _value(page: NDArray[np.uint8], at: int, tag: NDArray[np.int64]) -> int:
    """Notes where the value after ``=`` begins and ends. Returns the offset after it."""
    while at < page.size and is_space(page[at]):
        at += 1
    if at < page.size and (page[at] == 0x22 or page[at] == 0x27):
        quote, start = page[at], at + 1
        at = start
        while at < page.size and page[at] != quote:
            at += 1
        tag[VALUE_START], tag[VALUE_END] = start, at
        return at + 1
    tag[VALUE_START] = at
    while at < page.size and page[at] != 0x3E and not is_space(page[at]):
        at += 1
    tag[VALUE_END] = at
    return at

"""Attributes: what they say of an element, and which facts of the page they state.

<div class="post mainBody" hidden>         ──> HIDDEN; words "post", "main", "body"
<meta property="og:title" content="Mills"> ──> fact "og:title": the bytes of "Mills"
"""

import numpy as np
from numpy.typing import NDArray

from headrace.data_prep.extraction.parsing.elements import NAMES, NUMBER, numbers
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
from headrace.data_prep.extraction.parsing.page_fact_names import (
    AGENT,
    CC_LINK,
    DIRECTIVES,
    JSON_LD,
    KIND,
    SUBJECT,
)
from headrace.data_prep.extraction.parsing.page_fact_names import NAMES as NAMES_OF_FACTS
from headrace.data_prep.extraction.parsing.page_fact_names import TYPE as TYPE_OF_SUBJECT
from headrace.data_prep.extraction.parsing.scan import (
    DEPTH,
    ELEMENT,
    ELEMENTS,
    FACT_ELEMENT,
    FACT_END,
    FACT_KIND,
    FACT_START,
    FACTS,
    TOKEN_ELEMENT,
    TOKEN_HASH,
    TOKENS,
    Scan,
)
from headrace.data_prep.extraction.parsing.tag import (
    ALT_TEXT,
    ARIA_HIDDEN,
    ATTRIBUTES,
    CLASSES,
    CONTENT_END,
    CONTENT_START,
    DISPLAY,
    DRAWN_TEX,
    FONT_STYLE,
    HAS_HREF,
    HIDDEN,
    HTML_ANNOTATION,
    KEY,
    NOT_DISPLAYED,
    OWN_END,
    OWN_START,
    SHADOW_ROOT,
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
NAME_NAME, PROPERTY, HTTP_EQUIV, CONTENT = map(name_hash, (b"name", b"property", b"http-equiv", b"content"))
REL, LANG, DATETIME = map(name_hash, (b"rel", b"lang", b"datetime"))
ITEMTYPE, TYPEOF, ABOUT = map(name_hash, (b"itemtype", b"typeof", b"about"))
ALTTEXT, DISPLAY_NAME, KATEX_DRAWING = map(name_hash, (b"alttext", b"display", b"katex-html"))
A, HTML_NAME, LINK, META, SCRIPT, TIME = numbers("a html link meta script time")

KIND_HASHES, KIND_NUMBERS = hash_table({name.encode(): number for name, number in KIND.items()}, 256)
LANG_KIND, DATETIME_KIND, JSON_LD_KIND, CC_KIND = (KIND[name] for name in ("lang", "datetime", JSON_LD, CC_LINK))
AGENT_KIND, TYPE_KIND, SUBJECT_KIND = KIND[AGENT], KIND[TYPE_OF_SUBJECT], KIND[SUBJECT]
LICENCE_KIND = KIND[NAMES_OF_FACTS["licence"][0]]
"""The first kind of licences; the others follow, up to CC_KIND."""
DIRECTIVE_HASHES, DIRECTIVE_NUMBERS = hash_table({name.encode(): 1 for name in DIRECTIVES}, 64)
TOKEN_MASK = 2**31 - 1
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
        if name == CLASS and lower_hash(page, start, end) == KATEX_DRAWING:
            tag[ATTRIBUTES] |= DRAWN_TEX
    elif name == HREF:
        tag[ATTRIBUTES] |= HAS_HREF
    elif name == STYLE:
        if _is_not_displayed(page, start, end):
            tag[ATTRIBUTES] |= NOT_DISPLAYED
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
        note_fact(scan, SUBJECT_KIND if name == ABOUT else TYPE_KIND, start, end)
        scan.records[scan.registers[FACTS] - 1, FACT_ELEMENT] = scan.registers[ELEMENTS]  # the one that comes next
    if name == VALUE_OF[tag[TAG_NAME]]:
        tag[OWN_START], tag[OWN_END] = start, end
    if tag[TAG_NAME] in (A, HTML_NAME, LINK, META, SCRIPT, TIME):
        _understand_fact(scan, name, tag)


@kernel_in_place
def _understand_fact(scan: Scan, name: int, tag: NDArray[np.int64]) -> None:
    """Notes which fact the tag states, or what it says of it."""
    page, start, end, element = scan.page, tag[VALUE_START], tag[VALUE_END], tag[TAG_NAME]
    is_value = False
    if element == META:
        is_value = name == CONTENT
        if name in (NAME_NAME, PROPERTY, HTTP_EQUIV, ITEMPROP) and tag[KEY] in (0, AGENT_KIND):
            tag[KEY] = number_of(lower_hash(page, start, end), KIND_HASHES, KIND_NUMBERS) or tag[KEY]
        elif is_value and not tag[KEY] and _begins_with_directive(page, start, end):
            tag[KEY] = AGENT_KIND
    elif element == HTML_NAME:
        is_value = name == LANG
        if is_value:
            tag[KEY] = LANG_KIND
    elif element == TIME:
        is_value = name == DATETIME
        if name == ITEMPROP:
            tag[KEY] = number_of(lower_hash(page, start, end), KIND_HASHES, KIND_NUMBERS)
        elif is_value and not tag[KEY]:
            tag[KEY] = DATETIME_KIND
    elif element == SCRIPT:
        if name == TYPE and begins_with(page, start, b"application/ld+json"):
            tag[KEY] = JSON_LD_KIND
    elif name == REL:
        tag[KEY] = _first_kind(page, start, end) or tag[KEY]
    elif name in (ITEMPROP, PROPERTY):
        kind = _first_kind(page, start, end)
        tag[KEY] = kind if LICENCE_KIND <= kind <= CC_KIND else tag[KEY]
    elif name == HREF:
        is_value = True
        if element == A and not tag[KEY] and _is_cc_licence(page, start, end):
            tag[KEY] = CC_KIND
    if is_value:
        tag[CONTENT_START], tag[CONTENT_END] = start, end


@kernel_in_place
def _first_kind(page: NDArray[np.uint8], start: int, end: int) -> int:
    """Returns the first of the words that is a kind of fact; 0 if none is."""
    word = start
    for at in range(start, end + 1):
        if at == end or is_space(page[at]):
            kind = number_of(lower_hash(page, word, at), KIND_HASHES, KIND_NUMBERS)
            if kind > 0:
                return kind
            word = at + 1
    return 0


@kernel_in_place
def _begins_with_directive(page: NDArray[np.uint8], start: int, end: int) -> bool:
    """Whether the first word is a directive for robots."""
    while start < end and is_space(page[start]):
        start += 1
    word = start
    while word < end and (is_letter(page[word]) or page[word] == 0x2D or page[word] == 0x5F):
        word += 1
    return number_of(lower_hash(page, start, word), DIRECTIVE_HASHES, DIRECTIVE_NUMBERS) > 0


@kernel_in_place
def _is_cc_licence(page: NDArray[np.uint8], start: int, end: int) -> bool:
    """Whether an address is that of a licence, or a dedication, of Creative Commons."""
    while start < end and page[start] != 0x2F:
        start += 1
    start += 2
    if begins_with(page, start, b"www."):
        start += 4
    return begins_with(page, start, b"creativecommons.org/licenses/") or begins_with(
        page, start, b"creativecommons.org/publicdomain/"
    )


@kernel_in_place
def note_fact(scan: Scan, kind: int, start: int, end: int) -> None:
    """Adds a fact of the page, which the bytes from ``start`` to ``end`` state."""
    number = min(scan.registers[FACTS], scan.records.shape[0] - 1)  # a tag may have many attributes
    scan.records[number, FACT_KIND] = kind
    scan.records[number, FACT_START], scan.records[number, FACT_END] = start, end
    scan.records[number, FACT_ELEMENT] = scan.stack[scan.registers[DEPTH] - 1, ELEMENT]
    scan.registers[FACTS] = number + 1


@kernel_in_place
def _is_not_displayed(page: NDArray[np.uint8], start: int, end: int) -> bool:
    """Whether a style has ``display:none``."""
    for at in range(start, end - 11):
        if page[at] | 0x20 == 0x64 and begins_with(page, at, b"display"):
            at += 7
            while at < end and (is_space(page[at]) or page[at] == 0x3A):
                at += 1
            if begins_with(page, at, b"none"):
                return True
    return False


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

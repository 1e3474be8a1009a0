"""Names in markup: tags, words of classes and character references, as numbers of 62 bits that tables give a meaning.

    "Div"                         ── lower_hash ──> hash ── HASHES ──> DIV ── RULES[DIV] ──> RULE.block | …
    class="postBody-commentList"  ── FOLLOW, FOUND ──> POST | BODY | COMMENT | LIST
    "&eacute;", "&#xE9;"          ── reference ──> "é" in UTF-8

The hash is FNV-1a (Fowler, Noll, Vo). 62 of its 64 bits are kept: they are never negative, so Python and compiled code
compute the same.
Sources: WHATWG HTML, sections 13.1.2 (kinds of elements), 13.2.4.2 (the stack of open elements), 13.2.6 (tree
construction), 15.3 (rendering), 13.2.5.72 to 13.2.5.80 and 13.5 (character references, as Python's ``html.entities``
has them); Aho & Corasick, "Efficient string matching", CACM 1975 (all keywords in one pass).
"""

import re
from collections import namedtuple
from html import unescape
from html.entities import html5
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from headrace.data_prep.kernel import int64, kernel_in_place, memchr

HASH_START, HASH_PRIME, HASH_MASK = 0xCBF29CE484222325 & 2**62 - 1, 0x100000001B3, 2**62 - 1


def name_hash(name: bytes) -> int:
    """Returns the hash of ``name``."""
    value = HASH_START
    for byte in name:
        value = (value ^ byte) * HASH_PRIME & HASH_MASK
    return value


class HashTable(NamedTuple):
    """Numbers by the hash of a name, 0 where a slot is free; collisions stand in the slots that follow."""

    hashes: NDArray[np.int64]
    numbers: NDArray[np.int64]


def hash_table(numbers: dict[bytes, int], slots: int) -> HashTable:
    """Returns ``numbers`` by hash. ``slots`` is a power of two, and larger than the number of names.

    Raises:
        ValueError: when two names have the same hash.
    """
    table = HashTable(np.zeros(slots, np.int64), np.zeros(slots, np.int64))
    for name, number in numbers.items():
        value = name_hash(name)
        slot = value % slots
        while table.hashes[slot]:
            if int(table.hashes[slot]) == value:
                raise ValueError(f"{name!r} has the hash of another name")
            slot = (slot + 1) % slots
        table.hashes[slot], table.numbers[slot] = value, number
    return table


@kernel_in_place
def number_of(value: int, hashes: NDArray[np.int64], numbers: NDArray[np.int64]) -> int:
    """Returns the number of the name with the hash ``value`` in a table; 0 if it has none."""
    slot = value & (hashes.size - 1)
    while hashes[slot] != 0:
        if hashes[slot] == value:
            return int(numbers[slot])
        slot = (slot + 1) & (hashes.size - 1)
    return 0


@kernel_in_place
def is_space(byte: int) -> bool:
    return byte == 0x20 or byte == 0x09 or byte == 0x0A or byte == 0x0C or byte == 0x0D


@kernel_in_place
def space_bytes(page: NDArray[np.uint8], at: int) -> int:
    """Returns the number of bytes of the white space character at ``at``; 0 if it is another (``str.isspace``)."""
    byte = int64(page[at])
    if byte < 0x80:
        return 1 if byte == 0x20 or 0x09 <= byte <= 0x0D or 0x1C <= byte <= 0x1F else 0
    if byte == 0xC2:
        return 2 if at + 1 < page.size and (page[at + 1] == 0xA0 or page[at + 1] == 0x85) else 0
    if not 0xE1 <= byte <= 0xE3 or at + 2 >= page.size:
        return 0
    point = (byte & 0x0F) << 12 | (int64(page[at + 1]) & 0x3F) << 6 | int64(page[at + 2]) & 0x3F
    is_space = point in (0x1680, 0x2028, 0x2029, 0x202F, 0x205F, 0x3000) or 0x2000 <= point <= 0x200A
    return 3 if is_space else 0


@kernel_in_place
def next_byte(page: NDArray[np.uint8], at: int, end: int, byte: int) -> int:
    """Returns the offset of the first ``byte`` from ``at`` on and before ``end``; ``end`` if there is none."""
    if at >= end:
        return at
    address = int64(page.ctypes.data)
    place = memchr(address + at, byte, end - at)
    return place - address if place else end


@kernel_in_place
def is_letter(byte: int) -> bool:
    return 0x61 <= byte | 0x20 <= 0x7A


@kernel_in_place
def begins_with(page: NDArray[np.uint8], at: int, word: bytes) -> bool:
    """Whether ``page`` has ``word``, in lower case, at ``at``; upper case is equal."""
    if at + len(word) > page.size:
        return False
    for index in range(len(word)):
        byte = page[at + index]
        if 0x41 <= byte <= 0x5A:
            byte |= 0x20
        if byte != word[index]:
            return False
    return True


@kernel_in_place
def lower_hash(page: NDArray[np.uint8], start: int, end: int) -> int:
    """Returns the hash of the bytes from ``start`` to ``end`` in lower case."""
    value = HASH_START
    for at in range(start, end):
        byte = int64(page[at])
        value = (value ^ (byte | 0x20 if 0x41 <= byte <= 0x5A else byte)) * HASH_PRIME & HASH_MASK
    return value


# Elements: their numbers, and what the HTML standard says of them.
Rules = namedtuple(
    "Rules",
    "block void raw characters formatting special scope closes_p implied_end breaks_out table_part silent marker"
    " ended_by_name",
)
RULE = Rules(*(1 << bit for bit in range(14)))
"""Rules of elements, as bits. A ``block`` begins and ends a block of text. ``void``: without content. The content of
``raw`` is text that no reader sees, that of ``characters`` text without tags. The end tag of ``formatting`` closes no
other element (the adoption agency algorithm), and that of another, unknown element closes none that is ``special``.
``scope`` ends the search for an open element. The start tag of ``closes_p`` closes an open p, that of ``breaks_out``
SVG and MathML. ``implied_end``: closed by the end of the element around it. A ``table_part`` belongs to the structure
of a table; anything else directly inside moves before the table. No reader sees the text of ``silent``: readings of
ruby, templates. A link that is open does not go on inside ``marker``. The end tag of ``ended_by_name`` closes all
elements inside it, if it is in scope."""

_KINDS = Rules(
    block="address article aside blockquote button caption center dd details dialog dir div dl dt fieldset figcaption"
    " figure footer form frameset h1 h2 h3 h4 h5 h6 header hgroup hr legend li listing main marquee menu nav optgroup"
    " option ol p plaintext pre search section select summary table tbody td textarea tfoot th thead tr ul xmp body"
    " html head title noframes",
    void="area base basefont bgsound br col embed frame hr image img input keygen link meta param source track wbr",
    raw="iframe noembed noframes script style",
    characters="plaintext textarea title xmp",
    formatting="a b big code em font i nobr s small strike strong tt u",
    special="address applet area article aside base basefont bgsound blockquote body br button caption center col"
    " colgroup dd details dir div dl dt embed fieldset figcaption figure footer form frame frameset h1 h2 h3 h4 h5 h6"
    " head header hgroup hr html iframe img input keygen li link listing main marquee menu meta nav noembed noframes"
    " noscript object ol p param plaintext pre script search section select source style summary table tbody td"
    " template textarea tfoot th thead title tr track ul wbr xmp",
    scope="applet caption html marquee object table td template th",
    closes_p="address article aside blockquote center dd details dialog dir div dl dt fieldset figcaption figure"
    " footer form h1 h2 h3 h4 h5 h6 header hgroup hr li listing main menu nav ol p plaintext pre search section"
    " summary table ul xmp",
    implied_end="dd dt li optgroup option p rb rp rt rtc",
    breaks_out="b big blockquote body br center code dd div dl dt em embed h1 h2 h3 h4 h5 h6 head hr i img li listing"
    " menu meta nobr ol p pre ruby s small span strike strong sub sup table tt u ul var",
    table_part="table tbody tfoot thead tr",
    silent="rp rt rtc template",
    marker="applet caption marquee object td template th",
    ended_by_name="address applet article aside blockquote button center dd details dialog dir div dl dt fieldset"
    " figcaption figure footer header hgroup li listing main marquee menu nav object ol pre search section summary"
    " caption table tbody td tfoot th thead tr ul",
)
_OTHERS = (
    "abbr acronym audio bdi bdo blink canvas cite colgroup data datalist del dfn ins kbd label map mark math meter"
    " noscript object output picture progress q rb ruby samp slot span sub sup svg time var video"
    " annotation annotation-xml desc foreignobject mi mn mo ms mtext"
)
_MATHML = (
    "maction menclose merror mfenced mfrac mlabeledtr mmultiscripts mover mpadded mphantom mprescripts mroot mrow"
    " mspace msqrt mstyle msub msubsup msup mtable mtd mtr munder munderover none semantics"
)
"""Elements that only the notation of formulas needs: their names are words of the page, like those without a number."""
_HTML = sorted({name for kind in (*_KINDS, _OTHERS) for name in kind.split()})
FIRST_MATHML = len(_HTML) + 1
NAMES = ("", *_HTML, *_MATHML.split())
"""The names of elements that have a number, which is their index here. 0 is every other name."""
NUMBER = {name: number for number, name in enumerate(NAMES)}


def numbers(names: str) -> tuple[int, ...]:
    """Returns the numbers of the elements ``names``, which spaces separate."""
    return tuple(NUMBER[name] for name in names.split())


RULES: NDArray[np.int64] = np.array(
    [sum(rule for rule, kind in zip(RULE, _KINDS, strict=True) if name in kind.split()) for name in NAMES], np.int64
)
"""The rules of each element, by its number."""
MATH_TEXT = numbers("mi mn mo ms mtext")
"""MathML elements in which HTML stands (text integration points)."""

HASHES, NUMBERS = hash_table({name.encode(): number for number, name in enumerate(NAMES) if name}, 1024)
"""Numbers of elements by the hash of their name in lower case."""


# Keywords in the classes and ids of elements: words that sites use alike, also inside longer ones.
PURPOSES = {
    "comment": "comment reply respond discuss disqus thread",
    "share": "share sharing social follow twitter facebook linkedin whatsapp",
    "navigation": "nav menu crumb pager pagination",
    "foot": "foot copyright legal",
    "side": "sidebar aside widget rail",
    "related": "relat recommend similar suggest trending popular latest readmore",
    "advertisement": "advert sponsor promo banner adslot",
    "consent": "cookie consent gdpr privacy modal popup overlay newsletter subscri signup",
    "price": "price cart basket buy shipping delivery offer",
    "review": "review rating testimonial",
    "description": "desc detail spec feature overview about summary bullet",
    "title": "title headline heading",
    "about": "author byline date time meta publish posted",
    "content": "content main article story entry",
    "body": "body text copy prose rich markdown wysiwyg",
    "post": "post blog message topic",
    "list": "list item grid card tile teaser result",
    "form": "form search login input filter sort button btn",
    "label": "tag categor label badge",
    "picture": "image img photo galler video caption slider carousel figure",
    "user": "user profile avatar member signature",
    "product": "product",
    "question": "question answer faq accordion",
    "hidden": "hidden collaps sronly visually screenreader toggle tooltip",
    "head": "header masthead topbar hero logo",
    "code": "code highlight docs",
}
"""Class → the beginnings, middles or ends of words that name it."""
LETTERS = 26


def _automaton() -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Returns the states that follow each state and letter, and the classes, as bits, that end in each state."""
    classes: dict[str, int] = {}
    for bit, words in enumerate(PURPOSES.values()):
        for word in words.split():
            classes[word] = classes.get(word, 0) | 1 << bit
    beginnings = {word[:size] for word in classes for size in range(len(word) + 1)}
    states = {state: number for number, state in enumerate(sorted(beginnings, key=lambda state: (len(state), state)))}
    follow, ends = np.zeros((len(states), LETTERS), np.int32), np.zeros(len(states), np.int32)
    for state, number in states.items():
        shorter = next((states[state[cut:]] for cut in range(1, len(state)) if state[cut:] in states), 0)
        follow[number], ends[number] = follow[shorter], ends[shorter] | classes.get(state, 0)
        for letter in range(LETTERS):
            follow[number, letter] = states.get(f"{state}{chr(97 + letter)}", follow[number, letter])
    return follow, ends


FOLLOW, FOUND = _automaton()


# Character references.
LONGEST_REFERENCE = max(map(len, html5))
"""Characters of the longest name, with its semicolon."""
VALUE_BYTES = max(len(value.encode()) for value in html5.values())
WINDOWS_1252 = (
    0x20AC, 0, 0x201A, 0x0192, 0x201E, 0x2026, 0x2020, 0x2021, 0x02C6, 0x2030, 0x0160, 0x2039, 0x0152, 0, 0x017D, 0,
    0, 0x2018, 0x2019, 0x201C, 0x201D, 0x2022, 0x2013, 0x2014, 0x02DC, 0x2122, 0x0161, 0x203A, 0x0153, 0, 0x017E,
    0x0178,
)  # fmt: skip
"""Characters for the numbers 0x80 to 0x9F; 0 where the number stays."""
REFERENCE = re.compile("&(?:#[0-9Xx][0-9A-Fa-f]*;?|([0-9A-Za-z]+(?:;|(?![0-9A-Za-z=]))))")
"""A reference in an attribute: one without a semicolon is left alone before letters, digits and ``=``."""
LAST_POINT = 0x10FFFF
REPLACEMENT = 0xFFFD
_REFERENCES = sorted(html5)
_VALUES = [html5[name].encode() for name in _REFERENCES]
VALUES: NDArray[np.uint8] = np.array([list(value.ljust(VALUE_BYTES, b"\0")) for value in _VALUES], np.uint8)
SIZES: NDArray[np.int64] = np.array([len(value) for value in _VALUES])
REFERENCE_HASHES, REFERENCE_NUMBERS = hash_table({name.encode(): row for row, name in enumerate(_REFERENCES)}, 8192)
"""Rows of VALUES and SIZES by the hash of a name."""
REMAPPED: NDArray[np.int64] = np.array(WINDOWS_1252)


def attribute_text(value: str) -> str:
    """Returns what the ``value`` of an attribute says, with its references as characters."""
    return REFERENCE.sub(lambda match: html5.get(match[1], match[0]) if match[1] else unescape(match[0]), value)


@kernel_in_place
def reference(page: NDArray[np.uint8], at: int, text: NDArray[np.uint8], out: int) -> tuple[int, int]:
    """Reads the reference whose ``&`` is at ``at``, and writes its characters to ``text`` at ``out``.

    Returns the offset after it, and the number of bytes written; (at, 0) for an ampersand that begins no reference.
    Numbers of surrogates, of NUL and above the last code point are U+FFFD.
    """
    start = at + 1
    if start < page.size and page[start] == 0x23:  # #
        return _number(page, at, text, out)
    name, after, number = HASH_START, at, 0
    while start < page.size and start - at <= LONGEST_REFERENCE:
        byte = page[start]
        is_part = 0x30 <= byte <= 0x39 or 0x41 <= byte & 0xDF <= 0x5A
        if not is_part and byte != 0x3B:  # ;
            break
        name = (name ^ int64(byte)) * HASH_PRIME & HASH_MASK
        start += 1
        slot = name & (REFERENCE_HASHES.size - 1)
        while REFERENCE_HASHES[slot] != 0:
            if REFERENCE_HASHES[slot] == name:
                after, number = start, REFERENCE_NUMBERS[slot]
                break
            slot = (slot + 1) & (REFERENCE_HASHES.size - 1)
        if byte == 0x3B:
            break
    if after == at:
        return at, 0
    for index in range(SIZES[number]):
        text[out + index] = VALUES[number, index]
    return after, SIZES[number]


@kernel_in_place
def _number(page: NDArray[np.uint8], at: int, text: NDArray[np.uint8], out: int) -> tuple[int, int]:
    start = at + 2
    base = 10
    if start < page.size and page[start] | 0x20 == 0x78:  # x
        start, base = start + 1, 16
    first, point = start, 0
    while start < page.size:
        byte = int64(page[start])
        digit = byte - 0x30 if 0x30 <= byte <= 0x39 else 99
        if base == 16 and 0x61 <= byte | 0x20 <= 0x66:
            digit = (byte | 0x20) - 0x57
        if digit == 99:
            break
        point = min(point * base + digit, LAST_POINT + 1)
        start += 1
    if start == first:
        return at, 0
    if start < page.size and page[start] == 0x3B:
        start += 1
    if 0x80 <= point <= 0x9F and REMAPPED[point - 0x80]:
        point = REMAPPED[point - 0x80]
    if point == 0 or point > LAST_POINT or 0xD800 <= point <= 0xDFFF:
        point = REPLACEMENT
    return start, write_utf8(text, out, point)


@kernel_in_place
def write_utf8(text: NDArray[np.uint8], out: int, point: int) -> int:
    """Writes the code point ``point`` to ``text`` at ``out`` as UTF-8. Returns the number of bytes, 1 to 4."""
    if point < 0x80:
        text[out] = point
        return 1
    if point < 0x800:
        text[out] = 0xC0 | point >> 6
        text[out + 1] = 0x80 | point & 0x3F
        return 2
    if point < 0x10000:
        text[out] = 0xE0 | point >> 12
        text[out + 1] = 0x80 | point >> 6 & 0x3F
        text[out + 2] = 0x80 | point & 0x3F
        return 3
    text[out] = 0xF0 | point >> 18
    text[out + 1] = 0x80 | point >> 12 & 0x3F
    text[out + 2] = 0x80 | point >> 6 & 0x3F
    text[out + 3] = 0x80 | point & 0x3F
    return 4

"""Character references: "&eacute;", "&#233;" and "&#xE9;" as UTF-8.

Source: WHATWG HTML, sections 13.2.5.72 to 13.2.5.80 (the tokenizer) and 13.5 (the names, as Python's ``html.entities``
has them).
"""

from html.entities import html5

import numpy as np
from numpy.typing import NDArray

from headrace.data_prep.extraction.parsing.hashes import HASH_MASK, HASH_PRIME, HASH_START, hash_table
from headrace.data_prep.kernel import int64, kernel_in_place

SLOTS = 8192
LONGEST = max(map(len, html5))
"""Characters of the longest name, with its semicolon."""
VALUE_BYTES = max(len(value.encode()) for value in html5.values())
WINDOWS_1252 = (
    0x20AC, 0, 0x201A, 0x0192, 0x201E, 0x2026, 0x2020, 0x2021, 0x02C6, 0x2030, 0x0160, 0x2039, 0x0152, 0, 0x017D, 0,
    0, 0x2018, 0x2019, 0x201C, 0x201D, 0x2022, 0x2013, 0x2014, 0x02DC, 0x2122, 0x0161, 0x203A, 0x0153, 0, 0x017E,
    0x0178,
)  # fmt: skip
"""Characters for the numbers 0x80 to 0x9F; 0 where the number stays."""
MOST = 0x10FFFF
"""The last code point."""
REPLACEMENT = 0xFFFD


_NAMES = sorted(html5)
_VALUES = [html5[name].encode() for name in _NAMES]
VALUES: NDArray[np.uint8] = np.array([list(value.ljust(VALUE_BYTES, b"\0")) for value in _VALUES], np.uint8)
SIZES: NDArray[np.int64] = np.array([len(value) for value in _VALUES])
HASHES, NUMBERS = hash_table({name.encode(): number for number, name in enumerate(_NAMES)}, SLOTS)
"""Rows of VALUES and SIZES by the hash of a name."""
REMAPPED: NDArray[np.int64] = np.array(WINDOWS_1252)


@kernel_in_place
def reference(page: NDArray[np.uint8], at: int, text: NDArray[np.uint8], out: int) -> tuple[int, int]:
    """Reads the reference whose ``&`` is at ``at``, and writes its characters to ``text`` at ``out``.

    Returns the offset after it, and the number of bytes written.

    Returns (at, 0) for an ampersand that begins no reference. Numbers of surrogates, of NUL and above the last code
    point are U+FFFD.
    """
    start = at + 1
    if start < page.size and page[start] == 0x23:  # #
        return _number(page, at, text, out)
    name, after, number = HASH_START, at, 0
    while start < page.size and start - at <= LONGEST:
        byte = page[start]
        is_letter = 0x30 <= byte <= 0x39 or 0x41 <= byte & 0xDF <= 0x5A
        if not is_letter and byte != 0x3B:  # ;
            break
        name = (name ^ int64(byte)) * HASH_PRIME & HASH_MASK
        start += 1
        slot = name & (HASHES.size - 1)
        while HASHES[slot] != 0:
            if HASHES[slot] == name:
                after, number = start, NUMBERS[slot]
                break
            slot = (slot + 1) & (HASHES.size - 1)
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
        point = min(point * base + digit, MOST + 1)
        start += 1
    if start == first:
        return at, 0
    if start < page.size and page[start] == 0x3B:
        start += 1
    if 0x80 <= point <= 0x9F and REMAPPED[point - 0x80]:
        point = REMAPPED[point - 0x80]
    if point == 0 or point > MOST or 0xD800 <= point <= 0xDFFF:
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

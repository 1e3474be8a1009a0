"""Statistics of blocks of text, and of what surrounds them.

"Flour, stone-ground: 3 €." ── text_statistics ──> 21 characters, 4 units, 1 comma, 1 digit, 1 sentence, …

What a block shares with its page's title, description or linked data are pairs of words. A word is a run of letters
and digits of ASCII and of two-byte characters in small letters; of others each character.

    description "An old mill, for sale."  ── pair_set ───> hashes of (an, old), (old, mill), …
    block "For sale: an old mill"         ── matched ────> 3 of its 4 pairs of words

The surroundings are sums over the elements that enclose a block, distances to landmarks, and elements like them.

    nav > ul > li      distances: li 0, ul 1, nav 2; sums of ul: 7 blocks, 7 of 7 words in links; 6 siblings like the li
"""

from collections import namedtuple

import numpy as np
from numpy.typing import NDArray

from headrace.data_prep.extraction.markup import HASH_MASK, HASH_PRIME, HASH_START, NUMBER, PURPOSES, numbers
from headrace.data_prep.extraction.scan import FLAG, TOKEN_ELEMENT, TOKEN_HASH, B, E, R, Scan
from headrace.data_prep.kernel import int64, kernel, kernel_in_place


def pair_set(summaries: tuple[str, str, str]) -> NDArray[np.int64]:
    """Returns the pairs of words of the texts as a hash set: (slots, 2), a pair, and the texts that have it, as bits; 0
    where it is free. The number of slots is a power of two."""
    texts = [text.encode("utf-8", "replace") for text in summaries]
    return _set_of(np.frombuffer(b"".join(texts), np.uint8), np.cumsum(list(map(len, texts))))


@kernel
def _set_of(text: NDArray[np.uint8], ends: NDArray[np.int64]) -> NDArray[np.int64]:
    slots = int64(2)
    while slots <= text.size:
        slots *= 2
    pairs, at = np.zeros((slots, 2), np.int64), int64(0)
    for number in range(ends.size):
        before = int64(0)
        while at < ends[number]:
            at, word = next_word(text, at, ends[number])
            if word and before:
                pair = pair_of(before, word)
                slot = slot_of(pairs, pair)
                pairs[slot, 0] = pair
                pairs[slot, 1] |= 1 << number
            before = word if word else before
    return pairs


@kernel_in_place
def pair_of(before: int, word: int) -> int:
    """Returns the hash of two words, never 0."""
    return ((before ^ word * 3) * HASH_PRIME & HASH_MASK) | 1


SMALL = np.arange(0x100)
"""The bytes of words in small letters; 0 for those between words, and for those of characters that are words."""
SMALL[0x41:0x5B] += 0x20
SMALL[[*range(0x30), *range(0x3A, 0x41), *range(0x5B, 0x61), *range(0x7B, 0x80), *range(0xE0, 0x100)]] = 0


@kernel_in_place
def next_word(text: NDArray[np.uint8], at: int, end: int) -> tuple[int, int]:
    """Returns the offset after the word that begins at or after ``at``, and its hash; 0 if there is none."""
    while at < end and SMALL[text[at]] == 0 and text[at] < 0xE0:
        at += 1
    if at >= end:
        return at, int64(0)
    word = int64(HASH_START)
    if text[at] >= 0xE0:
        end = min(at + (3 if text[at] < 0xF0 else 4), end)
        for index in range(at, end):
            word = (word ^ int64(text[index])) * HASH_PRIME & HASH_MASK
        return end, word
    while at < end and SMALL[text[at]] != 0:
        word = (word ^ SMALL[text[at]]) * HASH_PRIME & HASH_MASK
        at += 1
    return at, word


@kernel_in_place
def slot_of(pairs: NDArray[np.int64], pair: int) -> int:
    """Returns the slot of ``pair`` in a hash set, or the free one where it would stand."""
    slot = pair & (pairs.shape[0] - 1)
    while pairs[slot, 0] != 0 and pairs[slot, 0] != pair:
        slot = (slot + 1) & (pairs.shape[0] - 1)
    return int64(slot)


Counts = namedtuple(
    "Counts",
    "characters units linked sentences commas digits capitals blocks symbols lines pairs in_title in_description"
    " in_data",
)
C = Counts(*range(14))
"""Columns of statistics: of a block, and sums over the blocks of an element. ``units`` are words between spaces, and
one for two characters of scripts without spaces; ``linked`` are characters in links, ``pairs`` pairs of words."""
SENTENCE_MARKS = (0x3002, 0xFF01, 0xFF1F, 0x0964, 0x06D4, 0x0589, 0x061F)
"""Marks that end a sentence wherever they stand."""
LAST_MARKS = (*SENTENCE_MARKS, 0x2E, 0x21, 0x3F, 0x2026, 0x22, 0x201D, 0x300D)
"""Last characters of a text that ends with a sentence."""
COLONS = (0x3A, 0xFF1A)
COMMA_MARKS = (0x2C, 0x3B, 0xFF0C, 0x3001, 0x060C)
LIST_SYMBOLS = (0x7C, 0xBB, 0xAB, 0xB7, 0x2022, 0x203A, 0x2039, 0x2192, 0x3E, 0xA9, 0x25B8, 0xD7)
"""Symbols of menus and footers: | » « · • › ‹ → > © ▸ ×."""
NO_END, SENTENCE_END, COLON_END = range(3)
KINDS: NDArray[np.int64] = np.zeros(0x80, np.int64)
"""The kinds of ASCII characters, as bits: digit, capital, comma, list symbol, mark that ends a sentence at a space."""
for _bit, _characters in enumerate(
    (range(0x30, 0x3A), range(0x41, 0x5B), COMMA_MARKS, LIST_SYMBOLS, (0x2E, 0x21, 0x3F))
):
    KINDS[[_one for _one in _characters if _one < 0x80]] |= 1 << _bit


@kernel_in_place
def text_statistics(text: NDArray[np.uint8], start: int, end: int, row: NDArray[np.int64]) -> tuple[int, int]:
    """Adds to ``row`` the statistics of the text from ``start`` to ``end``, without links and pairs.

    Returns how it ends, NO_END, SENTENCE_END or COLON_END, and its hash.
    """
    in_word, last, at, value = False, int64(0), int64(start), int64(HASH_START)
    characters = words = wide = digits = capitals = commas = symbols = sentences = lines = int64(0)
    while at < end:
        byte = int64(text[at])
        value = (value ^ byte) * HASH_PRIME & HASH_MASK
        at += 1
        if byte <= 0x20:
            lines += byte == 0x0A
            in_word = False
            continue
        words += not in_word
        in_word = True
        characters += 1
        last = byte
        if byte < 0x80:
            kind = KINDS[byte]
            digits += kind & 1
            capitals += kind >> 1 & 1
            commas += kind >> 2 & 1
            symbols += kind >> 3 & 1
            sentences += kind >> 4 & (at >= end or text[at] <= 0x22)
            continue
        last, size = _point(text, at - 1)
        value = (value ^ last) * HASH_PRIME & HASH_MASK
        at += size - 1
        wide += 0x2E80 <= last < 0xD7B0 or 0x0E00 <= last < 0x0F00 or 0x1000 <= last < 0x10A0 or last >= 0x20000
        capitals += 0xC0 <= last <= 0xDE or 0x0410 <= last <= 0x042F or 0x0391 <= last <= 0x03A9
        commas += last in COMMA_MARKS
        symbols += last in LIST_SYMBOLS
        sentences += last in SENTENCE_MARKS
    row[C.characters] += characters
    row[C.units] += words + wide // 2
    row[C.digits] += digits
    row[C.capitals] += capitals
    row[C.commas] += commas
    row[C.symbols] += symbols
    row[C.sentences] += sentences
    row[C.lines] += lines
    row[C.blocks] += 1
    return SENTENCE_END if last in LAST_MARKS else COLON_END if last in COLONS else NO_END, value


@kernel_in_place
def _point(text: NDArray[np.uint8], at: int) -> tuple[int, int]:
    """Returns the code point at ``at``, which is beyond ASCII, and its bytes."""
    byte = int64(text[at])
    size = 2 if byte < 0xE0 else 3 if byte < 0xF0 else 4
    if at + size > text.size:
        return byte, 1
    point = byte & (0x7F >> size)
    for index in range(1, size):
        point = point << 6 | int64(text[at + index]) & 0x3F
    return point, size


@kernel_in_place
def count_pairs(
    text: NDArray[np.uint8], start: int, end: int, pairs: NDArray[np.int64], row: NDArray[np.int64]
) -> None:
    """Adds to ``row`` the pairs of words of a text, and those that the page says of itself (``pair_set``)."""
    before, at = int64(0), int64(start)
    while at < end:
        at, word = next_word(text, at, end)
        if word and before:
            pair = pair_of(before, word)
            row[C.pairs] += 1
            texts = pairs[slot_of(pairs, pair), 1]
            row[C.in_title] += texts & 1
            row[C.in_description] += texts >> 1 & 1
            row[C.in_data] += texts >> 2
        before = word if word else before


ELEMENT_LANDMARKS = (
    "nav", "header", "footer", "aside", "main", "article", "section", "form", "ul", "table", "figure", "blockquote",
    "dialog", "button", "li", "p", "td", "dl",
)  # fmt: skip
SAME_LANDMARK = {
    "ol": "ul", "figcaption": "figure", "select": "button", "option": "button", "textarea": "button", "label": "button",
    "th": "td",
}  # fmt: skip
LANDMARKS = (*ELEMENT_LANDMARKS, "hidden", *(f"class {name}" for name in PURPOSES))
"""The landmarks of distances: an element, one that is hidden, one whose class or id names its purpose."""
HIDDEN_LANDMARK = len(ELEMENT_LANDMARKS)
LANDMARK_OF = np.full(len(NUMBER), -1, np.int64)
for _index, _number in enumerate(numbers(" ".join(ELEMENT_LANDMARKS))):
    LANDMARK_OF[_number] = _index
for _name, _same in SAME_LANDMARK.items():
    LANDMARK_OF[NUMBER[_name]] = LANDMARK_OF[NUMBER[_same]]
FAR = 99
"""The distance to a landmark that does not enclose the block."""
KEYWORDS = len(PURPOSES)
PATH_LEVELS = 8
"""Elements that count for a path."""


@kernel_in_place
def share(part: int, whole: int) -> int:
    """Returns ``part`` in thousandths of ``whole``."""
    return part * 1000 // whole if whole > 0 else 0


@kernel
def element_sums(scan: Scan, order: NDArray[np.int64], rows: NDArray[np.int64]) -> NDArray[np.int64]:
    """Returns the sums of the statistics ``rows`` of the blocks in each element: (elements, counts)."""
    sums = np.zeros((scan.registers[R.elements], len(C)), np.int64)
    for index in range(order.size):
        add(sums, scan.records[order[index], B.element], rows, index)
    for element in range(scan.registers[R.elements] - 1, 0, -1):
        if sums[element, C.blocks]:
            add(sums, scan.records[element, E.parent], sums, element)
    return sums


@kernel
def element_scores(scan: Scan, hashes: NDArray[np.int32], scores: NDArray[np.int8]) -> NDArray[np.int64]:
    """Returns the sum of the lexicon's scores of the tokens of each element. ``hashes`` is a table of hashes."""
    totals = np.zeros(scan.registers[R.elements], np.int64)
    for token in range(scan.registers[R.tokens]):
        element, value = scan.tokens[token, TOKEN_ELEMENT], scan.tokens[token, TOKEN_HASH]
        slot = value & (hashes.size - 1)
        while hashes[slot] != 0 and hashes[slot] != value:
            slot = (slot + 1) & (hashes.size - 1)
        if hashes[slot] != 0 and element < totals.size:
            totals[element] += scores[slot]
    return totals


@kernel
def landmark_distances(scan: Scan) -> NDArray[np.uint8]:
    """Returns how far each element is inside the nearest landmark of each kind: (elements, landmarks). FAR: not inside
    one."""
    kinds = HIDDEN_LANDMARK + 1 + KEYWORDS
    distances = np.full((scan.registers[R.elements], kinds), FAR, np.uint8)
    for element in range(1, scan.registers[R.elements]):
        parent = scan.records[element, E.parent]
        for kind in range(kinds):
            distances[element, kind] = min(distances[parent, kind] + 1, FAR)
        landmark = LANDMARK_OF[scan.records[element, E.name]]
        if landmark >= 0:
            distances[element, landmark] = 0
        if scan.records[element, E.flags] & (FLAG.hidden | FLAG.aria_hidden | FLAG.not_displayed):
            distances[element, HIDDEN_LANDMARK] = 0
        classes = scan.records[element, E.purposes]
        if classes:
            for kind in range(KEYWORDS):
                if classes >> kind & 1:
                    distances[element, HIDDEN_LANDMARK + 1 + kind] = 0
    return distances


@kernel
def depths(scan: Scan) -> NDArray[np.int64]:
    """Returns the number of elements around each element."""
    depth = np.zeros(scan.registers[R.elements], np.int64)
    for element in range(1, depth.size):
        depth[element] = depth[scan.records[element, E.parent]] + 1
    return depth


@kernel
def first_tokens(scan: Scan) -> NDArray[np.int64]:
    """Returns the hash of the first token of each element; 0 if it has none."""
    first = np.zeros(scan.registers[R.elements], np.int64)
    for token in range(scan.registers[R.tokens]):
        element = scan.tokens[token, TOKEN_ELEMENT]
        if element < first.size and first[element] == 0:
            first[element] = scan.tokens[token, TOKEN_HASH]
    return first


@kernel
def path_hashes(scan: Scan, order: NDArray[np.int64], tokens: NDArray[np.int64]) -> NDArray[np.int64]:
    """Returns two hashes of the path of each block: (blocks, 2), of names of elements, and of their first ``tokens``,
    too."""
    paths = np.empty((order.size, 2), np.int64)
    for index in range(order.size):
        element = int64(scan.records[order[index], B.element])
        by_name = by_token = int64(HASH_START)
        for _ in range(PATH_LEVELS):
            if element <= 0:
                break
            name = int64(scan.records[element, E.name])
            by_name = (by_name ^ name) * HASH_PRIME & HASH_MASK
            by_token = ((by_token ^ name) * HASH_PRIME ^ tokens[element]) * HASH_PRIME & HASH_MASK
            element = int64(scan.records[element, E.parent])
        paths[index, 0], paths[index, 1] = by_name, by_token
    return paths


@kernel
def groups_of(keys: NDArray[np.int64]) -> NDArray[np.int64]:
    """Returns the group of each of ``keys``: equal keys are in one, and groups are numbered as they appear."""
    slots = int64(1)
    while slots < 2 * keys.size:
        slots *= 2
    first, groups = np.full(slots, -1, np.int64), np.empty(keys.size, np.int64)
    count = 0
    for index in range(keys.size):
        slot = keys[index] & (slots - 1)
        while first[slot] >= 0 and keys[first[slot]] != keys[index]:
            slot = (slot + 1) & (slots - 1)
        if first[slot] < 0:
            first[slot], groups[index] = index, count
            count += 1
        else:
            groups[index] = groups[first[slot]]
    return groups


@kernel
def group_sums(groups: NDArray[np.int64], rows: NDArray[np.int64]) -> NDArray[np.int64]:
    """Returns the sums of ``rows`` over each of ``groups``: (groups, columns)."""
    sums = np.zeros((groups.max() + 1 if groups.size else 0, rows.shape[1]), np.int64)
    for index in range(groups.size):
        add(sums, groups[index], rows, index)
    return sums


@kernel_in_place
def add(sums: NDArray[np.int64], to: int, rows: NDArray[np.int64], index: int) -> None:
    """Adds a row of ``rows`` to one of ``sums``."""
    for column in range(rows.shape[1]):
        sums[to, column] += rows[index, column]


@kernel
def earlier(groups: NDArray[np.int64]) -> NDArray[np.int64]:
    """Returns for each row how many rows before it are in its group."""
    numbers, counts = np.empty(groups.size, np.int64), np.zeros(groups.size, np.int64)
    for index in range(groups.size):
        numbers[index] = counts[groups[index]]
        counts[groups[index]] += 1
    return numbers


@kernel
def siblings(scan: Scan, tokens: NDArray[np.int64], sums: NDArray[np.int64]) -> NDArray[np.int64]:
    """Returns how many siblings with text have the name and the first token of each element, with it, and their
    characters: (elements, 2)."""
    keys, rows = np.empty(sums.shape[0], np.int64), np.empty((sums.shape[0], 2), np.int64)
    for element in range(sums.shape[0]):
        key = (int64(HASH_START) ^ int64(scan.records[element, E.parent])) * HASH_PRIME & HASH_MASK
        key = (key ^ int64(scan.records[element, E.name])) * HASH_PRIME & HASH_MASK
        keys[element] = (key ^ tokens[element]) * HASH_PRIME & HASH_MASK
        rows[element, 0], rows[element, 1] = sums[element, C.blocks] > 0, sums[element, C.characters]
    groups = groups_of(keys)
    return group_sums(groups, rows)[groups]

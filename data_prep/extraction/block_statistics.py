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
from headrace.data_prep.extraction.scan import FLAG, TOKEN_ELEMENT, TOKEN_HASH, E, R, Scan
from headrace.data_prep.kernel import int64, kernel, kernel_in_place


def pair_set(summaries: tuple[str, str, str]) -> NDArray[np.int64]:
    """Returns the pairs of words of the texts as a hash set: (slots, 2), a pair, and the texts that have it, as bits; 0
    where it is free. The number of slots is a power of two."""
    texts = [text.encode("utf-8", "replace") for text in summaries]
    return _set_of(np.frombuffer(b"".join(texts), np.uint8), np.cumsum(list(map(len, texts))))


@kernel
def _set_of(text: NDArray[np.uint8], ends: NDArray[np.int64]) -> NDArray[np.int64]:
    words, ignored, slots = np.empty(text.size // 2 + 2, np.int64), np.zeros(len(C), np.int64), int64(2)
    while slots <= text.size // 2:  # a word and what ends it have two bytes at least
        slots *= 2
    pairs = np.zeros((slots, 2), np.int64)
    for number in range(ends.size):
        _, _, count = read_text(text, ends[number - 1] if number else 0, ends[number], words, ignored)
        for index in range(1, count):
            pair = _pair(words, index)
            slot = _slot_of(pairs, pair)
            pairs[slot, 0] = pair
            pairs[slot, 1] |= 1 << number
    return pairs


@kernel_in_place
def count_pairs(words: NDArray[np.int64], count: int, pairs: NDArray[np.int64], row: NDArray[np.int64]) -> None:
    """Writes to ``row`` the pairs of ``words``, and those that the page says of itself (``pair_set``)."""
    title = description = data = int64(0)
    for index in range(1, count):
        texts = pairs[_slot_of(pairs, _pair(words, index)), 1]
        title, description, data = title + (texts & 1), description + (texts >> 1 & 1), data + (texts >> 2)
    row[C.pairs] = max(count - 1, 0)
    row[C.in_title], row[C.in_description], row[C.in_data] = title, description, data


@kernel_in_place
def _pair(words: NDArray[np.int64], index: int) -> int:
    """Returns the hash of a word and the one before it, never 0."""
    return int(((words[index - 1] ^ words[index] * 3) * HASH_PRIME & HASH_MASK) | 1)


SMALL = np.arange(0x80)
"""The ASCII characters of words in small letters; 0 for those between words."""
SMALL[0x41:0x5B] += 0x20
SMALL[[*range(0x30), *range(0x3A, 0x41), *range(0x5B, 0x61), *range(0x7B, 0x80)]] = 0


@kernel_in_place
def _slot_of(pairs: NDArray[np.int64], pair: int) -> int:
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
"""The kinds of ASCII characters, as bits: digit, capital, comma, symbol, end of a sentence at a space, line feed."""
for _bit, _characters in enumerate(
    (range(0x30, 0x3A), range(0x41, 0x5B), COMMA_MARKS, LIST_SYMBOLS, (0x2E, 0x21, 0x3F), (0x0A,))
):
    KINDS[[_one for _one in _characters if _one < 0x80]] |= 1 << _bit


@kernel_in_place
def read_text(
    text: NDArray[np.uint8], start: int, end: int, hashes: NDArray[np.int64], row: NDArray[np.int64]
) -> tuple[int, int, int]:
    """Writes to ``row`` the statistics of the text from ``start`` to ``end``, without links and pairs, and writes the
    ``hashes`` of its words.

    Returns how it ends, NO_END, SENTENCE_END or COLON_END, its hash, and the number of words. Nearly all of it is done
    without branches, because no processor foresees where a word ends.
    """
    in_word, last, at, value = int64(0), int64(0), int64(start), int64(HASH_START)
    characters = units = wide = digits = capitals = commas = symbols = sentences = lines = int64(0)
    count, word = int64(0), int64(HASH_START)
    while at < end:
        byte = int64(text[at])
        value = (value ^ byte) * HASH_PRIME & HASH_MASK
        at += 1
        if byte < 0x80:
            kind, is_text, small = KINDS[byte], int64(byte > 0x20), SMALL[byte]
            units += is_text & ~in_word
            in_word = is_text
            characters += is_text
            last = byte if is_text else last
            digits += kind & 1
            capitals += kind >> 1 & 1
            commas += kind >> 2 & 1
            symbols += kind >> 3 & 1
            lines += kind >> 5
            sentences += kind >> 4 & (at >= end or text[at] <= 0x22)
            hashes[count] = word
            count += int64(small == 0) & int64(word != HASH_START)
            word = (word ^ small) * HASH_PRIME & HASH_MASK if small else int64(HASH_START)
            continue
        last, size = _point(text, at - 1)
        value = (value ^ last) * HASH_PRIME & HASH_MASK
        units += 1 - in_word
        in_word = int64(1)
        characters += 1
        wide += 0x2E80 <= last < 0xD7B0 or 0x0E00 <= last < 0x0F00 or 0x1000 <= last < 0x10A0 or last >= 0x20000
        capitals += 0xC0 <= last <= 0xDE or 0x0410 <= last <= 0x042F or 0x0391 <= last <= 0x03A9
        commas += last in COMMA_MARKS
        symbols += last in LIST_SYMBOLS
        sentences += last in SENTENCE_MARKS
        if size > 2 and word != HASH_START:
            hashes[count], count, word = word, count + 1, int64(HASH_START)
        for index in range(at - 1, min(at - 1 + size, end)):
            word = (word ^ int64(text[index])) * HASH_PRIME & HASH_MASK
        if size > 2:
            hashes[count], count, word = word, count + 1, int64(HASH_START)
        at += size - 1
    if word != HASH_START:
        hashes[count], count = word, count + 1
    row[C.characters], row[C.units], row[C.digits], row[C.capitals] = characters, units + wide // 2, digits, capitals
    row[C.commas], row[C.symbols], row[C.sentences], row[C.lines] = commas, symbols, sentences, lines
    row[C.blocks] = 1
    return SENTENCE_END if last in LAST_MARKS else COLON_END if last in COLONS else NO_END, value, count


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
GROUPS = "div p li td th h1 h2 h3 h4 h5 h6 dt dd pre blockquote figcaption summary a span article section"
"""Elements that are distinguished, numbered from 1; 0 is every other element."""
GROUP_OF = np.zeros(len(NUMBER), np.int64)
for _index, _number in enumerate(numbers(GROUPS)):
    GROUP_OF[_number] = _index + 1
for _number in numbers("listing xmp"):
    GROUP_OF[_number] = GROUP_OF[NUMBER["pre"]]
READABLE_CHARACTERS = 25
"""The least characters of a block that counts for the reading score of the elements around it."""
LONG_UNITS = 15
"""Words of a block that is a paragraph, if it ends like a sentence."""
SUMMARY_PAIRS = 4
"""More pairs of words than this, most of them in the description or the linked data, make a block one of a summary."""
PATH_LEVELS = 8
"""Elements that count for a path."""


@kernel_in_place
def share(part: int, whole: int) -> int:
    """Returns ``part`` in thousandths of ``whole``."""
    return part * 1000 // whole if whole > 0 else 0


@kernel_in_place
def element_sums(scan: Scan, blocks: NDArray[np.int64], rows: NDArray[np.int64], sums: NDArray[np.int64]) -> None:
    """Adds the statistics ``rows`` of ``blocks``, which are their elements, to the ``sums`` of all elements around:
    (elements, counts)."""
    for index in range(blocks.size):
        add(sums, blocks[index], rows, index)
    for element in range(sums.shape[0] - 1, 0, -1):
        if sums[element, C.blocks]:
            add(sums, scan.records[element, E.parent], sums, element)


@kernel_in_place
def add(sums: NDArray[np.int64], to: int, rows: NDArray[np.int64], index: int) -> None:
    """Adds a row of ``rows`` to one of ``sums``."""
    for column in range(len(C)):
        sums[to, column] += rows[index, column]


@kernel_in_place
def read_tokens(
    scan: Scan, hashes: NDArray[np.int32], scores: NDArray[np.int8], lexicon: NDArray[np.int64],
    first: NDArray[np.int64],
) -> None:  # fmt: skip
    """Writes the sum of the lexicon's scores of the tokens of each element, and the hash of its first token.
    ``hashes`` is a table of hashes."""
    for token in range(scan.registers[R.tokens]):
        element, value = scan.tokens[token, TOKEN_ELEMENT], scan.tokens[token, TOKEN_HASH]
        if element >= first.size:
            continue
        first[element] = first[element] or value
        slot = value & (hashes.size - 1)
        while hashes[slot] != 0 and hashes[slot] != value:
            slot = (slot + 1) & (hashes.size - 1)
        if hashes[slot] != 0:
            lexicon[element] += scores[slot]


@kernel_in_place
def landmark_distances(
    table: NDArray[np.int16], scan: Scan, blocks: NDArray[np.int64], sums: NDArray[np.int64],
    distances: NDArray[np.uint8],
) -> None:  # fmt: skip
    """Writes how far each of ``blocks`` is inside the nearest landmark of each kind, and so ``distances``, of elements
    with text: (elements, landmarks). They are FAR before, which says not inside one."""
    for element in range(1, sums.shape[0]):
        if sums[element, C.blocks] == 0:
            continue
        parent = scan.records[element, E.parent]
        for kind in range(len(LANDMARKS)):
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
    for kind in range(len(LANDMARKS)):
        for index in range(blocks.size):
            table[kind, index] = distances[blocks[index], kind]


@kernel
def path_hashes(scan: Scan, blocks: NDArray[np.int64], tokens: NDArray[np.int64]) -> NDArray[np.int64]:
    """Returns two hashes of the path to each of ``blocks``, of names of elements, and of their first ``tokens``, too:
    (2, blocks)."""
    paths = np.empty((2, blocks.size), np.int64)
    for index in range(blocks.size):
        element, by_name, by_token = blocks[index], int64(HASH_START), int64(HASH_START)
        for _ in range(PATH_LEVELS):
            if element <= 0:
                break
            name = int64(scan.records[element, E.name])
            by_name = (by_name ^ name) * HASH_PRIME & HASH_MASK
            by_token = ((by_token ^ name) * HASH_PRIME ^ tokens[element]) * HASH_PRIME & HASH_MASK
            element = int64(scan.records[element, E.parent])
        paths[0, index], paths[1, index] = by_name, by_token
    return paths


@kernel
def first_equal(keys: NDArray[np.int64]) -> NDArray[np.int64]:
    """Returns the index of the first of ``keys`` that is equal to each of them."""
    slots = int64(1)
    while slots < 2 * keys.size:
        slots *= 2
    known, first = np.full(slots, -1, np.int32), np.empty(keys.size, np.int64)
    for index in range(keys.size):
        slot = keys[index] & (slots - 1)
        while known[slot] >= 0 and keys[known[slot]] != keys[index]:
            slot = (slot + 1) & (slots - 1)
        if known[slot] < 0:
            known[slot] = index
        first[index] = known[slot]
    return first


@kernel
def alike_siblings(scan: Scan, tokens: NDArray[np.int64], sums: NDArray[np.int64]) -> NDArray[np.int64]:
    """Returns how many siblings with text have the name and the first token of each element, with it, and their
    characters: (elements, 2)."""
    alike, read = np.zeros((sums.shape[0], 2), np.int64), np.empty(sums.shape[0], np.int64)
    keys, count = np.empty(sums.shape[0], np.int64), 0
    for element in range(sums.shape[0]):
        if sums[element, C.blocks]:
            key = (int64(HASH_START) ^ int64(scan.records[element, E.parent])) * HASH_PRIME & HASH_MASK
            key = (key ^ int64(scan.records[element, E.name])) * HASH_PRIME & HASH_MASK
            keys[count], read[count] = (key ^ tokens[element]) * HASH_PRIME & HASH_MASK, element
            count += 1
    first = first_equal(keys[:count])
    for index in range(count):
        alike[read[first[index]], 0] += 1
        alike[read[first[index]], 1] += sums[read[index], C.characters]
    for index in range(count):
        alike[read[index]] = alike[read[first[index]]]
    return alike


@kernel_in_place
def reading_scores(
    scan: Scan, blocks: NDArray[np.int64], rows: NDArray[np.int64], sums: NDArray[np.int64], scores: NDArray[np.int64]
) -> None:
    """Writes a score of each element: long texts with commas and sentences directly inside, few of them in links.

    Source: the idea of Arc90's Readability (2009), with sentences and integers.
    """
    for index in range(blocks.size):
        row = rows[index]
        if row[C.characters] < READABLE_CHARACTERS or row[C.linked] * 2 >= row[C.characters]:
            continue
        points = 10 + 10 * (row[C.commas] + row[C.sentences]) + min(row[C.characters], 300) // 10
        parent = scan.records[blocks[index], E.parent]
        if parent >= 0:
            scores[parent] += points
            if scan.records[parent, E.parent] >= 0:
                scores[scan.records[parent, E.parent]] += points // 2
    for element in range(scores.size):
        if scores[element]:
            linked = share(sums[element, C.linked], sums[element, C.characters])
            scores[element] = scores[element] * (1000 - linked) // 1000


@kernel_in_place
def around_best(scan: Scan, best: int, around: NDArray[np.int64], inside: NDArray[np.int64]) -> None:
    """Makes of the scores ``around`` the highest one around each element, but for that of the page, and writes how far
    each is ``inside`` the element ``best``, which is 1; 0 for those that are not."""
    around[0], inside[best] = 0, 1
    for element in range(1, inside.size):
        parent = scan.records[element, E.parent]
        around[element] = max(around[element], around[parent])
        if inside[parent] > 0:
            inside[element] = inside[parent] + 1


@kernel_in_place
def is_paragraph(row: NDArray[np.int64], end: int) -> bool:
    """Whether a block of the statistics ``row`` is a long text that ends like a sentence."""
    is_long = row[C.units] >= LONG_UNITS and row[C.characters] >= READABLE_CHARACTERS
    return is_long and row[C.linked] * 2 < row[C.characters] and end == SENTENCE_END


@kernel_in_place
def is_in_summaries(row: NDArray[np.int64]) -> bool:
    """Whether most of a text also stands in the description of its page, or in its linked data."""
    return bool(row[C.pairs] > SUMMARY_PAIRS and max(row[C.in_data], row[C.in_description]) * 2 > row[C.pairs])

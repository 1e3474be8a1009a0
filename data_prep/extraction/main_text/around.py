"""The surroundings of a block: sums over the elements that enclose it, distances to landmarks, and elements like them.

nav > ul > li      distances: li 0, ul 1, nav 2; sums of ul: 7 blocks, 7 of 7 words in links; 6 siblings like the li
"""

import numpy as np
from numpy.typing import NDArray

from headrace.data_prep.extraction.main_text.text_statistics import (
    CHARACTERS,
    COUNT,
    STATISTICS,
)
from headrace.data_prep.extraction.parsing.elements import NUMBER, numbers
from headrace.data_prep.extraction.parsing.hashes import HASH_MASK, HASH_PRIME, HASH_START
from headrace.data_prep.extraction.parsing.keywords import CLASSES
from headrace.data_prep.extraction.parsing.scan import (
    BLOCK,
    ELEMENT_CLASSES,
    ELEMENT_FLAGS,
    ELEMENT_NAME,
    ELEMENTS,
    PARENT,
    TOKEN_ELEMENT,
    TOKEN_HASH,
    TOKENS,
    Scan,
)
from headrace.data_prep.extraction.parsing.tag import ARIA_HIDDEN, HIDDEN, NOT_DISPLAYED
from headrace.data_prep.kernel import int64, kernel, kernel_in_place

ELEMENT_LANDMARKS = (
    "nav", "header", "footer", "aside", "main", "article", "section", "form", "ul", "table", "figure", "blockquote",
    "dialog", "button", "li", "p", "td", "dl",
)  # fmt: skip
SAME_LANDMARK = {
    "ol": "ul", "figcaption": "figure", "select": "button", "option": "button", "textarea": "button", "label": "button",
    "th": "td",
}  # fmt: skip
LANDMARKS = (*ELEMENT_LANDMARKS, "hidden", *(f"class {name}" for name in CLASSES))
"""The landmarks of distances: an element, one that is hidden, one whose class or id names its purpose."""
HIDDEN_LANDMARK = len(ELEMENT_LANDMARKS)
LANDMARK_OF = np.full(len(NUMBER), -1, np.int64)
for _index, _number in enumerate(numbers(" ".join(ELEMENT_LANDMARKS))):
    LANDMARK_OF[_number] = _index
for _name, _same in SAME_LANDMARK.items():
    LANDMARK_OF[NUMBER[_name]] = LANDMARK_OF[NUMBER[_same]]
FAR = 99
"""The distance to a landmark that does not enclose the block."""
KEYWORDS = len(CLASSES)
PATH_LEVELS = 8
"""Elements that count for a path."""


@kernel_in_place
def share(part: int, whole: int) -> int:
    """Returns ``part`` in thousandths of ``whole``."""
    return part * 1000 // whole if whole > 0 else 0


@kernel
def element_sums(scan: Scan, order: NDArray[np.int64], rows: NDArray[np.int64]) -> NDArray[np.int64]:
    """Returns the sums of the statistics ``rows`` of the blocks in each element: (elements, STATISTICS)."""
    sums = np.zeros((scan.registers[ELEMENTS], STATISTICS), np.int64)
    for index in range(order.size):
        add(sums, scan.records[order[index], BLOCK], rows, index)
    for element in range(scan.registers[ELEMENTS] - 1, 0, -1):
        if sums[element, COUNT]:
            add(sums, scan.records[element, PARENT], sums, element)
    return sums


@kernel
def element_scores(scan: Scan, hashes: NDArray[np.int32], scores: NDArray[np.int8]) -> NDArray[np.int64]:
    """Returns the sum of the lexicon's scores of the tokens of each element. ``hashes`` is a table of hashes."""
    totals = np.zeros(scan.registers[ELEMENTS], np.int64)
    for token in range(scan.registers[TOKENS]):
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
    distances = np.full((scan.registers[ELEMENTS], kinds), FAR, np.uint8)
    for element in range(1, scan.registers[ELEMENTS]):
        parent = scan.records[element, PARENT]
        for kind in range(kinds):
            distances[element, kind] = min(distances[parent, kind] + 1, FAR)
        landmark = LANDMARK_OF[scan.records[element, ELEMENT_NAME]]
        if landmark >= 0:
            distances[element, landmark] = 0
        if scan.records[element, ELEMENT_FLAGS] & (HIDDEN | ARIA_HIDDEN | NOT_DISPLAYED):
            distances[element, HIDDEN_LANDMARK] = 0
        classes = scan.records[element, ELEMENT_CLASSES]
        if classes:
            for kind in range(KEYWORDS):
                if classes >> kind & 1:
                    distances[element, HIDDEN_LANDMARK + 1 + kind] = 0
    return distances


@kernel
def depths(scan: Scan) -> NDArray[np.int64]:
    """Returns the number of elements around each element."""
    depth = np.zeros(scan.registers[ELEMENTS], np.int64)
    for element in range(1, depth.size):
        depth[element] = depth[scan.records[element, PARENT]] + 1
    return depth


@kernel
def first_tokens(scan: Scan) -> NDArray[np.int64]:
    """Returns the hash of the first token of each element; 0 if it has none."""
    first = np.zeros(scan.registers[ELEMENTS], np.int64)
    for token in range(scan.registers[TOKENS]):
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
        element = int64(scan.records[order[index], BLOCK])
        by_name = by_token = int64(HASH_START)
        for _ in range(PATH_LEVELS):
            if element <= 0:
                break
            name = int64(scan.records[element, ELEMENT_NAME])
            by_name = (by_name ^ name) * HASH_PRIME & HASH_MASK
            by_token = ((by_token ^ name) * HASH_PRIME ^ tokens[element]) * HASH_PRIME & HASH_MASK
            element = int64(scan.records[element, PARENT])
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
        key = (int64(HASH_START) ^ int64(scan.records[element, PARENT])) * HASH_PRIME & HASH_MASK
        key = (key ^ int64(scan.records[element, ELEMENT_NAME])) * HASH_PRIME & HASH_MASK
        keys[element] = (key ^ tokens[element]) * HASH_PRIME & HASH_MASK
        rows[element, 0], rows[element, 1] = sums[element, COUNT] > 0, sums[element, CHARACTERS]
    groups = groups_of(keys)
    return group_sums(groups, rows)[groups]

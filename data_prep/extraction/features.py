"""Integer features of the blocks of a page, from which a model decides which of them are its main text.

    Scan ── document_order ──> blocks ── features ──> (blocks, FEATURES) int32, whose columns places.py names

A block is described by itself, by its place, by what encloses it, by blocks with the same path, by its neighbors, by
the page, and by the page's best candidate for the main text. No feature depends on words of a language; those of
classes and ids count by a learned lexicon and by keywords.
"""

import numpy as np
from numpy.typing import NDArray

from headrace.data_prep.extraction.block_statistics import (
    C,
    count_pairs,
    depths,
    earlier,
    element_scores,
    element_sums,
    first_tokens,
    group_sums,
    groups_of,
    landmark_distances,
    path_hashes,
    share,
    siblings,
    text_statistics,
)
from headrace.data_prep.extraction.markup import NUMBER, numbers
from headrace.data_prep.extraction.places import (
    FEATURES,
    LANDMARK_COUNT,
    LEVEL_FEATURES,
    LEVELS,
    MOST,
    NEIGHBOR_FEATURES,
    REACHES,
    STEPS,
    candidate_features,
    page_features,
    places_of,
)
from headrace.data_prep.extraction.scan import B, E, Scan
from headrace.data_prep.kernel import int64, kernel, kernel_in_place

GROUPS = "div p li td th h1 h2 h3 h4 h5 h6 dt dd pre blockquote figcaption summary a span article section"
"""Elements that are distinguished, numbered from 1; 0 is every other element."""
GROUP_OF = np.zeros(len(NUMBER), np.int64)
for _index, _number in enumerate(numbers(GROUPS)):
    GROUP_OF[_number] = _index + 1
for _number in numbers("listing xmp"):
    GROUP_OF[_number] = GROUP_OF[NUMBER["pre"]]


@kernel
def features(
    scan: Scan, order: NDArray[np.int64], hashes: NDArray[np.int32], scores: NDArray[np.int8], kinds: int,
    pairs: NDArray[np.int64],
) -> NDArray[np.int16]:  # fmt: skip
    """Returns the features of the blocks ``order``: (blocks, FEATURES), -MOST to MOST, each feature's side by side.

    Args:
        scan: a page that was read.
        order: the numbers of its blocks, in the order of the document.
        hashes, scores: the lexicon.
        kinds: the kinds of the page (page_facts.py).
        pairs: the pairs of words in what the page says of itself (``pair_set``).
    """
    count = order.size
    rows, ends, texts = np.zeros((count, len(C)), np.int64), np.zeros(count, np.int64), np.zeros(count, np.int64)
    groups, blocks = np.zeros(count, np.int64), np.zeros(count, np.int64)
    for index in range(count):
        start, end = scan.records[order[index], B.start], scan.records[order[index], B.end]
        ends[index], texts[index] = text_statistics(scan.text, start, end, rows[index])
        rows[index, C.linked] = scan.records[order[index], B.link_characters]
        count_pairs(scan.text, start, end, pairs, rows[index])
        blocks[index] = scan.records[order[index], B.element]
        groups[index] = GROUP_OF[scan.records[blocks[index], E.name]]
    sums, lexicon, tokens = element_sums(scan, order, rows), element_scores(scan, hashes, scores), first_tokens(scan)
    distances, depth, alike = landmark_distances(scan), depths(scan), siblings(scan, tokens, sums)
    paths = path_hashes(scan, order, tokens)
    path_groups, class_groups, text_groups = groups_of(paths[:, 0]), groups_of(paths[:, 1]), groups_of(texts)
    by_path, by_class = group_sums(path_groups, rows), group_sums(class_groups, rows)
    same_text, same_before = group_sums(text_groups, rows), earlier(text_groups)
    places = places_of(scan, blocks, rows, sums[0])
    page = page_features(scan, blocks, rows, sums[0], by_path, kinds)
    candidates = candidate_features(scan, order, rows, ends, sums)
    table, row = np.empty((FEATURES, count), np.int16), np.empty(FEATURES, np.int64)
    for index in range(count):
        element = blocks[index]
        row[:] = 0
        at = _own(row, 0, rows[index], ends[index], groups[index])
        row[at] = depth[element]
        at = _copied(row, at + 1, places[index])
        for landmark in range(LANDMARK_COUNT):
            row[at + landmark] = distances[element, landmark]
        at += LANDMARK_COUNT
        at = _levels(scan, row, at, element, sums, lexicon, alike)
        at = _path(row, at, by_path[path_groups[index]], by_class[class_groups[index]], sums[0])
        row[at], row[at + 1] = same_text[text_groups[index], C.blocks], same_before[index]
        at += 2
        for step in STEPS:
            at = _neighbor(row, at, index + step, rows, ends, groups, scan, blocks, element)
        at = _windows(row, at, index, rows)
        at = _copied(row, at, page)
        at = _copied(row, at, candidates[index])
        for column in range(FEATURES):
            table[column, index] = min(max(row[column], -MOST), MOST)
    return table.T


@kernel_in_place
def _copied(row: NDArray[np.int64], at: int, values: NDArray[np.int64]) -> int:
    """Writes ``values`` from ``at`` on. Returns the column after them."""
    for index in range(values.size):
        row[at + index] = values[index]
    return at + values.size


@kernel_in_place
def _own(row: NDArray[np.int64], at: int, own: NDArray[np.int64], end: int, group: int) -> int:
    """Writes the features OWN from ``at`` on. Returns the column after them."""
    for column in (C.characters, C.units, C.linked, C.sentences, C.commas, C.symbols, C.lines):
        row[at] = own[column]
        at += 1
    for column in (C.linked, C.digits, C.capitals):
        row[at] = share(own[column], own[C.characters])
        at += 1
    row[at] = own[C.characters] * 10 // max(own[C.units], 1)
    row[at + 1] = own[C.units] // max(own[C.sentences], 1)
    row[at + 2] = share(own[C.commas], own[C.units])
    row[at + 3], row[at + 4] = end, group
    for column in (C.in_title, C.in_description, C.in_data):
        row[at + 5] = share(own[column], own[C.pairs])
        at += 1
    return at + 5


@kernel_in_place
def _levels(
    scan: Scan, row: NDArray[np.int64], at: int, element: int, sums: NDArray[np.int64], lexicon: NDArray[np.int64],
    alike: NDArray[np.int64],
) -> int:  # fmt: skip
    """Writes the features LEVEL of each enclosing element, and LEXICON. Returns the column after them."""
    own, characters, level = lexicon[element], sums[0, C.characters], int64(0)
    least = most = total = score = int64(0)
    while element >= 0 and level < LEVELS:
        score += lexicon[element]
        parent = scan.records[element, E.parent]
        if parent < 0 or sums[parent, C.blocks] > sums[element, C.blocks]:
            part = sums[element]
            row[at] = part[C.blocks]
            row[at + 1] = part[C.characters]
            row[at + 2] = share(part[C.linked], part[C.characters])
            row[at + 3] = part[C.units] // max(part[C.blocks], 1)
            row[at + 4] = part[C.sentences]
            row[at + 5] = share(part[C.characters], characters)
            row[at + 6] = score
            row[at + 7] = share(part[C.sentences], part[C.units])
            row[at + 8] = GROUP_OF[scan.records[element, E.name]]
            row[at + 9] = alike[element, 0]
            row[at + 10] = share(alike[element, 1], characters)
            row[at + 11] = share(part[C.in_description], part[C.pairs])
            row[at + 12] = share(part[C.in_data], part[C.pairs])
            least, most, total, score = min(least, score), max(most, score), total + score, int64(0)
            at += LEVEL_FEATURES
            level += 1
        element = parent
    while element >= 0:
        score = lexicon[element]
        least, most, total = min(least, score), max(most, score), total + score
        element = scan.records[element, E.parent]
    at += (LEVELS - level) * LEVEL_FEATURES
    for value in (own, least, most, total, level):
        row[at] = value
        at += 1
    return at


@kernel_in_place
def _path(
    row: NDArray[np.int64], at: int, by_path: NDArray[np.int64], by_class: NDArray[np.int64], total: NDArray[np.int64]
) -> int:
    """Writes the features PATH but for those of the same text. Returns the column after them."""
    for group in (by_path, by_class):
        row[at], row[at + 1] = group[C.blocks], group[C.units] // max(group[C.blocks], 1)
        row[at + 2] = share(group[C.linked], group[C.characters])
        row[at + 3] = share(group[C.characters], total[C.characters])
        at += 4
    row[at], row[at + 1] = share(by_path[C.sentences], by_path[C.units]), share(by_path[C.in_data], by_path[C.pairs])
    return at + 2


@kernel_in_place
def _neighbor(
    row: NDArray[np.int64], at: int, index: int, rows: NDArray[np.int64], ends: NDArray[np.int64],
    groups: NDArray[np.int64], scan: Scan, blocks: NDArray[np.int64], element: int,
) -> int:  # fmt: skip
    """Writes the features NEIGHBOR of the block ``index``, of which -1 says that there is none. Returns the column
    after them."""
    if 0 <= index < blocks.size:
        own = rows[index]
        row[at], row[at + 1] = own[C.units], share(own[C.linked], own[C.characters])
        row[at + 2], row[at + 3] = groups[index], ends[index]
        row[at + 4] = scan.records[blocks[index], E.parent] == scan.records[element, E.parent]
        row[at + 5], row[at + 6] = own[C.sentences], share(max(own[C.in_data], own[C.in_description]), own[C.pairs])
    else:
        row[at] = -1
    return at + NEIGHBOR_FEATURES


@kernel_in_place
def _windows(row: NDArray[np.int64], at: int, index: int, rows: NDArray[np.int64]) -> int:
    """Writes the sums over the REACHES before and after a block. Returns the column after them."""
    for reach in REACHES:
        for first, last in ((index - reach, index), (index + 1, index + reach + 1)):
            words = linked = characters = int64(0)
            for other in range(max(first, 0), min(last, rows.shape[0])):
                words += rows[other, C.units]
                linked += rows[other, C.linked]
                characters += rows[other, C.characters]
            row[at], row[at + 1] = words, share(linked, characters)
            at += 2
    return at

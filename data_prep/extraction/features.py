"""Integer features of the blocks of a page, from which a model decides which of them are its main text.

    Scan ── document_order ──> blocks ── features ──> (blocks, FEATURES) int16, whose columns FEATURE_NAMES names

A block is described by itself, by its place, by what encloses it, by blocks with the same path, by its neighbors, by
the page, and by the page's best candidate for the main text. No feature depends on words of a language; those of
classes and ids count by a learned lexicon and by keywords.

    paragraphs with commas and sentences ── reading_scores ──> the element that holds most of them ──> best
"""

from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

from headrace.data_prep.extraction.block_statistics import (
    FAR,
    GROUP_OF,
    LANDMARKS,
    C,
    add,
    alike_siblings,
    around_best,
    count_pairs,
    element_sums,
    first_equal,
    is_in_summaries,
    is_paragraph,
    landmark_distances,
    path_hashes,
    read_text,
    read_tokens,
    reading_scores,
    share,
)
from headrace.data_prep.extraction.markup import numbers
from headrace.data_prep.extraction.scan import B, E, R, Scan
from headrace.data_prep.kernel import int64, kernel, kernel_in_place

MOST = 30_000
"""The largest value of a feature."""
LEVELS = 6
"""Enclosing elements whose sums are features. An element with the same blocks as the one inside does not count."""
STEPS = (-1, 1, -2, 2)
"""Neighbors whose features a block has."""
REACHES = (4, 12)
"""Blocks on one side whose sums are features."""
OWN = (
    "characters", "words", "linked characters", "sentences", "commas", "list symbols", "line breaks", "share linked",
    "share digits", "share capitals", "characters a word ×10", "words a sentence", "commas a word", "last character",
    "element", "share in title", "share in description", "share in linked data",
)  # fmt: skip
PLACE = (
    "depth", "share of blocks before", "share of characters before", "blocks before", "blocks after",
    "characters before", "characters after", "characters since heading", "blocks since heading",
    "level of last heading", "characters since h1", "level of heading",
)  # fmt: skip
LEVEL = (
    "blocks", "characters", "share linked", "words a block", "sentences", "share of page", "lexicon",
    "sentences a word", "element", "alike siblings", "share of page of alike siblings", "share in description",
    "share in linked data",
)  # fmt: skip
LEXICON = ("lexicon", "least lexicon around", "most lexicon around", "lexicon around", "levels")
PATH = (
    *(f"{path}: {name}" for path in ("same path", "same path and class")
      for name in ("blocks", "words a block", "share linked", "share of page")),
    "same path: sentences a word", "same path: share in linked data", "same text: blocks", "same text: blocks before",
)  # fmt: skip
NEIGHBOR = ("words", "share linked", "element", "last character", "same parent", "sentences", "share in summaries")
PAGE = (
    "blocks", "words", "share linked", "sentences", "sentences a word", "words a block", "paragraphs",
    "words in paragraphs", "list items", "cells", "share of largest path", "articles", "mains", "headings",
    "pairs in title", "pairs in description", "pairs in linked data", "kind article", "kind product", "kind list",
    "kind discussion", "kind place",
)  # fmt: skip
CANDIDATE = (
    "reading score of parent", "reading score of its parent", "levels inside best", "share of page of best",
    "blocks since begin of best", "blocks to end of best", "blocks since first paragraph", "blocks to last paragraph",
    "best reading score around", "best reading score", "blocks between paragraphs", "blocks since block in summaries",
    "blocks to block in summaries",
)  # fmt: skip
_GROUPS = (
    OWN, PLACE, tuple(f"distance to {landmark}" for landmark in LANDMARKS),
    tuple(f"level {level}: {name}" for level in range(LEVELS) for name in LEVEL),
    LEXICON, PATH,
    tuple(f"neighbor {step:+d}: {name}" for step in STEPS for name in NEIGHBOR),
    tuple(f"{reach} blocks {side}: {name}" for reach in REACHES for side in ("before", "after") for name in
      ("words", "share linked")),
    tuple(f"page: {name}" for name in PAGE), CANDIDATE,
)  # fmt: skip
FEATURE_NAMES = tuple(name for group in _GROUPS for name in group)
FEATURES = len(FEATURE_NAMES)
AT_PLACE, AT_LANDMARK, AT_LEVEL, _, AT_PATH, AT_NEIGHBOR, AT_REACH, AT_PAGE, AT_CANDIDATE = accumulate(
    map(len, _GROUPS[:-1])
)
"""The first column of each group but OWN."""
UNITS_FEATURE, SENTENCES_FEATURE, LINKED_FEATURE, END_FEATURE, GROUP_FEATURE, DESCRIPTION_FEATURE, DATA_FEATURE = map(
    OWN.index,
    ("words", "sentences", "share linked", "last character", "element", "share in description", "share in linked data"),
)
FAR_AWAY = 1_000
"""The distance, in blocks, of a block that there is none of."""
H1, H6, P, LI, TD, ARTICLE, MAIN = numbers("h1 h6 p li td article main")


@kernel
def features(
    scan: Scan, order: NDArray[np.int64], hashes: NDArray[np.int32], scores: NDArray[np.int8], kinds: int,
    pairs: NDArray[np.int64],
) -> NDArray[np.int16]:  # fmt: skip
    """Returns the features of ``order``, -MOST to MOST, and empty rows up to the next multiple of 32: (rows, FEATURES).

    Args:
        scan, order: a page that was read, and the numbers of its blocks, in the order of the document.
        hashes, scores: the lexicon.
        kinds: the kinds of the page (page_facts.py).
        pairs: the pairs of words in what the page says of itself (``pair_set``).
    """
    count, elements = order.size, scan.registers[R.elements]
    rows, ends, texts = np.zeros((count, len(C)), np.int64), np.zeros(count, np.int64), np.zeros(count, np.int64)
    blocks, table = np.empty(count, np.int64), np.zeros((FEATURES, (count // 32 + 1) * 32), np.int16)
    words = np.empty(scan.registers[R.text] // 2 + 2, np.int64)
    for index in range(count):
        block = order[index]
        start, end = scan.records[block, B.start], scan.records[block, B.end]
        ends[index], texts[index], number = read_text(scan.text, start, end, words, rows[index])
        count_pairs(words, number, pairs, rows[index])
        rows[index, C.linked] = scan.records[block, B.link_characters]
        blocks[index] = scan.records[block, B.element]
    sums = np.zeros((elements, len(C)), np.int64)
    lexicon, tokens = np.zeros(elements, np.int64), np.zeros(elements, np.int64)
    element_sums(scan, blocks, rows, sums)
    read_tokens(scan, hashes, scores, lexicon, tokens)
    distances = np.full((elements, len(LANDMARKS)), FAR, np.uint8)
    landmark_distances(table[AT_LANDMARK:AT_LEVEL], scan, blocks, sums, distances)
    _own(table, scan, blocks, rows, ends)
    _places(table[AT_PLACE:AT_LANDMARK], scan, blocks, rows, sums)
    _levels(table[AT_LEVEL:AT_PATH], scan, blocks, sums, lexicon, alike_siblings(scan, tokens, sums))
    largest = _paths(table[AT_PATH:AT_NEIGHBOR], scan, blocks, rows, sums, tokens, texts)
    _neighbors(table, scan, blocks)
    _reaches(table[AT_REACH:AT_PAGE], rows)
    _page(table[AT_PAGE:AT_CANDIDATE], scan, blocks, rows, sums, largest, kinds)
    _candidate(table[AT_CANDIDATE:], scan, blocks, rows, ends, sums)
    return table.T


@kernel_in_place
def _fit(value: int) -> int:
    """Returns ``value`` within the bounds of features."""
    return min(max(value, -MOST), MOST)


@kernel_in_place
def _own(
    table: NDArray[np.int16], scan: Scan, blocks: NDArray[np.int64], rows: NDArray[np.int64], ends: NDArray[np.int64]
) -> None:
    """Writes the features OWN."""
    for index in range(blocks.size):
        own, at = rows[index], 0
        for column in (C.characters, C.units, C.linked, C.sentences, C.commas, C.symbols, C.lines):
            table[at, index] = _fit(own[column])
            at += 1
        for column in (C.linked, C.digits, C.capitals):
            table[at, index] = _fit(share(own[column], own[C.characters]))
            at += 1
        table[at, index] = _fit(own[C.characters] * 10 // max(own[C.units], 1))
        table[at + 1, index] = _fit(own[C.units] // max(own[C.sentences], 1))
        table[at + 2, index] = _fit(share(own[C.commas], own[C.units]))
        table[at + 3, index], table[at + 4, index] = ends[index], GROUP_OF[scan.records[blocks[index], E.name]]
        for column in (C.in_title, C.in_description, C.in_data):
            table[at + 5, index] = share(own[column], own[C.pairs])
            at += 1


@kernel_in_place
def _places(
    table: NDArray[np.int16], scan: Scan, blocks: NDArray[np.int64], rows: NDArray[np.int64], sums: NDArray[np.int64]
) -> None:
    """Writes the features PLACE."""
    count, whole = blocks.size, sums[0, C.characters]
    passed = since_heading = blocks_since = level = int64(0)
    since_h1 = int64(-1)
    for index in range(count):
        depth, element, own = int64(0), scan.records[blocks[index], E.parent], rows[index, C.characters]
        while element >= 0:
            depth, element = depth + 1, scan.records[element, E.parent]
        name = scan.records[blocks[index], E.name]
        own_level = name - H1 + 1 if H1 <= name <= H6 else 0
        if own_level > 0:
            level, since_heading, blocks_since = own_level, 0, 0
            if own_level == 1 and since_h1 < 0:
                since_h1 = 0
        table[0, index], table[1, index], table[2, index] = _fit(depth), share(index, count), share(passed, whole)
        table[3, index], table[4, index] = _fit(index), _fit(count - index)
        table[5, index], table[6, index] = _fit(passed), _fit(whole - passed)
        table[7, index], table[8, index], table[9, index] = _fit(since_heading), _fit(blocks_since), level
        table[10, index], table[11, index] = _fit(since_h1), own_level
        passed, since_heading, blocks_since = passed + own, since_heading + own, blocks_since + 1
        if since_h1 >= 0:
            since_h1 += own


@kernel
def _levels(
    table: NDArray[np.int16], scan: Scan, blocks: NDArray[np.int64], sums: NDArray[np.int64],
    lexicon: NDArray[np.int64], alike: NDArray[np.int64],
) -> None:  # fmt: skip
    """Writes the features LEVEL of each enclosing element, and LEXICON.

    A level is the outermost of the elements with the same blocks; the innermost of them stands for it.
    """
    whole, elements, known = sums[0, C.characters], sums.shape[0], 0
    level_of = np.zeros(elements, np.int64)
    rows, levels = np.empty((elements + 1, len(LEVEL)), np.int16), np.zeros((LEVELS, blocks.size), np.int64)
    lexicons, outer = np.empty(elements + 1, np.int64), np.empty(elements + 1, np.int64)
    rows[0] = 0
    for index in range(blocks.size):
        element, count = blocks[index], 0
        least = most = total = int64(0)
        while element >= 0 and count < LEVELS:
            number = level_of[element]
            if number == 0:
                known += 1
                level_of[element] = number = known
                lexicons[number], outer[number] = _level(rows[number], scan, element, sums, lexicon, alike, whole)
            element = outer[number]
            levels[count, index] = number
            least, most, total = min(least, lexicons[number]), max(most, lexicons[number]), total + lexicons[number]
            count += 1
        while element >= 0:
            least, most, total = min(least, lexicon[element]), max(most, lexicon[element]), total + lexicon[element]
            element = int64(scan.records[element, E.parent])
        at = LEVELS * len(LEVEL)
        table[at, index], table[at + 1, index] = _fit(lexicon[blocks[index]]), _fit(least)
        table[at + 2, index], table[at + 3, index], table[at + 4, index] = _fit(most), _fit(total), count
    for level in range(LEVELS):
        for column in range(len(LEVEL)):
            for index in range(blocks.size):
                table[level * len(LEVEL) + column, index] = rows[levels[level, index], column]


@kernel_in_place
def _level(
    row: NDArray[np.int16], scan: Scan, element: int, sums: NDArray[np.int64], lexicon: NDArray[np.int64],
    alike: NDArray[np.int64], whole: int,
) -> tuple[int, int]:  # fmt: skip
    """Writes the features LEVEL of the outermost element with the blocks of ``element``. Returns the sum of the lexicon
    from there on, and the element around it."""
    score, outer = lexicon[element], int64(scan.records[element, E.parent])
    while outer >= 0 and sums[outer, C.blocks] <= sums[element, C.blocks]:
        element, score, outer = outer, score + lexicon[outer], int64(scan.records[outer, E.parent])
    part = sums[element]
    row[0], row[1] = _fit(part[C.blocks]), _fit(part[C.characters])
    row[2] = _fit(share(part[C.linked], part[C.characters]))
    row[3], row[4] = _fit(part[C.units] // max(part[C.blocks], 1)), _fit(part[C.sentences])
    row[5], row[6] = share(part[C.characters], whole), _fit(score)
    row[7], row[8] = _fit(share(part[C.sentences], part[C.units])), GROUP_OF[scan.records[element, E.name]]
    row[9], row[10] = _fit(alike[element, 0]), share(alike[element, 1], whole)
    row[11], row[12] = share(part[C.in_description], part[C.pairs]), share(part[C.in_data], part[C.pairs])
    return score, outer


@kernel
def _paths(
    table: NDArray[np.int16], scan: Scan, blocks: NDArray[np.int64], rows: NDArray[np.int64], sums: NDArray[np.int64],
    tokens: NDArray[np.int64], texts: NDArray[np.int64],
) -> int:  # fmt: skip
    """Writes the features PATH. Returns the characters of the path with most of them."""
    count, whole = blocks.size, sums[0, C.characters]
    paths, largest = path_hashes(scan, blocks, tokens), int64(0)
    for kind in range(2):
        first, groups = first_equal(paths[kind]), np.zeros((count, len(C)), np.int64)
        for index in range(count):
            add(groups, first[index], rows, index)
        for index in range(count):
            if first[index] == index:
                group = groups[index]
                table[4 * kind, index] = _fit(group[C.blocks])
                table[4 * kind + 1, index] = _fit(group[C.units] // max(group[C.blocks], 1))
                table[4 * kind + 2, index] = _fit(share(group[C.linked], group[C.characters]))
                table[4 * kind + 3, index] = share(group[C.characters], whole)
                if kind == 0:
                    table[8, index] = _fit(share(group[C.sentences], group[C.units]))
                    table[9, index] = share(group[C.in_data], group[C.pairs])
                    largest = max(largest, group[C.characters])
            for column in range(4 * kind, 4 * kind + 4):
                table[column, index] = table[column, first[index]]
            if kind == 0:
                table[8, index], table[9, index] = table[8, first[index]], table[9, first[index]]
    first, numbers = first_equal(texts), np.zeros(count, np.int64)
    for index in range(count):
        table[11, index] = _fit(numbers[first[index]])
        numbers[first[index]] += 1
    for index in range(count):
        table[10, index] = _fit(numbers[first[index]])
    return largest


@kernel_in_place
def _neighbors(table: NDArray[np.int16], scan: Scan, blocks: NDArray[np.int64]) -> None:
    """Writes the features NEIGHBOR from those of each neighbor itself. -1 says that there is none."""
    for number in range(len(STEPS)):
        part = table[AT_NEIGHBOR + number * len(NEIGHBOR) : AT_NEIGHBOR + (number + 1) * len(NEIGHBOR)]
        for index in range(blocks.size):
            other = index + STEPS[number]
            if not 0 <= other < blocks.size:
                part[0, index] = -1
                continue
            part[0, index], part[1, index] = table[UNITS_FEATURE, other], table[LINKED_FEATURE, other]
            part[2, index], part[3, index] = table[GROUP_FEATURE, other], table[END_FEATURE, other]
            part[4, index] = scan.records[blocks[other], E.parent] == scan.records[blocks[index], E.parent]
            part[5, index] = table[SENTENCES_FEATURE, other]
            part[6, index] = max(table[DATA_FEATURE, other], table[DESCRIPTION_FEATURE, other])


@kernel
def _reaches(table: NDArray[np.int16], rows: NDArray[np.int64]) -> None:
    """Writes the sums over the REACHES before and after a block."""
    count = rows.shape[0]
    before = np.zeros((count + 1, 3), np.int64)
    for index in range(count):
        for number, column in enumerate((C.units, C.linked, C.characters)):
            before[index + 1, number] = before[index, number] + rows[index, column]
    for number in range(len(REACHES)):
        for index in range(count):
            least, most = max(index - REACHES[number], 0), min(index + REACHES[number] + 1, count)
            for side, first, last in ((0, least, index), (1, index + 1, most)):
                linked, characters = before[last, 1] - before[first, 1], before[last, 2] - before[first, 2]
                table[4 * number + 2 * side, index] = _fit(before[last, 0] - before[first, 0])
                table[4 * number + 2 * side + 1, index] = _fit(share(linked, characters))


@kernel_in_place
def _page(
    table: NDArray[np.int16], scan: Scan, blocks: NDArray[np.int64], rows: NDArray[np.int64], sums: NDArray[np.int64],
    largest: int, kinds: int,
) -> None:  # fmt: skip
    """Writes the features PAGE, which are the same for each block. ``largest``: the characters of the largest path."""
    total = sums[0]
    paragraphs = words = items = cells = articles = mains = headings = int64(0)
    for index in range(blocks.size):
        name = scan.records[blocks[index], E.name]
        paragraphs += name == P
        words += rows[index, C.units] if name == P else 0
        items += name == LI
        cells += name == TD
    for element in range(sums.shape[0]):
        name = scan.records[element, E.name]
        articles += name == ARTICLE
        mains += name == MAIN
        headings += H1 <= name <= H6
    values = (
        total[C.blocks], total[C.units], share(total[C.linked], total[C.characters]), total[C.sentences],
        share(total[C.sentences], total[C.units]), total[C.units] // max(total[C.blocks], 1), paragraphs, words, items,
        cells, share(largest, total[C.characters]), articles, mains, headings, total[C.in_title],
        total[C.in_description], total[C.in_data],
        kinds & 1, kinds >> 1 & 1, kinds >> 2 & 1, kinds >> 3 & 1, kinds >> 4 & 1,
    )  # fmt: skip
    for column in range(len(PAGE)):
        table[column] = _fit(values[column])


@kernel
def _candidate(
    table: NDArray[np.int16], scan: Scan, blocks: NDArray[np.int64], rows: NDArray[np.int64], ends: NDArray[np.int64],
    sums: NDArray[np.int64],
) -> None:  # fmt: skip
    """Writes the features CANDIDATE: where each block stands to the element with the best reading score, to the first
    and the last paragraph, and to texts that the page also says of itself."""
    count, scores, inside = blocks.size, np.zeros(sums.shape[0], np.int64), np.zeros(sums.shape[0], np.int64)
    reading_scores(scan, blocks, rows, sums, scores)
    best = np.argmax(scores)
    most, part = max(scores[best], 1), share(sums[best, C.characters], sums[0, C.characters])
    around = scores.copy()
    around_best(scan, int(best), around, inside)
    begin = end = first = last = -1
    for index in range(count):
        if inside[blocks[index]] > 0:
            begin, end = index if begin < 0 else begin, index
        if is_paragraph(rows[index], ends[index]):
            first, last = index if first < 0 else first, index
    since = to = FAR_AWAY
    for index in range(count):
        parent = max(scan.records[blocks[index], E.parent], 0)
        table[0, index] = _fit(share(scores[parent], most))
        table[1, index] = _fit(share(scores[max(scan.records[parent, E.parent], 0)], most))
        table[2, index], table[3, index] = _fit(inside[blocks[index]]), part
        table[4, index], table[5, index] = _fit(index - begin), _fit(end - index)
        if first >= 0:
            table[6, index], table[7, index] = _fit(index - first), _fit(last - index)
        table[8, index], table[9, index] = _fit(share(around[blocks[index]], most)), _fit(most)
        table[10, index] = _fit(last - first)
        since = 0 if is_in_summaries(rows[index]) else min(since + 1, FAR_AWAY)
        to = 0 if is_in_summaries(rows[count - 1 - index]) else min(to + 1, FAR_AWAY)
        table[11, index], table[12, count - 1 - index] = since, to

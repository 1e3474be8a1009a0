"""The place of blocks in their page, and to its best candidate for the main text, and the page as a whole, as features.

paragraphs with commas and sentences ── reading_scores ──> the element that holds most of them ──> best

FEATURE_NAMES has the names of all features, in the order of their columns (features.py).
"""

import numpy as np
from numpy.typing import NDArray

from headrace.data_prep.extraction.block_statistics import LANDMARKS, SENTENCE_END, C, share
from headrace.data_prep.extraction.markup import NUMBER, numbers
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
UNITS_FEATURE = 1
"""The column with the words of a block."""
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
FEATURE_NAMES = (
    *OWN,
    *PLACE,
    *(f"distance to {landmark}" for landmark in LANDMARKS),
    *(f"level {level}: {name}" for level in range(LEVELS) for name in LEVEL),
    *LEXICON,
    *PATH,
    *(f"neighbor {step:+d}: {name}" for step in STEPS for name in NEIGHBOR),
    *(f"{reach} blocks {side}: {name}" for reach in REACHES for side in ("before", "after") for name in
      ("words", "share linked")),
    *(f"page: {name}" for name in PAGE),
    *CANDIDATE,
)  # fmt: skip
FEATURES = len(FEATURE_NAMES)
LEVEL_FEATURES, NEIGHBOR_FEATURES, PAGE_FEATURES, CANDIDATE_FEATURES = map(len, (LEVEL, NEIGHBOR, PAGE, CANDIDATE))
PLACE_FEATURES, LANDMARK_COUNT, KINDS = len(PLACE) - 1, len(LANDMARKS), 5


READABLE_CHARACTERS = 25
"""The least characters of a block that counts for the reading score of the elements around it."""
LONG_UNITS = 15
"""Words of a block that is a paragraph, if it ends like a sentence."""
SUMMARY_PAIRS = 4
"""More pairs of words than this, most of them in the description or the linked data, make a block one of a summary."""
FAR_AWAY = 1_000
"""The distance, in blocks, of a block that there is none of."""


@kernel
def candidate_features(
    scan: Scan, order: NDArray[np.int64], rows: NDArray[np.int64], ends: NDArray[np.int64], sums: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Returns the features CANDIDATE: where each block stands to the element with the best reading score, to the first
    and the last paragraph, and to texts that the page also says of itself."""
    count = order.size
    table = np.zeros((count, CANDIDATE_FEATURES), np.int64)
    scores = reading_scores(scan, order, rows, sums)
    best = np.argmax(scores)
    most = max(scores[best], 1)
    around = scores.copy()
    around[0] = 0
    for element in range(1, scores.size):
        around[element] = max(around[element], around[scan.records[element, E.parent]])
    inside = levels_inside(scan, int(best))
    begin = end = first = last = -1
    for index in range(count):
        if inside[scan.records[order[index], B.element]] > 0:
            begin, end = index if begin < 0 else begin, index
        if is_paragraph(rows[index], ends[index]):
            first, last = index if first < 0 else first, index
    for index in range(count):
        element = scan.records[order[index], B.element]
        parent = max(scan.records[element, E.parent], 0)
        row = table[index]
        row[0], row[1] = share(scores[parent], most), share(scores[max(scan.records[parent, E.parent], 0)], most)
        row[2], row[3] = inside[element], share(sums[best, C.characters], sums[0, C.characters])
        row[4], row[5] = index - begin, end - index
        if first >= 0:
            row[6], row[7] = index - first, last - index
        row[8], row[9], row[10] = share(around[element], most), most, last - first
    since = to = FAR_AWAY
    for index in range(count):
        since = 0 if _is_in_summaries(rows[index]) else min(since + 1, FAR_AWAY)
        to = 0 if _is_in_summaries(rows[count - 1 - index]) else min(to + 1, FAR_AWAY)
        table[index, 11], table[count - 1 - index, 12] = since, to
    return table


@kernel
def reading_scores(
    scan: Scan, order: NDArray[np.int64], rows: NDArray[np.int64], sums: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Returns a score of each element: long texts with commas and sentences directly inside, few of them in links.

    Source: the idea of Arc90's Readability (2009), with sentences and integers.
    """
    scores = np.zeros(sums.shape[0], np.int64)
    for index in range(order.size):
        row = rows[index]
        if row[C.characters] < READABLE_CHARACTERS or row[C.linked] * 2 >= row[C.characters]:
            continue
        points = 10 + 10 * (row[C.commas] + row[C.sentences]) + min(row[C.characters], 300) // 10
        parent = scan.records[scan.records[order[index], B.element], E.parent]
        if parent >= 0:
            scores[parent] += points
            if scan.records[parent, E.parent] >= 0:
                scores[scan.records[parent, E.parent]] += points // 2
    for element in range(scores.size):
        if scores[element]:
            linked = share(sums[element, C.linked], sums[element, C.characters])
            scores[element] = scores[element] * (1000 - linked) // 1000
    return scores


@kernel
def levels_inside(scan: Scan, best: int) -> NDArray[np.int64]:
    """Returns how far each element is inside the element ``best``, which is 1; 0 for those that are not."""
    inside = np.zeros(scan.registers[R.elements], np.int64)
    inside[best] = 1
    for element in range(best + 1, inside.size):
        outer = inside[scan.records[element, E.parent]]
        inside[element] = outer + 1 if outer > 0 else 0
    return inside


@kernel_in_place
def is_paragraph(row: NDArray[np.int64], end: int) -> bool:
    """Whether a block of the statistics ``row`` is a long text that ends like a sentence."""
    is_long = row[C.units] >= LONG_UNITS and row[C.characters] >= READABLE_CHARACTERS
    return is_long and row[C.linked] * 2 < row[C.characters] and end == SENTENCE_END


@kernel_in_place
def _is_in_summaries(row: NDArray[np.int64]) -> bool:
    """Whether most of a text also stands in the description of its page, or in its linked data."""
    return bool(row[C.pairs] > SUMMARY_PAIRS and max(row[C.in_data], row[C.in_description]) * 2 > row[C.pairs])


H1, H6 = NUMBER["h1"], NUMBER["h6"]
P, LI, TD, ARTICLE, MAIN = numbers("p li td article main")


@kernel
def places_of(
    scan: Scan, blocks: NDArray[np.int64], rows: NDArray[np.int64], total: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Returns the features PLACE but for the depth."""
    count = blocks.size
    places = np.zeros((count, PLACE_FEATURES), np.int64)
    passed = since_heading = blocks_since = level = int64(0)
    since_h1 = int64(-1)
    for index in range(count):
        name = scan.records[blocks[index], E.name]
        own_level = name - H1 + 1 if H1 <= name <= H6 else 0
        if own_level > 0:
            level, since_heading, blocks_since = own_level, 0, 0
            if own_level == 1 and since_h1 < 0:
                since_h1 = 0
        place = places[index]
        place[0], place[1] = share(index, count), share(passed, total[C.characters])
        place[2], place[3] = index, count - index
        place[4], place[5] = passed, total[C.characters] - passed
        place[6], place[7], place[8] = since_heading, blocks_since, level
        place[9], place[10] = since_h1, own_level
        passed += rows[index, C.characters]
        since_heading += rows[index, C.characters]
        blocks_since += 1
        if since_h1 >= 0:
            since_h1 += rows[index, C.characters]
    return places


@kernel
def page_features(
    scan: Scan, blocks: NDArray[np.int64], rows: NDArray[np.int64], total: NDArray[np.int64],
    by_path: NDArray[np.int64], kinds: int,
) -> NDArray[np.int64]:  # fmt: skip
    """Returns the features PAGE."""
    row = np.zeros(PAGE_FEATURES, np.int64)
    row[0], row[1] = total[C.blocks], total[C.units]
    row[2], row[3] = share(total[C.linked], total[C.characters]), total[C.sentences]
    row[4], row[5] = share(total[C.sentences], total[C.units]), total[C.units] // max(total[C.blocks], 1)
    for index in range(blocks.size):
        name = scan.records[blocks[index], E.name]
        if name == P:
            row[6], row[7] = row[6] + 1, row[7] + rows[index, C.units]
        row[8] += name == LI
        row[9] += name == TD
    row[10] = share(by_path[:, C.characters].max() if blocks.size else 0, total[C.characters])
    for element in range(scan.registers[R.elements]):
        name = scan.records[element, E.name]
        row[11] += name == ARTICLE
        row[12] += name == MAIN
        row[13] += H1 <= name <= H6
    row[14], row[15], row[16] = total[C.in_title], total[C.in_description], total[C.in_data]
    for bit in range(KINDS):
        row[17 + bit] = kinds >> bit & 1
    return row

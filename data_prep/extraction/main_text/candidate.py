"""The page's best candidate for the main text, and where each block stands to it.

paragraphs with commas and sentences ── reading_scores ──> the element that holds most of them ──> best
"""

import numpy as np
from numpy.typing import NDArray

from headrace.data_prep.extraction.main_text.around import share
from headrace.data_prep.extraction.main_text.feature_names import CANDIDATE_FEATURES
from headrace.data_prep.extraction.main_text.text_statistics import (
    CHARACTERS,
    COMMAS,
    IN_DATA,
    IN_DESCRIPTION,
    LINKED,
    PAIRS,
    SENTENCE_END,
    SENTENCES,
    UNITS,
)
from headrace.data_prep.extraction.parsing.scan import BLOCK, ELEMENTS, PARENT, Scan
from headrace.data_prep.kernel import kernel, kernel_in_place

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
        around[element] = max(around[element], around[scan.records[element, PARENT]])
    inside = levels_inside(scan, int(best))
    begin = end = first = last = -1
    for index in range(count):
        if inside[scan.records[order[index], BLOCK]] > 0:
            begin, end = index if begin < 0 else begin, index
        if is_paragraph(rows[index], ends[index]):
            first, last = index if first < 0 else first, index
    for index in range(count):
        element = scan.records[order[index], BLOCK]
        parent = max(scan.records[element, PARENT], 0)
        row = table[index]
        row[0], row[1] = share(scores[parent], most), share(scores[max(scan.records[parent, PARENT], 0)], most)
        row[2], row[3] = inside[element], share(sums[best, CHARACTERS], sums[0, CHARACTERS])
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
        if row[CHARACTERS] < READABLE_CHARACTERS or row[LINKED] * 2 >= row[CHARACTERS]:
            continue
        points = 10 + 10 * (row[COMMAS] + row[SENTENCES]) + min(row[CHARACTERS], 300) // 10
        parent = scan.records[scan.records[order[index], BLOCK], PARENT]
        if parent >= 0:
            scores[parent] += points
            if scan.records[parent, PARENT] >= 0:
                scores[scan.records[parent, PARENT]] += points // 2
    for element in range(scores.size):
        linked = share(sums[element, LINKED], sums[element, CHARACTERS])
        scores[element] = scores[element] * (1000 - linked) // 1000
    return scores


@kernel
def levels_inside(scan: Scan, best: int) -> NDArray[np.int64]:
    """Returns how far each element is inside the element ``best``, which is 1; 0 for those that are not."""
    inside = np.zeros(scan.registers[ELEMENTS], np.int64)
    inside[best] = 1
    for element in range(best + 1, inside.size):
        outer = inside[scan.records[element, PARENT]]
        inside[element] = outer + 1 if outer > 0 else 0
    return inside


@kernel_in_place
def is_paragraph(row: NDArray[np.int64], end: int) -> bool:
    """Whether a block of the statistics ``row`` is a long text that ends like a sentence."""
    is_long = row[UNITS] >= LONG_UNITS and row[CHARACTERS] >= READABLE_CHARACTERS
    return is_long and row[LINKED] * 2 < row[CHARACTERS] and end == SENTENCE_END


@kernel_in_place
def _is_in_summaries(row: NDArray[np.int64]) -> bool:
    """Whether most of a text also stands in the description of its page, or in its linked data."""
    return bool(row[PAIRS] > SUMMARY_PAIRS and max(row[IN_DATA], row[IN_DESCRIPTION]) * 2 > row[PAIRS])

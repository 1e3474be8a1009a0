"""The place of blocks in their page, and the page as a whole, as features."""

import numpy as np
from numpy.typing import NDArray

from headrace.data_prep.extraction.main_text.around import share
from headrace.data_prep.extraction.main_text.feature_names import KINDS, PAGE_FEATURES, PLACE_FEATURES
from headrace.data_prep.extraction.main_text.text_statistics import (
    CHARACTERS,
    COUNT,
    IN_DATA,
    IN_DESCRIPTION,
    IN_TITLE,
    LINKED,
    SENTENCES,
    UNITS,
)
from headrace.data_prep.extraction.parsing.elements import NUMBER, numbers
from headrace.data_prep.extraction.parsing.scan import ELEMENT_NAME, ELEMENTS, Scan
from headrace.data_prep.kernel import int64, kernel

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
        name = scan.records[blocks[index], ELEMENT_NAME]
        own_level = name - H1 + 1 if H1 <= name <= H6 else 0
        if own_level > 0:
            level, since_heading, blocks_since = own_level, 0, 0
            if own_level == 1 and since_h1 < 0:
                since_h1 = 0
        place = places[index]
        place[0], place[1] = share(index, count), share(passed, total[CHARACTERS])
        place[2], place[3] = index, count - index
        place[4], place[5] = passed, total[CHARACTERS] - passed
        place[6], place[7], place[8] = since_heading, blocks_since, level
        place[9], place[10] = since_h1, own_level
        passed += rows[index, CHARACTERS]
        since_heading += rows[index, CHARACTERS]
        blocks_since += 1
        if since_h1 >= 0:
            since_h1 += rows[index, CHARACTERS]
    return places


@kernel
def page_features(
    scan: Scan, blocks: NDArray[np.int64], rows: NDArray[np.int64], total: NDArray[np.int64],
    by_path: NDArray[np.int64], kinds: int,
) -> NDArray[np.int64]:  # fmt: skip
    """Returns the features PAGE."""
    row = np.zeros(PAGE_FEATURES, np.int64)
    row[0], row[1] = total[COUNT], total[UNITS]
    row[2], row[3] = share(total[LINKED], total[CHARACTERS]), total[SENTENCES]
    row[4], row[5] = share(total[SENTENCES], total[UNITS]), total[UNITS] // max(total[COUNT], 1)
    for index in range(blocks.size):
        name = scan.records[blocks[index], ELEMENT_NAME]
        if name == P:
            row[6], row[7] = row[6] + 1, row[7] + rows[index, UNITS]
        row[8] += name == LI
        row[9] += name == TD
    row[10] = share(by_path[:, CHARACTERS].max() if blocks.size else 0, total[CHARACTERS])
    for element in range(scan.registers[ELEMENTS]):
        name = scan.records[element, ELEMENT_NAME]
        row[11] += name == ARTICLE
        row[12] += name == MAIN
        row[13] += H1 <= name <= H6
    row[14], row[15], row[16] = total[IN_TITLE], total[IN_DESCRIPTION], total[IN_DATA]
    for bit in range(KINDS):
        row[17 + bit] = kinds >> bit & 1
    return row

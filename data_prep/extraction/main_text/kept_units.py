"""Blocks that are kept together: the cells of a row of a table, and captions with the text around them.

    paragraph (kept)  caption (left out)  paragraph (kept)  ── with_captions ──>  all three kept
    Name (kept)       3 (left out)        EUR (kept)        ── with_rows ──────>  "Name\\t3\\tEUR"

The model decides block by block. A row without one of its cells says something else. A caption is short and stands
apart, and the texts that people mark as main text in the training pages have few of them, so the model leaves most of
them out: inside an article that loses a sentence.
"""

import numpy as np
from numpy.typing import NDArray

from headrace.data_prep.extraction.parsing.elements import numbers
from headrace.data_prep.extraction.parsing.scan import BLOCK, ELEMENT_NAME, ELEMENTS, PARENT, Scan
from headrace.data_prep.extraction.text_form import simple_cells
from headrace.data_prep.kernel import kernel

A, CAPTION, FIGCAPTION, LI = numbers("a caption figcaption li")


@kernel
def with_rows(
    scan: Scan, order: NDArray[np.int64], keep: NDArray[np.bool_], words: NDArray[np.int64]
) -> NDArray[np.bool_]:
    """Returns ``keep`` with whole rows, where each cell is one block, by most of their ``words``: (blocks,)."""
    cells, kept = simple_cells(scan, order), keep.copy()
    votes = np.zeros(scan.registers[ELEMENTS], np.int64)
    for index in range(order.size):
        if cells[index] >= 0:
            weight = words[index] + 1
            votes[scan.records[cells[index], PARENT]] += weight if keep[index] else -weight
    for index in range(order.size):
        if cells[index] >= 0:
            kept[index] = votes[scan.records[cells[index], PARENT]] >= 0
    return kept


@kernel
def with_captions(scan: Scan, order: NDArray[np.int64], keep: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Returns ``keep`` with the captions between two kept blocks, or after the last block that is no caption, if it is
    kept: (blocks,). Captions in lists and links are those of teasers, and are left as they are."""
    is_inside = np.zeros(scan.registers[ELEMENTS], np.bool_)
    is_teaser = np.zeros(scan.registers[ELEMENTS], np.bool_)
    for element in range(1, is_inside.size):
        name, parent = scan.records[element, ELEMENT_NAME], scan.records[element, PARENT]
        is_teaser[element] = is_teaser[parent] or name in (A, LI)
        is_inside[element] = is_inside[parent] or (name in (CAPTION, FIGCAPTION) and not is_teaser[parent])
    kept, is_before, is_after = keep.copy(), False, True
    for index in range(order.size):
        if is_inside[scan.records[order[index], BLOCK]]:
            kept[index] = is_before
        else:
            is_before = keep[index]
    for index in range(order.size - 1, -1, -1):
        if is_inside[scan.records[order[index], BLOCK]]:
            kept[index] = keep[index] or (kept[index] and is_after)
        else:
            is_after = keep[index]
    return kept

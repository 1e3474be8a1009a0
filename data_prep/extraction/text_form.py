"""The text of chosen blocks: a paragraph, a list item or a row of a table on a line each.

kept blocks ── lines ──> "Title\\nA paragraph.\\nName\\tPrice\\n    code, as it is"

Some blocks are kept together: the cells of a row of a table, and captions with the text around them.

    paragraph (kept)  caption (left out)  paragraph (kept)  ── with_captions ──>  all three kept
    Name (kept)       3 (left out)        EUR (kept)        ── with_rows ──────>  "Name\\t3\\tEUR"

The model decides block by block. A row without one of its cells says something else. A caption is short and stands
apart, and the texts that people mark as main text in the training pages have few of them, so the model leaves most of
them out: inside an article that loses a sentence.
"""

import numpy as np
from numpy.typing import NDArray

from headrace.data_prep.extraction.parsing.elements import NUMBER, numbers
from headrace.data_prep.extraction.parsing.scan import (
    BLOCK,
    BLOCK_FLAGS,
    BLOCKS,
    ELEMENT_NAME,
    ELEMENTS,
    END,
    NEXT,
    PARENT,
    PRE_BLOCK,
    START,
    Scan,
)
from headrace.data_prep.kernel import int64, kernel

TD, TH, TR = NUMBER["td"], NUMBER["th"], NUMBER["tr"]


@kernel
def document_order(scan: Scan) -> NDArray[np.int64]:
    """Returns the numbers of the blocks in the order of the document."""
    order = np.empty(scan.registers[BLOCKS] - 1, np.int64)
    block, number = scan.records[0, NEXT], 0
    while block >= 0:
        order[number] = block
        block, number = scan.records[block, NEXT], number + 1
    return order[:number]


@kernel
def simple_cells(scan: Scan, order: NDArray[np.int64]) -> NDArray[np.int64]:
    """Returns the cell that each block is the text of: (blocks,). -1 if one cell of its row has other blocks, or code.

    The parent of a cell is the row.
    """
    cells = np.full(order.size, -1, np.int64)
    blocks, simple = np.zeros(scan.registers[ELEMENTS], np.int64), np.zeros(scan.registers[ELEMENTS], np.int64)
    for index in range(order.size):
        blocks[scan.records[order[index], BLOCK]] += 1
    for element in range(blocks.size - 1, 0, -1):
        blocks[scan.records[element, PARENT]] += blocks[element]
    for index in range(order.size):
        cell = int64(scan.records[order[index], BLOCK])
        while blocks[cell] == 1 and scan.records[cell, ELEMENT_NAME] not in (TD, TH) and cell > 0:
            cell = int64(scan.records[cell, PARENT])
        if blocks[cell] == 1 and cell > 0 and not scan.records[order[index], BLOCK_FLAGS] & PRE_BLOCK:
            simple[scan.records[cell, PARENT]] += 1
            cells[index] = cell
    for index in range(order.size):
        row = scan.records[cells[index], PARENT] if cells[index] >= 0 else 0
        if row > 0 and (scan.records[row, ELEMENT_NAME] != TR or simple[row] != blocks[row]):
            cells[index] = -1
    return cells


@kernel
def lines(scan: Scan, order: NDArray[np.int64], keep: NDArray[np.bool_]) -> NDArray[np.uint8]:
    """Returns the text of the blocks to ``keep``, in UTF-8. Cells of a row are joined by a tab."""
    cells = simple_cells(scan, order)
    size = int64(0)
    for index in range(order.size):
        if keep[index]:
            size += scan.records[order[index], END] - scan.records[order[index], START] + 1
    text, out, row = np.empty(size, np.uint8), 0, int64(-1)
    for index in range(order.size):
        if not keep[index]:
            continue
        own_row = scan.records[cells[index], PARENT] if cells[index] >= 0 else -1
        if out:
            text[out] = 0x09 if own_row >= 0 and own_row == row else 0x0A
            out += 1
        row = own_row
        for at in range(scan.records[order[index], START], scan.records[order[index], END]):
            byte = scan.text[at]
            text[out] = 0x20 if byte == 0x0A and row >= 0 else byte
            out += 1
    return text[:out]


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

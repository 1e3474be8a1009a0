"""The text of chosen blocks: a paragraph, a list item or a row of a table on a line each.

kept blocks ── lines ──> "Title\\nA paragraph.\\nName\\tPrice\\n    code, as it is"

Some blocks are kept together: the cells of a row of a table, and captions with the text around them.

    paragraph (kept)  caption (left out)  paragraph (kept)  ── with_captions ──>  all three kept
    Name (kept)       3 (left out)        EUR (kept)        ── with_rows ──────>  "Name\\t3\\tEUR"

The model decides block by block. A row without one of its cells says something else. A caption is short and stands
apart, and the texts that people mark as main text in the training pages have few of them, so the model leaves most of
them out: inside an article that loses a sentence.
"""

from collections.abc import Iterator
from itertools import groupby
from operator import itemgetter

import numpy as np
from numpy.typing import NDArray

from headrace.data_prep.extraction.parsing.elements import numbers
from headrace.data_prep.extraction.parsing.scan import (
    BLOCK,
    BLOCKS,
    ELEMENT_NAME,
    ELEMENTS,
    END,
    NEXT,
    PARENT,
    START,
    TEXT,
    Scan,
)
from headrace.data_prep.extraction.tables import TD, THEAD, TR, PageTables, simple_cells, table_of
from headrace.data_prep.kernel import int64, kernel


@kernel
def document_order(scan: Scan) -> NDArray[np.int64]:
    """Returns the numbers of the blocks in the order of the document."""
    order = np.empty(scan.registers[BLOCKS] - 1, np.int64)
    block, number = scan.records[0, NEXT], 0
    while block >= 0:
        order[number] = block
        block, number = scan.records[block, NEXT], number + 1
    return order[:number]


def lines(scan: Scan, order: NDArray[np.int64], keep: NDArray[np.bool_]) -> str:
    """Returns the text of the blocks to ``keep``. Cells of a row are joined by a tab."""
    text, tables = scan.text[: scan.registers[TEXT]].tobytes(), PageTables(scan, order)
    starts, ends = scan.records[order[keep], START].tolist(), scan.records[order[keep], END].tolist()
    cells, numbers = tables.cells[keep].tolist(), tables.tables[keep]
    if not numbers.any():
        return b"\n".join([text[start:end] for start, end in zip(starts, ends, strict=True)]).decode()
    written = []
    for table, group in groupby(zip(starts, ends, cells, numbers.tolist(), strict=True), itemgetter(3)):
        if table:
            written += _rows(scan, text, tables, [cell for _, _, cell, _ in group])
        else:
            written += [text[start:end] for start, end, _, _ in group]
    return b"\n".join(written).decode()


def _rows(scan: Scan, text: bytes, tables: PageTables, cells: list[int]) -> Iterator[bytes]:
    """Yields the lines of a table. Columns without text are left out, and empty cells at the end of a row."""
    rows = []
    for slots in tables.rows_of(cells):
        row = dict[int, bytes]()
        for column, cell in slots:
            if block := tables.blocks.get(cell):
                row[column] = text[scan.records[block, START] : scan.records[block, END]].replace(b"\n", b" ")
        rows.append(row)
    columns = sorted({column for row in rows for column in row})
    for row in rows:
        last = max(row)
        yield b"\t".join(row.get(column, b"") for column in columns if column <= last)


A, CAPTION, FIGCAPTION, LI = numbers("a caption figcaption li")


@kernel
def with_rows(
    scan: Scan, order: NDArray[np.int64], keep: NDArray[np.bool_], words: NDArray[np.int64]
) -> NDArray[np.bool_]:
    """Returns ``keep`` with whole rows, where each cell is one block, by most of their ``words``: (blocks,).

    Rows of nothing but header cells are kept if another row of their table is.
    """
    cells, kept = simple_cells(scan, order), keep.copy()
    votes, is_head = np.zeros(scan.registers[ELEMENTS], np.int64), np.zeros(scan.registers[ELEMENTS], np.bool_)
    has_rows = np.zeros(scan.registers[ELEMENTS], np.bool_)
    for element in range(1, is_head.size):
        name, row = scan.records[element, ELEMENT_NAME], scan.records[element, PARENT]
        if name == TR:
            is_head[element] = True
        elif name == TD and scan.records[row, PARENT] > 0:
            is_head[row] = scan.records[scan.records[row, PARENT], ELEMENT_NAME] == THEAD
    for index in range(order.size):
        if cells[index] >= 0:
            weight = words[index] + 1
            votes[scan.records[cells[index], PARENT]] += weight if keep[index] else -weight
    for index in range(order.size):
        if cells[index] >= 0:
            row = int64(scan.records[cells[index], PARENT])
            kept[index] = votes[row] >= 0
            has_rows[table_of(scan, row)] |= kept[index] and not is_head[row]
    for index in range(order.size):
        if cells[index] >= 0:
            row = int64(scan.records[cells[index], PARENT])
            kept[index] |= is_head[row] and has_rows[table_of(scan, row)]
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

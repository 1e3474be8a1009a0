"""A page of HTML as blocks of text.

    html ── read_page ──> HtmlPage ── text ──> "Title\\nFirst paragraph.\\nName\\tPrice"

All characters that a reader may see are in the blocks, once, in the order of the document. Left out are soft hyphens,
readings of ruby (``rt``, ``rp``), SVG, ``title``, and what no browser shows: scripts, styles, templates, frames. White
space is one space, except in ``pre``. ``noscript`` and declared shadow roots are text: they may hold the whole page.
What marks add to a text, or strike out, is in ``text`` alone (shown.py).

Some blocks are kept together: the cells of a row of a table, and captions with the text around them.

    Steps: (left out)  item (kept)       item (kept)       ── with_companions ──>  all three kept
    paragraph (kept)   caption (left out)  paragraph (kept)  ── with_companions ──>  all three kept
    Name (kept)        3 (left out)        EUR (kept)        ── with_rows ────────>  "Name\\t3\\tEUR"

The model decides block by block. A row without one of its cells says something else, and so does an answer without its
question. Captions are short, and training pages have few of them, so the model leaves most of them out.

Tables are as a reader sees them: a cell that spans rows counts in each of them, one that spans columns once.

    <tr><td rowspan=2>EU<td>Cable<td>12<tr><td>Hub<td>7  ── rows_of ──>  EU Cable 12 / EU Hub 7

Source: WHATWG HTML, section 4.9.12.1 (forming a table). Rows of the first ``thead`` come first, those of the first
``tfoot`` last (CSS 2.1, section 17.2). Only columns in which a cell begins are counted.
"""

import functools
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby, pairwise
from operator import itemgetter

import numpy as np
from numpy.typing import NDArray

from headrace.data_prep.document import Drop
from headrace.data_prep.extraction.markup import numbers
from headrace.data_prep.extraction.page_facts import PageFacts, facts_of, read, summaries
from headrace.data_prep.extraction.scan import FLAG, MAX_DEPTH, PRE_BLOCK, B, E, R, Scan, new_scan
from headrace.data_prep.extraction.shown import as_shown, piece
from headrace.data_prep.extraction.tree import blocks_of
from headrace.data_prep.kernel import int64, kernel

A, CAPTION, DD, DT, FIGCAPTION, LI = numbers("a caption dd dt figcaption li")
H1, H6, TABLE, TBODY, TD, TFOOT, TH, THEAD, TR = numbers("h1 h6 table tbody td tfoot th thead tr")
MAX_COLUMNS = 1000
"""The most columns of a table that is formed, and of a cell; the standard bounds ``colspan`` by it."""
MOST_TIMES, MOST_SMALL = 16, 64
"""A table is formed if it has at most this many times as many slots as cells, and as much text, or a few more."""


@kernel
def simple_cells(scan: Scan, order: NDArray[np.int64]) -> NDArray[np.int64]:
    """Returns the cell that each block is the text of, and the table of this cell: (2, blocks). The cell is -1 if one
    cell of its row has other blocks, or code; the table is 0 if there is none.

    The parent of a cell is the row.
    """
    cells, count = np.full((2, order.size), -1, np.int64), scan.registers[R.elements]
    blocks, simple = np.zeros(count, np.int64), np.zeros(count, np.int64)
    has_cells = False
    for element in range(count):
        has_cells |= scan.records[element, E.name] in (TD, TH)
    if not has_cells:
        cells[1] = 0
        return cells
    for index in range(order.size):
        blocks[scan.records[order[index], B.element]] += 1
    for element in range(count - 1, 0, -1):
        blocks[scan.records[element, E.parent]] += blocks[element]
    for index in range(order.size):
        cell = int64(scan.records[order[index], B.element])
        while blocks[cell] == 1 and scan.records[cell, E.name] not in (TD, TH) and cell > 0:
            cell = int64(scan.records[cell, E.parent])
        if blocks[cell] == 1 and cell > 0 and not scan.records[order[index], B.flags] & PRE_BLOCK:
            simple[scan.records[cell, E.parent]] += 1
            cells[0, index] = cell
    for index in range(order.size):
        row = scan.records[cells[0, index], E.parent] if cells[0, index] >= 0 else int64(0)
        if row > 0 and (scan.records[row, E.name] != TR or simple[row] != blocks[row]):
            cells[0, index] = -1
        cells[1, index] = table_of(scan, row) if cells[0, index] >= 0 else 0
    return cells


@kernel
def table_of(scan: Scan, row: int) -> int:
    """Returns the table of a row; 0 if there is none."""
    table = int64(scan.records[row, E.parent])
    if table > 0 and scan.records[table, E.name] in (TBODY, THEAD, TFOOT):
        table = int64(scan.records[table, E.parent])
    return table if table > 0 and scan.records[table, E.name] == TABLE else int64(0)


@kernel
def formed(scan: Scan, cells: NDArray[np.int64]) -> NDArray[np.int64]:
    """Returns the slots of the rows with one of ``cells``: (slots, 3), row, column, and the cell that fills it.

    Slots of a row stand together, from left to right. A table with too many slots is not formed: its cells stand side
    by side, each once.
    """
    count = scan.registers[R.elements]
    is_asked, has_rows = np.zeros(count, np.bool_), np.zeros(count, np.bool_)
    for cell in cells:
        if cell >= 0:
            row = int64(scan.records[cell, E.parent])
            is_asked[row] = True
            has_rows[table_of(scan, row)] = True
    # Lists of the rows of each table and the cells of each row: the first and the last of each, and the one after it.
    first, last, after = np.zeros(count, np.int64), np.zeros(count, np.int64), np.zeros(count, np.int64)
    sizes = np.zeros(count, np.int64)  # the cells of each table
    for element in range(1, count):
        name, around = scan.records[element, E.name], int64(0)
        if name == TR:
            around = table_of(scan, element)
        elif name in (TD, TH) and scan.records[scan.records[element, E.parent], E.name] == TR:
            is_gutter = scan.records[element, E.flags] & (FLAG.line_numbers | FLAG.gutter)
            if not is_gutter or scan.records[element, E.text_start] < scan.records[element, E.text_end]:
                around = int64(scan.records[element, E.parent])
                sizes[table_of(scan, around)] += 1
        if around > 0:
            if first[around]:
                after[last[around]] = element
            else:
                first[around] = element
            last[around] = element
    slots, at = np.empty((MOST_SMALL, 3), np.int64), int64(0)
    for table in range(count):
        if has_rows[table]:
            most = MOST_TIMES * sizes[table] + MOST_SMALL
            if at + most > slots.shape[0]:
                longer = np.empty((2 * (at + most), 3), np.int64)
                longer[:at] = slots[:at]
                slots = longer
            free = slots[at : at + most]
            number = _fill(scan, first[table], first, after, is_asked, free)
            at += number if number >= 0 else _side_by_side(first[table], first, after, is_asked, free)
    return slots[:at]


@kernel
def _fill(
    scan: Scan, row: int, first: NDArray[np.int64], after: NDArray[np.int64], is_asked: NDArray[np.bool_],
    slots: NDArray[np.int64],
) -> int:  # fmt: skip
    """Writes the slots of the table whose first row is ``row``. Returns their number; -1: too many."""
    until, owner_until = np.zeros(MAX_COLUMNS, np.int64), np.zeros(MAX_COLUMNS, np.int64)
    owner, is_used = np.zeros(MAX_COLUMNS, np.int64), np.zeros(MAX_COLUMNS, np.bool_)
    width = begun = cell_count = text = repeated = number = y = int64(0)
    group = int64(-1)
    while row > 0:
        if scan.records[row, E.parent] != group:
            group = int64(scan.records[row, E.parent])
            until[:width], owner_until[:width] = 0, 0
        x, cell = int64(0), first[row]
        while cell > 0:
            columns = min(max(int64(scan.records[cell, E.value_start]) - 1, 1), MAX_COLUMNS)
            rows = int64(scan.records[cell, E.value_end]) - 1
            rows = int64(1) if rows < 0 else int64(2**40) if rows == 0 else rows
            while x < MAX_COLUMNS and until[x] > y:
                x += 1
            if x + columns > MAX_COLUMNS:
                return -1
            owner[x], owner_until[x] = cell, y + rows
            begun += not is_used[x]
            is_used[x] = True
            for column in range(x, x + columns):
                until[column] = max(until[column], y + rows)
            x += columns
            width, cell_count = max(width, x), cell_count + 1
            text += scan.records[cell, E.text_end] - scan.records[cell, E.text_start]
            cell = after[cell]
        for column in range(width if is_asked[row] else 0):
            if owner_until[column] > y:
                if number == slots.shape[0]:
                    return -1
                slots[number, 0], slots[number, 1], slots[number, 2] = row, column, owner[column]
                number += 1
                repeated += scan.records[owner[column], E.text_end] - scan.records[owner[column], E.text_start]
        y, row = y + 1, after[row]
    too_many = y * begun > MOST_TIMES * cell_count + MOST_SMALL or repeated > MOST_TIMES * (text + MOST_SMALL)
    return -1 if too_many else number


@kernel
def _side_by_side(
    row: int, first: NDArray[np.int64], after: NDArray[np.int64], is_asked: NDArray[np.bool_], slots: NDArray[np.int64]
) -> int:
    """Writes the cells of the table whose first row is ``row``, each once. Returns their number."""
    number = int64(0)
    while row > 0:
        x, cell = int64(0), first[row] if is_asked[row] else int64(0)
        while cell > 0:
            slots[number, 0], slots[number, 1], slots[number, 2] = row, x, cell
            number, x, cell = number + 1, x + 1, after[cell]
        row = after[row]
    return number


class PageTables:
    """The tables of a page, of which each cell is one block or empty."""

    def __init__(self, scan: Scan, order: NDArray[np.int64]) -> None:
        self._scan, self._order = scan, order
        self.cells, self.tables = simple_cells(scan, order)
        """The cell of each block, or -1, and its table, or 0: (blocks,)."""

    @functools.cached_property
    def blocks(self) -> dict[int, int]:
        """The block of each cell."""
        known = zip(self.cells.tolist(), self._order.tolist(), strict=True)
        return {cell: block for cell, block in known if cell >= 0}

    @functools.cached_property
    def _rows(self) -> tuple[list[list[int]], dict[int, tuple[int, int]]]:
        """The slots of all rows, and where those of each row begin and end."""
        slots = formed(self._scan, self.cells)
        bounds = np.flatnonzero(np.diff(slots[:, 0], prepend=-1, append=-1))
        return slots.tolist(), dict(zip(slots[bounds[:-1], 0].tolist(), pairwise(bounds.tolist()), strict=True))

    def rows_of(self, cells: list[int]) -> Iterator[list[tuple[int, int]]]:
        """Yields the columns of each row of the kept ``cells`` of a table, with their cells; 0 for those left out."""
        records, kept, (slots, bounds) = self._scan.records, set(cells), self._rows
        rows = list(dict.fromkeys(records[cells, E.parent].tolist()))
        group_of = dict(zip(rows, records[rows, E.parent].tolist(), strict=True))
        groups = dict.fromkeys(group_of.values())
        firsts = {kind: next((g for g in groups if records[g, E.name] == kind), -1) for kind in (THEAD, TFOOT)}
        for row in sorted(rows, key=lambda row: (group_of[row] == firsts[TFOOT]) - (group_of[row] == firsts[THEAD])):
            own = slots[slice(*bounds.get(row, (0, 0)))]
            yield [(column, cell if cell in kept or records[cell, E.parent] != row else 0) for _, column, cell in own]


@kernel
def document_order(scan: Scan) -> NDArray[np.int64]:
    """Returns the numbers of the blocks in the order of the document."""
    order = np.empty(scan.registers[R.blocks] - 1, np.int64)
    block, number = scan.records[0, B.next], 0
    while block >= 0:
        order[number] = block
        block, number = scan.records[block, B.next], number + 1
    return order[:number]


def lines(scan: Scan, order: NDArray[np.int64], keep: NDArray[np.bool_]) -> str:
    """Returns the text of the blocks to ``keep``. Cells of a row are joined by a tab."""
    text, tables = scan.text[: scan.registers[R.text]].tobytes(), PageTables(scan, order)
    starts, ends = scan.records[order[keep], B.start].tolist(), scan.records[order[keep], B.end].tolist()
    cells, numbers = tables.cells[keep].tolist(), tables.tables[keep]
    if not numbers.any():
        return b"\n".join([text[start:end] for start, end in zip(starts, ends, strict=True)]).decode()
    written, bounds = list[bytes](), scan.records[: scan.registers[R.blocks], [B.start, B.end]].tolist()
    for table, group in groupby(zip(starts, ends, cells, numbers.tolist(), strict=True), itemgetter(3)):
        if table:
            written += _rows(text, bounds, tables, [cell for _, _, cell, _ in group])
        else:
            written += [text[start:end] for start, end, _, _ in group]
    return b"\n".join(written).decode()


def _rows(text: bytes, bounds: list[list[int]], tables: PageTables, cells: list[int]) -> Iterator[bytes]:
    """Yields the lines of a table; ``bounds`` are those of blocks. Columns without text are left out, and empty cells
    at the end of a row."""
    rows = []
    for slots in tables.rows_of(cells):
        row = dict[int, bytes]()
        for column, cell in slots:
            if block := tables.blocks.get(cell):
                start, end = bounds[block]
                row[column] = text[start:end].replace(b"\n", b" ")
        rows.append(row)
    columns = sorted({column for row in rows for column in row})
    for row in rows:
        last = max(row)
        yield b"\t".join(row.get(column, b"") for column in columns if column <= last)


@kernel
def with_rows(
    scan: Scan, order: NDArray[np.int64], keep: NDArray[np.bool_], words: NDArray[np.int64]
) -> NDArray[np.bool_]:
    """Returns ``keep`` with whole rows, where each cell is one block, by most of their ``words``: (blocks,).

    Rows of nothing but header cells are kept if another row of their table is, all rows below a kept heading.
    """
    cells, kept, count = simple_cells(scan, order), keep.copy(), scan.registers[R.elements]
    votes, is_head, has_rows = np.zeros(count, np.int64), np.zeros(count, np.bool_), np.zeros(count, np.bool_)
    has_heading = np.zeros(count, np.bool_)
    for element in range(1, count):
        name, row = scan.records[element, E.name], scan.records[element, E.parent]
        if name == TR:
            is_head[element] = True
        elif name == TD and scan.records[row, E.parent] > 0:
            is_head[row] = scan.records[scan.records[row, E.parent], E.name] == THEAD
    for index in range(order.size):
        if cells[0, index] >= 0:
            weight = words[index] + 1
            votes[scan.records[cells[0, index], E.parent]] += weight if keep[index] else -weight
            if index and keep[index - 1] and cells[1, index] != cells[1, index - 1]:
                before = scan.records[scan.records[order[index - 1], B.element], E.name]
                has_heading[cells[1, index]] = H1 <= before <= H6
    for index in range(order.size):
        if cells[0, index] >= 0:
            row = scan.records[cells[0, index], E.parent]
            kept[index] = votes[row] >= 0 or has_heading[cells[1, index]]
            has_rows[cells[1, index]] |= kept[index] and not is_head[row]
    for index in range(order.size):
        if cells[0, index] >= 0:
            kept[index] |= is_head[scan.records[cells[0, index], E.parent]] and has_rows[cells[1, index]]
    return kept


@kernel
def with_companions(
    scan: Scan, order: NDArray[np.int64], keep: NDArray[np.bool_], is_colon: NDArray[np.bool_]
) -> NDArray[np.bool_]:
    """Returns ``keep`` with the headings and terms right before kept blocks, the lines before kept lists that end with
    a colon, the code after kept blocks, and the captions between two, or after the last block that is none of these, if
    that is kept: (blocks,). Captions in lists and links are those of teasers, and are left as they are."""
    is_inside = np.zeros(scan.registers[R.elements], np.bool_)
    is_teaser, part = np.zeros(is_inside.size, np.bool_), np.zeros(is_inside.size, np.int64)
    for element in range(1, is_inside.size):
        name, parent = scan.records[element, E.name], scan.records[element, E.parent]
        part[element] = name if name in (LI, DT, DD) else part[parent]
        is_teaser[element] = is_teaser[parent] or name in (A, LI)
        is_inside[element] = is_inside[parent] or (name in (CAPTION, FIGCAPTION) and not is_teaser[parent])
    kept, is_before, is_after = keep.copy(), False, True
    for index in range(order.size):
        if scan.records[order[index], B.flags] & PRE_BLOCK:
            kept[index] |= is_before
        elif is_inside[scan.records[order[index], B.element]]:
            kept[index] = is_before
        else:
            is_before = keep[index]
    for index in range(order.size - 1, -1, -1):
        element, is_pre = scan.records[order[index], B.element], scan.records[order[index], B.flags] & PRE_BLOCK
        if index + 1 < order.size and kept[index + 1]:
            name, after = scan.records[element, E.name], scan.records[order[index + 1], B.element]
            kept[index] |= H1 < name <= H6 and not H1 <= scan.records[after, E.name] <= H6
            kept[index] |= part[after] == DD and part[element] == DT
            kept[index] |= part[after] == LI and part[element] != LI and is_colon[index]
        if is_inside[element] and not is_pre:
            kept[index] = keep[index] or (kept[index] and is_after)
        elif not is_pre:
            is_after = keep[index]
    return kept


MAX_BLOCKS, MAX_ELEMENTS = 100_000, 1_000_000
"""Blocks and elements of a page: a block takes some 1,000 bytes of memory and 5 µs. Of 2,189 real pages the largest has
6,220 blocks of 9,589 elements."""


@dataclass(frozen=True)
class HtmlPage:
    """A page that was read."""

    scan: Scan
    order: NDArray[np.int64]
    """The numbers of the blocks, in the order of the document."""
    facts: PageFacts
    """The statements of the page about itself."""
    summaries: tuple[str, str, str]
    """Its titles, descriptions, and the texts in its linked data."""

    def blocks(self) -> list[str]:
        """Returns the text of each block."""
        return [piece(self.scan, block).decode() for block in self.order]

    def characters(self) -> int:
        """Returns the number of characters of all blocks."""
        text = self.scan.text[: self.scan.registers[R.text]].view(np.int8)
        return int(np.count_nonzero(text >= -0x40))  # all bytes but those from 0x80 to 0xBF

    def text(self, keep: NDArray[np.bool_]) -> str:
        """Returns the text of the blocks to ``keep``: (blocks,)."""
        return lines(*as_shown(self.scan, self.order, keep))


def read_page(html: str | bytes, is_xml: bool = False, with_alt: bool = False) -> HtmlPage | Drop:
    """Reads ``html``, text or valid UTF-8 without NUL, which may be a fragment.

    Drops: ``too_nested`` (more than MAX_DEPTH open elements), ``too_many_blocks`` (more than MAX_BLOCKS, or more than
    MAX_ELEMENTS elements). In XML each element may close itself (``<script/>``), and CDATA sections are text.
    """
    page = html.replace("\0", "").encode("utf-8", "replace") if isinstance(html, str) else html
    scan = new_scan(page, is_xml, with_alt)
    blocks_of(scan)
    if scan.registers[R.fault]:
        return Drop("too_nested", f"more than {MAX_DEPTH}")
    blocks, elements = int(scan.registers[R.blocks]) - 1, int(scan.registers[R.elements]) - 1
    if blocks > MAX_BLOCKS or elements > MAX_ELEMENTS:
        return Drop("too_many_blocks", f"{blocks} blocks in {elements} elements")
    stated = read(scan)
    return HtmlPage(scan, document_order(scan), facts_of(stated), summaries(stated))

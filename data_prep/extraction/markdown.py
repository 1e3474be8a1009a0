"""The text of chosen blocks as Markdown (CommonMark, with the tables of GitHub and ``$…$`` for TeX).

    <h2>Mills</h2><ol start=3><li>one<pre><code class="language-py">x = 1</code></pre></ol>
      ── markdown ──> "## Mills\\n\\n3. one\\n\\n   ```py\\n   x = 1\\n   ```"

Characters of the text that Markdown would read as marks stay as they are, but for ``|`` in a table: a model is to read
the text, nothing renders it. Elements that enclose text of several blocks (a link around a card) give no marks.
"""

import re
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator
from html import unescape
from itertools import groupby
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from headrace.data_prep.extraction.parsing.elements import NUMBER, numbers
from headrace.data_prep.extraction.parsing.scan import (
    BLOCK,
    BLOCK_FLAGS,
    BLOCKS,
    ELEMENTS,
    END,
    PARENT,
    PRE_BLOCK,
    START,
    VALUE_LAST,
    Scan,
)
from headrace.data_prep.extraction.parsing.tag import ALT_TEXT, DISPLAY, TEX
from headrace.data_prep.extraction.text_form import simple_cells

HEADING = {NUMBER[f"h{level}"]: f"{'#' * level} " for level in range(1, 7)}
A, CODE, LI, MATH, OL, PRE, QUOTE, SCRIPT, TABLE, TD, TH = numbers(
    "a code li math ol pre blockquote script table td th"
)
EMPHASIS = {NUMBER[name]: mark for mark, names in {"*": "em i", "**": "strong b"}.items() for name in names.split()}
LANGUAGE = re.compile(r"(?:^|\s)(?:lang(?:uage)?-|highlight-source-|brush:\s*)([\w+#.-]+)")
"""The language of code, in a class of ``pre`` or ``code``."""


class Element(NamedTuple):
    """The columns of an element that Markdown needs, as the columns of records from PARENT on have it."""

    parent: int
    name: int
    flags: int
    start: int
    end: int
    value_start: int
    value_end: int


class Delimiter(NamedTuple):
    """Characters before the text at an offset. At one offset, inner elements close first and outer ones open first."""

    at: int
    opens: bool
    order: int
    characters: str


def markdown(
    scan: Scan, order: NDArray[np.int64], keep: NDArray[np.bool_], emphasis: bool = False, links: bool = False
) -> str:
    """Returns the text of the blocks to ``keep``, which is (blocks,) like ``order``.

    ``emphasis`` and ``links`` add ``*…*`` and ``[…](address)``.
    """
    writer = _Writer(scan, emphasis, links)
    return "".join(writer.pieces(order[keep], simple_cells(scan, order)[keep]))


class _Writer:
    def __init__(self, scan: Scan, emphasis: bool, links: bool) -> None:
        self._page, self._text = scan.page, scan.text.tobytes()
        self._blocks: list[list[int]] = scan.records[: scan.registers[BLOCKS], : BLOCK_FLAGS + 1].tolist()
        rows = scan.records[: scan.registers[ELEMENTS], PARENT : VALUE_LAST + 1].tolist()
        self._elements = [Element(*row) for row in rows]
        self._with_emphasis, self._with_links = emphasis, links
        self._marks = self._all_marks()
        self._numbers = self._item_numbers()
        self._cells: dict[int, list[int]] = defaultdict(list)
        """The cells of each row of a table."""
        for number, element in enumerate(self._elements):
            if element.name in (TD, TH):
                self._cells[element.parent].append(number)
        self._begun: set[int] = set()
        """List items whose mark is written."""

    def pieces(self, blocks: NDArray[np.int64], cells: NDArray[np.int64]) -> Iterator[str]:
        """Yields the text of ``blocks``; ``cells`` are the cells of tables that they are the text of, or -1."""
        before: list[int] | None = None
        known = list(zip(blocks.tolist(), cells.tolist(), strict=True))
        for table, group in groupby(known, lambda pair: self._table_of(pair[1])):
            for part in [list(group)] if table else [[pair] for pair in group]:
                block, _ = part[0]
                around = self._around(self._blocks[block][BLOCK])
                if before is not None:
                    yield self._gap(before, around)
                first, other = self._prefixes(around)
                lines = self._table(part) if table else self._lines(block)
                yield "\n".join(_line(other if number else first, line) for number, line in enumerate(lines))
                before = around

    def _around(self, element: int) -> list[int]:
        """Returns the list items and quotes that enclose an element, the outermost first."""
        lists = []
        while element > 0:
            if self._elements[element].name in (LI, QUOTE):
                lists.append(element)
            element = self._elements[element].parent
        return lists[::-1]

    def _gap(self, before: list[int], after: list[int]) -> str:
        """Returns what stands between two blocks: a line feed before a new list item, else an empty line."""
        is_item = bool(after) and self._elements[after[-1]].name == LI and after[-1] not in self._begun
        if before and is_item and any(self._elements[element].name == LI for element in before):
            return "\n"
        same = [old for old, new in zip(before, after, strict=False) if old == new]
        return f"\n{self._prefixes(same)[1].rstrip()}\n"

    def _prefixes(self, around: list[int]) -> tuple[str, str]:
        """Returns what a block begins with, on its first line and on others."""
        first = other = ""
        for element in around:
            if self._elements[element].name == QUOTE:
                first, other = first + "> ", other + "> "
                continue
            mark = self._numbers.get(element, "- ")
            space = " " * len(mark)
            first, other = first + (space if element in self._begun else mark), other + space
            self._begun.add(element)
        return first, other

    def _item_numbers(self) -> dict[int, str]:
        """Returns the marks of the items of numbered lists."""
        markers, counts = dict[int, str](), dict[int, int]()
        for number, element in enumerate(self._elements):
            if element.name == OL:
                counts[number] = self._integer(element, 1)
            elif element.name == LI and element.parent in counts:
                own = self._integer(element, counts[element.parent])
                markers[number], counts[element.parent] = f"{own}. ", own + 1
        return markers

    def _integer(self, element: Element, default: int) -> int:
        value = self._value(element)
        return int(value) if re.fullmatch("[0-9]{1,9}", value) else default

    def _value(self, element: Element) -> str:
        """Returns the attribute of ``element`` that forms of text need."""
        return unescape(self._page[element.value_start : element.value_end].tobytes().decode())

    def _lines(self, block: int) -> list[str]:
        element = self._blocks[block][BLOCK]
        if self._blocks[block][BLOCK_FLAGS] & PRE_BLOCK:
            text = self._plain(block)
            fence = "`" * max(3, 1 + max(map(len, re.findall("`+", text)), default=0))
            return [fence + self._language(block), *text.split("\n"), fence]
        mark = HEADING.get(self._elements[element].name, "")
        text = self._marked(block)
        return [mark + text.replace("\n", " ")] if mark else text.split("\n")

    def _plain(self, block: int) -> str:
        return self._text[self._blocks[block][START] : self._blocks[block][END]].decode()

    def _marked(self, block: int) -> str:
        """Returns the text of a block with its marks."""
        at, pieces = self._blocks[block][START], []
        for mark in sorted(self._marks.get(block, ())):
            pieces += [self._text[at : mark.at].decode(), mark.characters]
            at = mark.at
        return "".join((*pieces, self._text[at : self._blocks[block][END]].decode()))

    def _language(self, block: int) -> str:
        """Returns the language of a block of code, which a class of its ``pre`` or of a ``code`` in it names."""
        for number in range(self._blocks[block][BLOCK], len(self._elements)):
            element = self._elements[number]
            if element.start >= self._blocks[block][END]:
                break
            if element.name in (CODE, PRE) and (match := LANGUAGE.search(self._value(element))):
                return match[1]
        return ""

    def _table_of(self, cell: int) -> int:
        """Returns the table of a cell; 0 if there is none."""
        while cell > 0 and self._elements[cell].name != TABLE:
            cell = self._elements[cell].parent
        return max(cell, 0)

    def _table(self, part: list[tuple[int, int]]) -> list[str]:
        """Returns the lines of a table, whose first row is its head. Cells that were left out are empty."""
        texts = {cell: self._marked(block).replace("\n", " ").replace("|", "\\|") for block, cell in part}
        rows = [self._cells[row] for row in dict.fromkeys(self._elements[cell].parent for _, cell in part)]
        width = max(map(len, rows))
        lines = [
            "".join(f"| {texts.get(cell, '')} " for cell in row) + "|  " * (width - len(row)) + "|" for row in rows
        ]
        return [lines[0], "|---" * width + "|", *lines[1:]]

    def _all_marks(self) -> dict[int, list[Delimiter]]:
        """Returns the marks in each block, of all elements whose text stands in one block."""
        marks: dict[int, list[Delimiter]] = {}
        starts = [block[START] for block in self._blocks]
        for number, element in enumerate(self._elements):
            pair = self._pair(element)
            start = element.start
            while pair and start < element.end and self._text[start] in b" \n":
                start += 1
            if pair and start < element.end:
                block = bisect_right(starts, start) - 1
                if element.end <= self._blocks[block][END] and not self._blocks[block][BLOCK_FLAGS] & PRE_BLOCK:
                    both = Delimiter(start, True, number, pair[0]), Delimiter(element.end, False, -number, pair[1])
                    marks.setdefault(block, []).extend(both)
        return marks

    def _pair(self, element: Element) -> tuple[str, str] | None:
        """Returns the marks before and after the text of an element, if it has any."""
        if element.flags & {MATH: ALT_TEXT | TEX, SCRIPT: TEX}.get(element.name, 0):
            return ("$$", "$$") if element.flags & DISPLAY else ("$", "$")
        if element.name == CODE:
            return "`", "`"
        if self._with_emphasis and element.name in EMPHASIS:
            return EMPHASIS[element.name], EMPHASIS[element.name]
        if self._with_links and element.name == A and (address := self._value(element)):
            return "[", f"]({address})"
        return None


def _line(prefix: str, line: str) -> str:
    return prefix + line if line else prefix.rstrip()

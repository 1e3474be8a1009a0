"""The text of chosen blocks as Markdown (CommonMark, with the tables of GitHub and ``$…$`` for TeX).

    <h2>Mills</h2><ol start=3><li>one<pre><code class="language-py">x = 1</code></pre></ol>
      ── markdown ──> "## Mills\\n\\n3. one\\n\\n   ```py\\n   x = 1\\n   ```"

Characters of the text that Markdown would read as marks stay as they are, but for ``|`` in a table: a model is to read
the text, nothing renders it. Elements that enclose text of several blocks (a link around a card) give no marks.
"""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator
from html.entities import codepoint2name
from itertools import groupby, takewhile

import numpy as np
from numpy.typing import NDArray

from headrace.data_prep.extraction.edits import SPACES
from headrace.data_prep.extraction.markup import NUMBER, attribute_text, numbers
from headrace.data_prep.extraction.page import MOST_SMALL, MOST_TIMES, PageTables
from headrace.data_prep.extraction.scan import FLAG, PRE_BLOCK, B, E, Element, R, Scan, elements
from headrace.data_prep.extraction.shown import as_shown

HEADING = {NUMBER[f"h{level}"]: f"{'#' * level} " for level in range(1, 7)}
A, CODE, DIV, IMG, LI, MATH, OL, PRE, QUOTE, SCRIPT = numbers("a code div img li math ol pre blockquote script")
LISTS = numbers("dir menu ol ul")
MOST_LEVELS = 20
"""List items and quotes around a block that give marks."""
LISTING_LEVELS = 4
"""Elements around each line of a listing whose lines are a ``pre`` each, and around code that may name its language."""
TEX_FLAGS = {MATH: FLAG.alt_text | FLAG.tex, SCRIPT: FLAG.tex, IMG: FLAG.tex_image}
NO_TEX = re.compile(rb"\s*(?:\$|\\[(\[]|[^\\]*\b[A-Za-z]{4,}[^\\]*$)")
"""Text in an element for a formula that has marks already, or is words."""
STYLE = re.compile(r"\A\{\\(?:display|text)style (.*)\}\Z", re.S)
"""A formula in the braces that MediaWiki puts around each."""
OTHERS = "∑sum ∏prod ∫int ∂partial ∇nabla ∞infty ±pm ×times ·cdot ⋅cdot ≤le ≥ge ≠ne ≈approx ≡equiv ∼sim ∝propto ∈in"
OTHERS += " ∀forall ∃exists ∩cap ∪cup ⊂subset ⊗otimes ⊕oplus →to ←leftarrow …ldots ⋯cdots ℏhbar"
GREEK = "ΓΔΘΛΞΠΣΥΦΨΩαβγδεζηθικλμνξπρστυφχψω"
SIGNS = {sign: codepoint2name[ord(sign)] for sign in GREEK} | {pair[0]: pair[1:] for pair in OTHERS.split()}
"""A sign → the command of TeX for it; Greek letters have the names of HTML."""
SIGN = re.compile(f"([{''.join(SIGNS)}])(?=([^\\W_]?))")
EMPHASIS = {NUMBER[name]: mark for mark, names in {"*": "em i", "**": "strong b"}.items() for name in names.split()}
LANGUAGE = re.compile(r"(?:^|\s)(?:lang(?:uage)?-|highlight-source-|brush:\s*)([\w+#.-]+)")
"""The language of code, in a class."""


Delimiter = tuple[int, bool, int, str]
"""An offset, whether it opens an element, its order, and the characters before the text there. At one offset, inner
elements close first and outer ones open first."""


def markdown(
    scan: Scan, order: NDArray[np.int64], keep: NDArray[np.bool_], emphasis: bool = False, links: bool = False
) -> str:
    """Returns the text of the blocks to ``keep``, which is (blocks,) like ``order``.

    ``emphasis`` and ``links`` add ``*…*`` and ``[…](address)``.
    """
    scan, order, keep = as_shown(scan, order, keep, as_tex=True)
    writer = _Writer(scan, order, emphasis, links)
    return "".join(writer.pieces(np.flatnonzero(keep).tolist()))


class _Writer:
    def __init__(self, scan: Scan, order: NDArray[np.int64], emphasis: bool, links: bool) -> None:
        self._scan, self._text = scan, scan.text[: scan.registers[R.text]].tobytes()
        self._order, self._tables = order.tolist(), PageTables(scan, order)
        self._blocks: list[list[int]] = scan.records[: scan.registers[R.blocks], : B.flags + 1].tolist()
        names = scan.records[: scan.registers[R.elements], E.name]
        self._parents: list[int] = scan.records[: names.size, E.parent].tolist()
        self._names: list[int] = names.tolist()
        written = [CODE, PRE, LI, OL, MATH, SCRIPT, IMG, *(EMPHASIS if emphasis else ()), *([A] if links else ())]
        is_drawn = (scan.records[: names.size, E.flags] & FLAG.math_class != 0) & np.isin(names, numbers("div span"))
        self._elements = elements(scan, np.flatnonzero(np.isin(names, written) | is_drawn))
        """The elements that may give marks, in their order."""
        self._codes = [element.number for element in self._elements if element.name in (CODE, PRE)]
        self._cells = {block: cell for cell, block in self._tables.blocks.items()}
        """The cell that each block of a table is the text of."""
        self._listings: set[int] = set()
        """Blocks of text that flows, all of it lines of code."""
        self._marks = self._all_marks()
        self._numbers = self._item_numbers()
        self._around, self._headings = self._surroundings()
        self._begun: set[int] = set()
        """List items and headings whose mark is written."""

    def pieces(self, indices: list[int]) -> Iterator[str]:
        """Yields the text of the blocks whose places in the page are ``indices``."""
        before: list[int] | None = None
        for (kind, number), group in groupby(indices, self._group_of()):
            part = [self._order[index] for index in group]
            around = self._around[number if kind == "table" else self._blocks[part[0]][B.element]]
            if before is not None:
                yield self._gap(before, around)
            first, other = self._prefixes(around)
            lines = self._table(part) if kind == "table" else self._lines(part)
            yield "\n".join([first + lines[0], *(other + line if line else other.rstrip() for line in lines[1:])])
            before = around

    def _group_of(self) -> Callable[[int], tuple[str, int]]:
        """Returns what gives one value for the blocks of a table, or of a listing; it takes their places in order."""
        before, listing = -2, -1

        def group(index: int) -> tuple[str, int]:
            nonlocal before, listing
            block = self._order[index]
            if self._tables.tables[index]:
                return "table", int(self._tables.tables[index])
            if not (index == before + 1 and self._is_one_listing(self._order[before], block)):
                listing = index
            before = index
            return "block", listing

        return group

    def _is_one_listing(self, before: int, block: int) -> bool:
        """Whether two blocks side by side are code of one ``pre``, or of two alike that have a line each."""
        if not self._blocks[before][B.flags] & self._blocks[block][B.flags] & PRE_BLOCK:
            return False
        first, second = (self._enclosing(self._blocks[number][B.element]) for number in (before, block))
        while first and second and first[-1] == second[-1]:
            if self._names[first.pop()] == PRE:
                return True
            second.pop()
        names = [[self._names[element] for element in path] for path in (first, second)]
        is_line = "\n" not in self._plain(before).strip("\n") and "\n" not in self._plain(block).strip("\n")
        return is_line and names[0] == names[1] and 0 < len(first) <= LISTING_LEVELS

    def _enclosing(self, element: int) -> list[int]:
        """Returns an element and those around it, from the inside out."""
        enclosing = []
        while element > 0:
            enclosing.append(element)
            element = self._parents[element]
        return enclosing

    def _surroundings(self) -> tuple[list[list[int]], list[int]]:
        """Returns the list items and quotes that enclose each element, the outermost first, and the heading, or 0.

        A list right inside a list belongs to the item before it.
        """
        around, headings, last = list[list[int]]([[]]), [0], dict[int, int]()
        for element, name in enumerate(self._names[1:], 1):
            outer, parent = around[self._parents[element]], self._parents[element]
            if name in LISTS and parent in last:
                outer = around[last[parent]]
            elif name == LI and self._names[parent] in LISTS:
                last[parent] = element
            around.append([*outer, element] if name in (LI, QUOTE) and len(outer) < MOST_LEVELS else outer)
            headings.append(element if name in HEADING else headings[parent])
        return around, headings

    def _gap(self, before: list[int], after: list[int]) -> str:
        """Returns what stands between two blocks: a line feed before a new list item, else an empty line."""
        is_item = bool(after) and self._names[after[-1]] == LI and after[-1] not in self._begun
        if is_item and any(self._names[element] == LI for element in before):
            return "\n"
        same = [old for old, new in zip(before, after, strict=False) if old == new]
        return f"\n{self._prefixes(same)[1].rstrip()}\n"

    def _prefixes(self, around: list[int]) -> tuple[str, str]:
        """Returns what a block begins with, on its first line and on others."""
        first = other = ""
        for element in around:
            if self._names[element] == QUOTE:
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
        for element in self._elements:
            if element.name == OL:
                counts[element.number] = self._integer(element, 1)
            elif element.name == LI and element.parent in counts:
                number = self._integer(element, counts[element.parent])
                markers[element.number], counts[element.parent] = f"{number}. ", number + 1
        return markers

    def _integer(self, element: Element, default: int) -> int:
        value = self._value(element.number)
        return int(value) if re.fullmatch("[0-9]{1,9}", value) else default

    def _value(self, element: int) -> str:
        """Returns the attribute of ``element`` that forms of text need."""
        start, end = self._scan.records[element, E.value_start : E.value_end + 1].tolist()
        return attribute_text(self._scan.page[start:end].tobytes().decode())

    def _lines(self, part: list[int]) -> list[str]:
        """Returns the lines of a block, or of the blocks of a listing."""
        block = part[0]
        element = self._blocks[block][B.element]
        if self._blocks[block][B.flags] & PRE_BLOCK or block in self._listings:
            text = "\n".join(self._plain(code).strip("\n") if len(part) > 1 else self._plain(code) for code in part)
            fence = "`" * max(3, 1 + max(map(len, re.findall("`+", text)), default=0))
            return [fence + self._language(block), *text.split("\n"), fence]
        heading = self._headings[element]
        mark = HEADING.get(self._names[heading], "") if heading == element or heading not in self._begun else ""
        self._begun.add(heading)
        text = self._marked(block)
        return [mark + text.replace("\n", " ")] if mark else text.split("\n")

    def _plain(self, block: int) -> str:
        return self._text[self._blocks[block][B.start] : self._blocks[block][B.end]].decode()

    def _marked(self, block: int) -> str:
        """Returns the text of a block with its marks."""
        at, pieces = self._blocks[block][B.start], []
        is_tex = False
        for place, opens, _, characters in sorted(self._marks.get(block, ())):
            piece = self._text[at:place].decode()
            pieces += [_tex(piece) if is_tex else piece, characters]
            at, is_tex = place, opens and characters[0] == "$"
        return "".join((*pieces, self._text[at : self._blocks[block][B.end]].decode()))

    def _language(self, block: int) -> str:
        """Returns the language of a block of code, which a class of its ``pre``, in it, or around it names."""
        element, end = self._blocks[block][B.element], self._blocks[block][B.end]
        first, around = bisect_left(self._codes, element), self._enclosing(element)[:LISTING_LEVELS]
        after = map(self._codes.__getitem__, range(first, len(self._codes)))
        inside = takewhile(lambda code: self._scan.records[code, E.text_start] < end, after)
        for code in (*inside, *(other for other in around if self._names[other] in (CODE, DIV, PRE))):
            if match := LANGUAGE.search(self._value(code)):
                return match[1]
        return ""

    def _table(self, part: list[int]) -> list[str]:
        """Returns the lines of a table, whose first row is its head. Cells that were left out are empty."""
        rows = [dict(slots) for slots in self._tables.rows_of([self._cells[block] for block in part])]
        columns, lines = sorted({column for row in rows for column in row}), []
        is_sparse = len(columns) * len(rows) > MOST_TIMES * sum(map(len, rows)) + MOST_SMALL
        for row in rows:
            own = [column for column in columns if column <= max(row)] if is_sparse else columns
            blocks = [self._tables.blocks.get(row.get(column, 0), 0) for column in own]
            texts = [self._marked(block).replace("\n", " ").replace("|", "\\|") for block in blocks]
            lines.append("".join(f"| {text} " for text in texts) + "|")
        return [lines[0], "|---" * len(columns) + "|", *lines[1:]]

    def _all_marks(self) -> dict[int, list[Delimiter]]:
        """Returns the marks in each block, of all elements whose text stands in one block."""
        marks: dict[int, list[Delimiter]] = {}
        starts, code_end = [block[B.start] for block in self._blocks], 0
        for element in self._elements:
            start, end = element.start, element.end
            start = end - len(self._text[start:end].lstrip(SPACES))
            if code_end <= start < end and (pair := self._pair(element, start)):
                block = bisect_right(starts, start) - 1
                if end > self._blocks[block][B.end] or self._blocks[block][B.flags] & PRE_BLOCK:
                    continue
                code_end = end if element.name == CODE else code_end
                is_whole = (start, end) == (self._blocks[block][B.start], self._blocks[block][B.end])
                if element.name == CODE and is_whole and b"\n" in self._text[start:end]:
                    self._listings.add(block)
                else:
                    both = (start, True, element.number, pair[0]), (end, False, -element.number, pair[1])
                    marks.setdefault(block, []).extend(both)
        return marks

    def _is_formula(self, element: Element, start: int) -> bool:
        """Whether all text of an element is TeX, without marks of its own."""
        if element.name in TEX_FLAGS:
            return bool(element.flags & TEX_FLAGS[element.name])
        is_plain = element.number not in self._parents[element.number + 1 : element.number + 2]
        is_tex = is_plain and not NO_TEX.match(self._text[start : element.end])
        return bool(element.flags & FLAG.math_class and is_tex)

    def _pair(self, element: Element, start: int) -> tuple[str, str] | None:
        """Returns the marks before and after the text of an element, which begins at ``start``, if it has any."""
        if self._is_formula(element, start):
            return ("$$", "$$") if element.flags & FLAG.display else ("$", "$")
        if element.name == CODE:
            code = self._text[start : element.end]  # more backticks than it has side by side, a space next to its own
            mark = "`" * (1 + max(map(len, re.findall(b"`+", code)), default=0))
            space = " " if code.startswith(b"`") or code.endswith(b"`") else ""
            return mark + space, space + mark
        if element.name in EMPHASIS:
            return EMPHASIS[element.name], EMPHASIS[element.name]
        if element.name == A and (address := "%20".join(self._value(element.number).split())):
            return "[", f"]({address})"
        return None


def _tex(formula: str) -> str:
    """Returns a formula with the commands of its signs."""
    formula = STYLE.sub(r"\1", formula.replace("−", "-"))
    return SIGN.sub(lambda match: f"\\{SIGNS[match[1]]}" + " " * bool(match[2]), formula)

"""Changes of the text of a page that was read: pieces that are put in or left out, all made at once.

    Edits ── insert, remove ──> … ── applied ──> Scan with the new text, and with all offsets moved along

What decides which blocks are kept sees the text without them, so it decides alike with marks and without.
"""

import re
from bisect import bisect_right
from itertools import count

import numpy as np

from headrace.data_prep.extraction.markup import attribute_text
from headrace.data_prep.extraction.scan import FLAG, PRE_BLOCK, B, E, Element, R, Scan

SPACES = b" \n"
ATTRIBUTE = re.compile(r"""([^\s=/<>"']+)\s*=\s*(?:"([^"]*)"|'([^']*)'|([^\s>]*))""")


class Edits:
    """Changes of the text of ``scan``; offsets are in its bytes."""

    def __init__(self, scan: Scan) -> None:
        self.scan, self.text = scan, scan.text[: scan.registers[R.text]].tobytes()
        blocks = scan.records[: scan.registers[R.blocks]]
        self._starts: list[int] = blocks[:, B.start].tolist()
        self._ends: list[int] = blocks[:, B.end].tolist()
        self._is_pre: list[bool] = (blocks[:, B.flags] & PRE_BLOCK != 0).tolist()
        self._inserted: list[tuple[int, bool, int, int, bytes, tuple[int, int]]] = []
        self._removed: list[tuple[int, int]] = []
        self._tex: list[int] = []
        self._breaks: set[int] = set()
        self._sequence = count()

    def part(self, number: int) -> Element | None:
        """Returns the element ``number``, if there is one."""
        if not 0 < number < self.scan.registers[R.elements]:
            return None
        return Element(number, *self.scan.records[number, E.parent : E.value_end + 1].tolist())

    def inside(self, outer: Element) -> list[Element]:
        """Returns the elements inside ``outer``, in their order."""
        parts: list[Element] = []
        number = outer.number + 1
        while (part := self.part(number)) and part.parent >= outer.number:
            parts.append(part)
            number += 1
        return parts

    def attributes(self, part: Element) -> dict[str, str]:
        """Returns the attributes of an element of MathML."""
        page = self.scan.page
        tag = page[max(part.value_start - 1000, 0) : part.value_start].tobytes()
        written = tag[tag.rfind(b"<") + 1 :].decode("utf-8", "replace")
        return {name.lower(): attribute_text("".join(values)) for name, *values in ATTRIBUTE.findall(written)}

    def string(self, start: int, end: int) -> str:
        """Returns a piece of the text."""
        return self.text[start:end].decode("utf-8", "ignore")

    def trimmed(self, part: Element) -> tuple[int, int]:
        """Returns where the text of ``part`` begins and ends, without the white space around it."""
        return self.trim(part.start, part.end)

    def trim(self, start: int, end: int) -> tuple[int, int]:
        """Returns the range without the white space around it, which may have been cut off the end of the page."""
        end = min(end, len(self.text))
        while start < end and self.text[start] in SPACES:
            start += 1
        while end > start and self.text[end - 1] in SPACES:
            end -= 1
        return start, end

    def block(self, at: int) -> int:
        """Returns the number of the block with the byte at ``at``."""
        return bisect_right(self._starts, at) - 1

    def bounds(self, at: int) -> tuple[int, int]:
        """Returns where the block with the byte at ``at`` begins and ends."""
        block = self.block(at)
        return self._starts[block], self._ends[block]

    def is_pre(self, at: int) -> bool:
        """Whether the block with the byte at ``at`` is text as it is."""
        return self._is_pre[self.block(at)]

    def insert(self, at: int, text: str, owner: Element | None, closes: bool = False) -> None:
        """Puts ``text`` in at ``at``, unless all of ``owner`` is removed. ``closes``: it belongs to what stands before.

        At one offset, inner elements close first, then come pieces of no ``owner`` that close, and outer elements open
        first.
        """
        number, place = (owner.number, (owner.start, owner.end)) if owner else (-1, (-1, -1))
        sequence = next(self._sequence)
        key = (-number, -sequence) if closes else (number, sequence)
        self._inserted.append((at, not closes, *key, text.encode(), place))

    def enclose(self, start: int, end: int, owner: Element, pair: tuple[str, str] = ("(", ")")) -> None:
        """Puts a pair, such as parentheses, around a piece."""
        self.insert(start, pair[0], owner)
        self.insert(end, pair[1], owner, closes=True)

    def gap(self, at: int, text: str, owner: Element) -> None:
        """Puts ``text`` in at ``at``, in place of the white space before it."""
        start, before = self.bounds(at)[0], at
        while before > start and self.text[before - 1] in SPACES:
            before -= 1
        if before < at:
            self._removed.append((before, at))
        self.insert(at, text, owner)

    def line_feed(self, at: int) -> None:
        """Puts a line feed in between the words around ``at``, which are in one block."""
        start, end = self.bounds(at)
        before = after = at
        if self.is_pre(at):
            if start < at < end and self.text[at - 1] > 0x20 and self.text[at] != 0x0A:
                self._break(at, at)
            return
        while before > start and self.text[before - 1] in SPACES:
            before -= 1
        while after < end and self.text[after] in SPACES:
            after += 1
        if start < before and after < end and b"\n" not in self.text[before:after]:
            self._break(before, after)

    def _break(self, before: int, after: int) -> None:
        if before not in self._breaks:
            self._breaks.add(before)
            self.remove(before, after)
            self._inserted.append((before, True, 0, 0, b"\n", (-1, -1)))

    def remove(self, start: int, end: int) -> None:
        """Leaves a piece out."""
        if start < end:
            self._removed.append((start, end))

    def remove_words(self, start: int, end: int) -> None:
        """Leaves a piece out, and one of the spaces around it: those left over stand between words."""
        if start < end and not self.is_pre(start):
            begins = start == self.bounds(start)[0]
            after = self.string(end, end + 4)[:1] if end < self.bounds(start)[1] else ""
            if self.text[start] in SPACES and after and after not in " \n,.;:!?)]":
                start += 1
            elif begins and after and after in SPACES.decode():
                end += 1
        self.remove(start, end)

    def mark_tex(self, part: Element) -> None:
        """Notes that what is left of ``part`` is TeX."""
        self._tex.append(part.number)

    def settle(self) -> None:
        """Merges the pieces that are removed so far, for ``is_removed``."""
        merged: list[tuple[int, int]] = []
        for start, end in sorted(self._removed):
            if merged and start <= merged[-1][1]:
                merged[-1] = merged[-1][0], max(end, merged[-1][1])
            else:
                merged.append((start, end))
        self._removed = merged

    def is_removed(self, start: int, end: int) -> bool:
        """Whether all of a piece is removed, as of ``settle``."""
        index = bisect_right(self._removed, (start, len(self.text) + 1)) - 1
        return index >= 0 and start < end <= self._removed[index][1]

    def applied(self) -> Scan:
        """Returns the page with all changes."""
        self.settle()
        inserted = sorted(insertion for insertion in self._inserted if not self.is_removed(*insertion[5]))
        if not inserted and not self._removed and not self._tex:
            return self.scan
        text, registers = self._new_text(inserted), self.scan.registers.copy()
        registers[R.text] = len(text)
        records = self.scan.records[: max(registers[[R.blocks, R.elements, R.facts]])].copy(order="F")
        keys = np.array([2 * at + opens for at, opens, *_ in inserted], np.int64)
        added = np.cumsum([0, *(len(insertion[4]) for insertion in inserted)])
        starts, ends = np.array([(0, 0), *self._removed], np.int64).T
        gone = np.cumsum(ends - starts)
        for column, size in (
            (B.start, R.blocks),
            (B.end, R.blocks),
            (E.text_start, R.elements),
            (E.text_end, R.elements),
        ):
            offsets = records[: registers[size], column].astype(np.int64)
            last = np.searchsorted(starts, offsets, "right") - 1
            offsets += added[np.searchsorted(keys, 2 * offsets + 1)]
            offsets -= gone[last] - np.maximum(ends[last] - records[: registers[size], column], 0)
            records[: registers[size], column] = offsets
        records[self._tex, E.flags] |= FLAG.tex
        return self.scan._replace(text=np.frombuffer(text, np.uint8), records=records, registers=registers)

    def _new_text(self, inserted: list[tuple[int, bool, int, int, bytes, tuple[int, int]]]) -> bytes:
        pieces, at, removed, index = [], 0, [*self._removed], 0
        for place, piece in [*((insertion[0], insertion[4]) for insertion in inserted), (len(self.text), b"")]:
            while index < len(removed) and removed[index][1] <= place:
                pieces.append(self.text[at : removed[index][0]])
                at, index = removed[index][1], index + 1
            if index < len(removed) and removed[index][0] < place:
                pieces.append(self.text[at : removed[index][0]])
                removed[index] = place, removed[index][1]
            else:
                pieces.append(self.text[at:place])
            pieces.append(piece)
            at = place
        return b"".join(pieces)

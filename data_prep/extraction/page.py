"""A page of HTML as blocks of text.

    html ── read_page ──> HtmlPage ── text ──> "Title\\nFirst paragraph.\\nName\\tPrice"

All characters that a reader may see are in the blocks, once, in the order of the document. Left out are soft hyphens,
readings of ruby (``rt``, ``rp``), SVG, ``title``, and what no browser shows: scripts, styles, templates, frames. White
space is one space, except in ``pre``. ``noscript`` and declared shadow roots are text: they may hold the whole page.
What marks add to a text, or strike out, is in ``text`` alone (shown.py).
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from headrace.data_prep.document import Drop
from headrace.data_prep.extraction.page_facts import PageFacts, facts_of, read, summaries
from headrace.data_prep.extraction.parsing.scan import MAX_DEPTH, B, R, Scan, new_scan
from headrace.data_prep.extraction.parsing.tree import blocks_of
from headrace.data_prep.extraction.shown import as_shown
from headrace.data_prep.extraction.text_form import document_order, lines

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
        records = self.scan.records
        return [
            self.scan.text[records[block, B.start] : records[block, B.end]].tobytes().decode() for block in self.order
        ]

    def characters(self) -> int:
        """Returns the number of characters of all blocks."""
        text = self.scan.text[: self.scan.registers[R.text]]
        return int(np.count_nonzero(text & 0xC0 != 0x80))

    def text(self, keep: NDArray[np.bool_]) -> str:
        """Returns the text of the blocks to ``keep``: (blocks,)."""
        return lines(*as_shown(self.scan, self.order, keep))

    def compact(self) -> "HtmlPage":
        """Returns this page without the memory that only reading needs."""
        scan, registers = self.scan, self.scan.registers
        rows = max(registers[[R.blocks, R.elements, R.facts]])
        kept = scan._replace(
            page=scan.page[:0],
            text=scan.text[: registers[R.text]].copy(),
            records=np.asfortranarray(scan.records[:rows]),
            tokens=scan.tokens[: registers[R.tokens]].copy(),
            stack=scan.stack[:1].copy(),
        )
        return HtmlPage(kept, self.order, self.facts, self.summaries)

    def whole_text(self) -> str:
        """Returns the text of all blocks."""
        return self.text(np.ones(self.order.size, np.bool_))


def read_page(html: str | bytes, is_xml: bool = False, with_alt: bool = False) -> HtmlPage | Drop:
    """Reads ``html``, text or valid UTF-8, which may be a fragment.

    Drops: ``too_nested`` (more than MAX_DEPTH open elements), ``too_many_blocks`` (more than MAX_BLOCKS, or more than
    MAX_ELEMENTS elements). In XML each element may close itself (``<script/>``), and CDATA sections are text.
    """
    page = html.encode("utf-8", "replace") if isinstance(html, str) else html
    scan = new_scan(page, is_xml, with_alt)
    blocks_of(scan)
    if scan.registers[R.fault]:
        return Drop("too_nested", f"more than {MAX_DEPTH}")
    blocks, elements = scan.registers[[R.blocks, R.elements]] - 1
    if blocks > MAX_BLOCKS or elements > MAX_ELEMENTS:
        return Drop("too_many_blocks", f"{blocks} blocks in {elements} elements")
    stated = read(scan)
    return HtmlPage(scan, document_order(scan), facts_of(stated), summaries(stated))

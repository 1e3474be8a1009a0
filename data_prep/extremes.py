"""The pages of a task that lose the least and the most in extraction, with all their blocks: what people look at.

pages ── offer ──> Extremes ── write ──> {"id": …, "url": …, "share": 0.97, "blocks": [[true, "A mill …"], …]}
"""

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import orjson
from datatrove.data import Document

from headrace.data_prep.sources.html import HtmlExtraction
from headrace.pipeline.core.text_files import created, read_lines

if TYPE_CHECKING:
    from headrace.data_prep.extraction.page import HtmlPage

LEFT_OUT = "jsonl.zst"
"""The suffix of the file."""
LEAST_CHARACTERS = 500
"""Pages with less text are not looked at: a menu and a sentence."""


@dataclass(frozen=True)
class SplitPage:
    """A page, with its blocks."""

    id: str
    url: str
    share: float
    """The share of its characters that extraction left out."""
    blocks: list[tuple[bool, str]]
    """Whether each block is kept, and its text."""


@dataclass
class Extremes:
    """The page with the least, and that with the most left out, of those that were offered."""

    source: HtmlExtraction
    _found: "list[tuple[float, Document, HtmlPage]]" = field(default_factory=list)

    def offer(self, document: Document, page: "HtmlPage") -> None:
        """Notes ``document``, which was made of ``page``, if it is an extreme. Of equal ones, the first is."""
        left_out = document.metadata.get("left_out", 0)
        characters = left_out + len(document.text)
        if characters < LEAST_CHARACTERS:
            return
        share = left_out / characters
        shares = [known for known, _, _ in self._found]
        if not shares or share < min(shares) or share > max(shares):
            ranked = sorted([*self._found, (share, document, page)], key=lambda entry: entry[0])
            self._found = ranked if len(ranked) < 2 else [ranked[0], ranked[-1]]

    def write(self, path: Path) -> None:
        """Writes the pages to ``path``."""
        with created(path, LEFT_OUT) as stream:
            for share, document, page in self._found:
                blocks = list(zip(self.source.choice(page).tolist(), page.blocks(), strict=True))
                url = document.metadata.get("url", "")
                row = {"id": document.id, "url": url, "share": round(share, 4), "blocks": blocks}
                stream.write(orjson.dumps(row, option=orjson.OPT_APPEND_NEWLINE))


def read_extremes(path: Path) -> list[SplitPage]:
    """Returns the pages that ``Extremes`` has written to ``path``."""
    rows = map(orjson.loads, read_lines(path))
    return [SplitPage(**row | {"blocks": [(kept, text) for kept, text in row["blocks"]]}) for row in rows]

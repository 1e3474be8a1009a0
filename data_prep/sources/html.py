"""Source of saved web pages: each HTML file is one document.

site/about.html  ->  Document(text, "site/about.html:0", {"url": <link rel="canonical">})
"""

from collections.abc import Iterator
from typing import ClassVar, Literal

from datatrove.data import Document
from resiliparse.parse.html import HTMLTree

from headrace.data_prep.document import Drop
from headrace.data_prep.sources.charset import sanitize
from headrace.data_prep.sources.compression import pieces
from headrace.data_prep.sources.extraction import Extractor, require_extractor
from headrace.data_prep.sources.files import FileSource
from headrace.data_prep.sources.isolation import isolated
from headrace.data_prep.sources.page_text import html_of, text_of
from headrace.data_prep.sources.source import Record
from headrace.pipeline.core.settings import Positive, settings


@settings
class Html(FileSource):
    """HTML files, plain or compressed.

    Drops: ``binary``, ``not_html`` (JSON, feeds), ``undecodable``, ``no_text``, ``too_nested``, ``record_too_large``,
    ``broken_compression``, ``too_slow``, ``too_much_memory``, ``crashed`` (the extractor).
    """

    revision: ClassVar[int] = 1
    type: Literal["html"] = "html"
    extractor: Extractor = "resiliparse"
    """Program that extracts text from HTML; see benchmarks/html_extraction.py."""
    record_bytes: Positive = 20_000_000
    """Larger pages are dropped and never held in memory."""

    def __post_init__(self) -> None:
        require_extractor(self.extractor)

    def suffixes(self) -> tuple[str, ...]:
        return (".html", ".htm", ".xhtml")

    def read(self, name: str) -> Iterator[Record]:
        content = self._content(name)
        html = content if isinstance(content, Drop) else html_of(content)
        text = html if isinstance(html, Drop) else text_of(html, self.extractor)
        url = text if isinstance(html, Drop) or isinstance(text, Drop) else isolated(canonical_url, html)
        if isinstance(text, Drop):
            yield Document("", f"{name}:0", metadata={"url": ""}), text
        elif isinstance(url, Drop):
            yield Document("", f"{name}:0", metadata={"url": ""}), url
        else:
            yield Document(text, f"{name}:0", metadata={"url": url}), None

    def _content(self, name: str) -> bytes | Drop:
        """Reads the decompressed file."""
        blocks, size = [], 0
        with self.open(name) as stream:
            for piece in pieces(stream):
                if isinstance(piece, bytes):
                    blocks.append(piece)
                    size += len(piece)
                elif piece.is_loss:
                    return Drop("broken_compression", piece.value)
                if size > self.record_bytes:
                    return Drop("record_too_large", f"more than {self.record_bytes}")
        return b"".join(blocks)


def canonical_url(html: str) -> str:
    """Returns the URL of the page's ``<link rel="canonical">``; empty when there is none."""
    if "canonical" not in html:
        return ""
    document = HTMLTree.parse(html).document
    link = document.query_selector('link[rel~="canonical"]') if document is not None else None
    return sanitize(link.getattr("href") or "").strip() if link is not None else ""

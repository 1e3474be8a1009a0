"""Source of saved web pages: each HTML file is one document.

site/about.html  ->  Document(text, "site/about.html:0", {"url": <link rel="canonical">, "page": {…}})
"""

from collections.abc import Iterator
from typing import ClassVar, Literal

from datatrove.data import Document

from headrace.data_prep.document import Drop
from headrace.data_prep.sources.damaged_files import pieces
from headrace.data_prep.sources.extraction import Extracted, HtmlExtraction, html_of, text_of
from headrace.data_prep.sources.files import FileSource
from headrace.data_prep.sources.source import Record
from headrace.pipeline.core.compression import bare_name
from headrace.pipeline.core.settings import Positive, settings


@settings
class Html(HtmlExtraction, FileSource):
    """HTML files, plain or compressed.

    Drops: ``binary``, ``not_html`` (JSON, feeds), ``undecodable``, ``no_text``, ``too_nested``, ``too_many_blocks``,
    ``record_too_large``, ``broken_compression``; of other extractors ``too_slow``, ``too_much_memory``, ``crashed``.
    """

    own_revision: ClassVar[int] = 1
    type: Literal["html"] = "html"
    record_bytes: Positive = 20_000_000
    """Larger pages are dropped and never held in memory."""

    def __post_init__(self) -> None:
        self.require_extractor()

    def suffixes(self) -> tuple[str, ...]:
        return (".html", ".htm", ".xhtml")

    def read(self, name: str) -> Iterator[Record]:
        content = self._content(name)
        html = content if isinstance(content, Drop) else html_of(content)
        is_xml = bare_name(name).endswith(".xhtml")
        extracted = Extracted(html, {}) if isinstance(html, Drop) else text_of(html, self, is_xml)
        metadata = {"url": extracted.facts.get("canonical", "")} | extracted.metadata()
        if isinstance(extracted.text, Drop):
            yield Document("", f"{name}:0", metadata=metadata), extracted.text
        else:
            yield Document(extracted.text, f"{name}:0", metadata=metadata), None

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

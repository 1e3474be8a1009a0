"""Source of web crawls: WARC files with raw HTML (``response``) or extracted text (WET, ``conversion``).

    crawl-00000.warc.gz:0  warcinfo    -> dropped: not_a_page
    crawl-00000.warc.gz:1  response    -> HTTP 200, text/html -> charset -> text -> Document(url, date)
    crawl-00000.warc.gz:2  response    -> dropped: http_status 404
    crawl-00000.warc.gz:3  (cut off)   -> dropped: truncated_record

Every record is counted: records = documents + drops. Files are plain, gzip or zstd, and are read record by record.
"""

from collections.abc import Callable, Iterator
from typing import Any, ClassVar, Literal

from datatrove.data import Document

from headrace.data_prep.document import Drop
from headrace.data_prep.sources.body_types import (
    ContentType,
    content_type,
    is_html_document,
    keeps_tags,
    looks_like_html,
)
from headrace.data_prep.sources.charset import sanitize
from headrace.data_prep.sources.damaged_files import pieces
from headrace.data_prep.sources.extraction import Extracted, HtmlExtraction, decodable, html_of, text_of
from headrace.data_prep.sources.files import FileSource
from headrace.data_prep.sources.source import Record
from headrace.data_prep.sources.warc_payload import PAGES, Parsed, parse, payload, with_http
from headrace.data_prep.sources.warc_records import WarcBytes, warc_records
from headrace.pipeline.core.settings import Positive, settings

HTML_TYPES = ("text/html", "application/xhtml+xml", "application/vnd.wap.xhtml+xml")
XML_TYPES = HTML_TYPES[1:]
"""Content types with which browsers read a page as XML."""
UNKNOWN_TYPES = (
    "", "application/octet-stream", "binary/octet-stream", "unknown/unknown", "application/unknown",
    "application/x-unknown-content-type", "application/x-httpd-php",
)  # fmt: skip
"""Content types that give no information ("": none that can be read). The first bytes of the page decide."""
LOOSE_TYPES = ("text/plain", "text/xml", "application/xml")
"""Content types of pages, too, if servers are not configured: the document type or the root element decides."""


@settings
class Warc(HtmlExtraction, FileSource):
    """WARC and WET files, as Common Crawl, Heritrix, wget, warcio and browsertrix write them.

    Drops: ``not_a_page`` (warcinfo, request, metadata, revisit, …: the record's type), ``http_status``, ``not_html``
    (the content type), ``content_encoding``, ``binary`` (the format of the body), ``undecodable``, ``no_text``,
    ``too_nested``, ``too_many_blocks``, ``record_too_large``, ``truncated_record``, ``wrong_length`` (no record begins
    where Content-Length ends), ``broken_compression``, ``broken_record``; of other extractors ``too_slow``,
    ``too_much_memory`` and ``crashed``.
    docs/reading.md has the table of what is read as a page.
    """

    own_revision: ClassVar[int] = 2
    """In revision 1, documents that the crawler had cut had no ``truncated``."""
    type: Literal["warc"] = "warc"
    record_bytes: Positive = 20_000_000
    """Records whose block or decoded page is larger are dropped and never held in memory."""

    def __post_init__(self) -> None:
        self.require_extractor()

    def suffixes(self) -> tuple[str, ...]:
        return (".warc", ".wet")

    def read(self, name: str) -> Iterator[Record]:
        with self.open(name) as stream:
            for number, record in enumerate(warc_records(pieces(stream), self.record_bytes)):
                yield self._document(f"{name}:{number}", record)

    def _document(self, identity: str, record: WarcBytes) -> Record:
        if record.fault is not None:
            return Document("", identity, metadata={"url": sanitize(record.url), "date": ""}), record.fault
        parsed = parse(record.data)
        headers = (("url", "warc-target-uri"), ("date", "warc-date"))
        metadata: dict[str, Any] = {key: sanitize(parsed.header(name)).strip("<> ") for key, name in headers}
        if parsed.cut:
            metadata["truncated"] = parsed.cut
        extracted = self._extracted(parsed)
        headers_of_page = parsed.http.headers if parsed.http is not None else {}
        metadata |= extracted._replace(facts=with_http(extracted.facts, headers_of_page, metadata["url"])).metadata()
        if isinstance(extracted.text, Drop):
            return Document("", identity, metadata=metadata), extracted.text
        return Document(extracted.text, identity, metadata=metadata), None

    def _extracted(self, parsed: Parsed) -> Extracted:
        """Returns the text of a record that is a page, or why it has none."""
        if (drop := not_a_page(parsed)) is not None:
            return Extracted(drop, {})
        declared = declared_type(parsed)
        is_text = parsed.kind == "conversion" and (declared.essence[:5] == "text/" or declared.essence in UNKNOWN_TYPES)
        is_html = html_test(declared.essence)
        if is_text:
            is_html = looks_like_html if declared.essence in HTML_TYPES else keeps_tags
        body = payload(parsed, self.record_bytes) if is_html is not None else b""
        if isinstance(body, Drop):
            return Extracted(body, {})
        is_page = is_html is not None and is_html(body)
        if not (is_page or is_text):
            other = declared.essence or sanitize(", ".join(parsed.content_types)).lower()
            return Extracted(Drop("not_html", other), {})
        content = html_of(body, declared.charset or ("utf-8" if is_text else None))
        if isinstance(content, Drop):
            return Extracted(content, {})
        if is_page:
            return text_of(content, self, declared.essence in XML_TYPES)
        return Extracted(decodable(content.strip()) if content.strip() else Drop("no_text", ""), {})


def not_a_page(parsed: Parsed) -> Drop | None:
    """Returns the Drop of a record whose headers show that it is no page."""
    if parsed.kind not in PAGES:
        return Drop("not_a_page", sanitize(parsed.header("warc-type")))
    if parsed.http is not None and parsed.http.status != 200:
        return Drop("http_status", "" if parsed.http.status is None else str(parsed.http.status))
    if parsed.http is None and parsed.kind == "response":
        return Drop("not_a_page", "response without HTTP")
    return None


def declared_type(parsed: Parsed) -> ContentType:
    """Returns the content type; where it gives no information, the one that the crawler identified."""
    declared = content_type(parsed.content_types)
    if declared.essence in UNKNOWN_TYPES:
        identified = content_type(parsed.headers.get("warc-identified-payload-type", ())).essence
        return ContentType(identified or declared.essence, declared.charset)
    return declared


def html_test(essence: str) -> Callable[[bytes], bool] | None:
    """Returns the test whether a body of this content type is HTML; None if it cannot be."""
    if essence in HTML_TYPES:
        return lambda _: True
    if essence in UNKNOWN_TYPES:
        return looks_like_html
    return is_html_document if essence in LOOSE_TYPES or essence.endswith("+xml") else None

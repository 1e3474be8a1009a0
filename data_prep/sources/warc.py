"""Source of web crawls: WARC files with raw HTML (``response``) or extracted text (WET, ``conversion``).

    crawl-00000.warc.gz:0  warcinfo    -> dropped: not_a_page
    crawl-00000.warc.gz:1  response    -> HTTP 200, text/html -> charset -> text -> Document(url, date)
    crawl-00000.warc.gz:2  response    -> dropped: http_status 404
    crawl-00000.warc.gz:3  (cut off)   -> dropped: truncated_record

Every record is counted: records = documents + drops. Files are plain, gzip or zstd, and are read record by record.
"""

from collections.abc import Iterator
from typing import ClassVar, Literal

from datatrove.data import Document
from fastwarc.warc import WarcRecord, WarcRecordType

from headrace.data_prep.document import Drop
from headrace.data_prep.sources.charset import decode, sanitize
from headrace.data_prep.sources.compression import pieces
from headrace.data_prep.sources.extraction import Extractor, extract, looks_like_html, require_extractor
from headrace.data_prep.sources.files import FileSource
from headrace.data_prep.sources.source import Record
from headrace.data_prep.sources.warc_payload import Parsed, parse, payload
from headrace.data_prep.sources.warc_records import WarcBytes, warc_records
from headrace.pipeline.core.settings import Positive, settings

HTML_TYPES = ("text/html", "application/xhtml+xml")
UNKNOWN_TYPES = ("", "application/octet-stream", "unk", "unknown/unknown", "application/unknown", "*/*")
"""Content types that give no information. The first bytes of the page decide."""
PAGES = (WarcRecordType.response, WarcRecordType.resource, WarcRecordType.conversion)


@settings
class Warc(FileSource):
    """WARC and WET files, as Common Crawl, Heritrix, wget, warcio and browsertrix write them.

    Drops: ``not_a_page`` (warcinfo, request, metadata, revisit, …: the record's type), ``http_status``, ``not_html``
    (the content type), ``content_encoding``, ``no_text``, ``too_nested``, ``record_too_large``, ``truncated_record``,
    ``wrong_length`` (no record begins where Content-Length ends), ``broken_compression``, ``broken_record``, and
    ``too_slow``, ``too_much_memory``, ``crashed`` (the extractor).
    """

    revision: ClassVar[int] = 1
    type: Literal["warc"] = "warc"
    extractor: Extractor = "resiliparse"
    """Program that extracts text from HTML; see benchmarks/html_extraction.py."""
    record_bytes: Positive = 20_000_000
    """Records whose block or decoded page is larger are dropped and never held in memory."""

    def __post_init__(self) -> None:
        require_extractor(self.extractor)

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
        if parsed is None:
            return Document("", identity, metadata={"url": "", "date": ""}), Drop("broken_record", "unreadable header")
        headers = (("url", "WARC-Target-URI"), ("date", "WARC-Date"))
        metadata = {key: _header(parsed.record, name) for key, name in headers}
        text = self._text(parsed)
        if isinstance(text, Drop):
            return Document("", identity, metadata=metadata), text
        return Document(text, identity, metadata=metadata), None

    def _text(self, parsed: Parsed) -> str | Drop:
        """Returns the text of a record that is a page."""
        if parsed.record.record_type not in PAGES:
            return Drop("not_a_page", _header(parsed.record, "WARC-Type"))
        if parsed.record.record_type == WarcRecordType.conversion:
            body = payload(parsed, self.record_bytes)
            return body if isinstance(body, Drop) else decode(body, "utf-8").strip() or Drop("no_text", "")
        html = self._html(parsed)
        return html if isinstance(html, Drop) else extract(html, self.extractor)

    def _html(self, parsed: Parsed) -> str | Drop:
        """Returns the decoded HTML of a ``response`` or ``resource`` record."""
        record = parsed.record
        if record.is_http:
            status = record.http_headers.status_code if record.http_headers is not None else None
            if status != 200:
                return Drop("http_status", "" if status is None else str(status))
            kind, charset = record.http_content_type or "", record.http_charset
        elif record.record_type == WarcRecordType.response:
            return Drop("not_a_page", "response without HTTP")
        else:
            kind, charset = _header(record, "Content-Type").partition(";")[0], None
        kind = sanitize(kind).strip().lower()
        if kind not in (*HTML_TYPES, *UNKNOWN_TYPES):
            return Drop("not_html", kind)
        body = payload(parsed, self.record_bytes)
        if isinstance(body, Drop):
            return body
        if kind in UNKNOWN_TYPES and not looks_like_html(body):
            return Drop("not_html", kind)
        return decode(body, charset)


def _header(record: WarcRecord, name: str) -> str:
    return sanitize(record.headers.get(name) or "").strip("<> ")

"""Web crawls: WARC files with raw HTML (``response``) or ready text (WET, ``conversion``).

    crawl-00000.warc.gz:0  warcinfo    -> dropped: not_a_page
    crawl-00000.warc.gz:1  response    -> HTTP 200, text/html -> charset -> text -> Document(url, date)
    crawl-00000.warc.gz:2  response    -> dropped: http_status 404
    crawl-00000.warc.gz:3  (cut off)   -> dropped: truncated_record

Every record is accounted for: records in = documents + drops. Plain, gzip or zstd, streamed record by record.
"""

import io
from collections.abc import Iterator
from typing import Literal

from datatrove.data import Document
from fastwarc.warc import ArchiveIterator, WarcRecord, WarcRecordType

from data_prep.document import Drop
from data_prep.sources.charset import clean, decode
from data_prep.sources.compression import pieces
from data_prep.sources.extraction import Extractor, extract, looks_like_html, require
from data_prep.sources.files import FileSource, open_raw
from data_prep.sources.source import Record
from data_prep.sources.warc_records import WarcBytes, warc_records
from pipeline.core.settings import settings

HTML_TYPES = ("text/html", "application/xhtml+xml")
UNKNOWN_TYPES = ("", "application/octet-stream", "unk", "unknown/unknown", "application/unknown", "*/*")
"""Content types that say nothing: the first bytes decide."""
PAGES = (WarcRecordType.response, WarcRecordType.resource, WarcRecordType.conversion)


class Dropped(Exception):  # noqa: N818 - carries a Drop out of the reading of one record; never leaves this module
    def __init__(self, drop: Drop) -> None:
        super().__init__(drop)
        self.drop = drop


@settings
class Warc(FileSource):
    """WARC and WET files, as Common Crawl, Heritrix, wget, warcio and browsertrix write them.

    Drops: ``not_a_page`` (warcinfo, request, metadata, revisit, …: the record's type), ``http_status``, ``not_html``
    (the content type), ``content_encoding``, ``no_text``, ``too_nested``, ``record_too_large``, ``truncated_record``,
    ``wrong_length`` (Content-Length does not lead to the next record), ``broken_compression`` and ``broken_record``.
    """

    type: Literal["warc"] = "warc"
    extractor: Extractor = "resiliparse"
    """What turns HTML into text; see benchmarks/html_extraction.py."""
    record_bytes: int = 20_000_000
    """Records whose block or decoded page is larger than this are dropped, never held in memory."""

    def __post_init__(self) -> None:
        require(self.extractor)

    def suffixes(self) -> tuple[str, ...]:
        return (".warc", ".wet")

    def read(self, name: str) -> Iterator[Record]:
        with open_raw(name) as stream:
            for number, record in enumerate(warc_records(pieces(stream), self.record_bytes)):
                yield self._document(f"{name}:{number}", record)

    def _document(self, identity: str, record: WarcBytes) -> Record:
        if record.fault is not None:
            return Document("", identity, metadata={"url": clean(record.url), "date": ""}), record.fault
        metadata = {"url": "", "date": ""}
        try:
            parsed = _parse(record.data, "all")
            metadata = {key: _header(parsed, name) for key, name in (("url", "WARC-Target-URI"), ("date", "WARC-Date"))}
            return Document(self._text(parsed, record.data), identity, metadata=metadata), None
        except Dropped as dropped:
            return Document("", identity, metadata=metadata), dropped.drop

    def _text(self, record: WarcRecord, data: bytes) -> str:
        """The text of a record.

        Raises:
            Dropped: when it holds none that is wanted.
        """
        if record.record_type not in PAGES:
            raise Dropped(Drop("not_a_page", _header(record, "WARC-Type")))
        if record.record_type == WarcRecordType.conversion:
            text: str | Drop = decode(self._body(record, data), "utf-8").strip() or Drop("no_text", "")
        else:
            text = extract(self._html(record, data), self.extractor)
        if isinstance(text, Drop):
            raise Dropped(text)
        return text

    def _html(self, record: WarcRecord, data: bytes) -> str:
        if record.is_http:
            status = record.http_headers.status_code if record.http_headers is not None else None
            if status != 200:
                raise Dropped(Drop("http_status", "" if status is None else str(status)))
            kind, charset = record.http_content_type or "", record.http_charset
        elif record.record_type == WarcRecordType.response:
            raise Dropped(Drop("not_a_page", "response without HTTP"))
        else:
            kind, charset = _header(record, "Content-Type").partition(";")[0], None
        kind = kind.strip().lower()
        if kind not in (*HTML_TYPES, *UNKNOWN_TYPES):
            raise Dropped(Drop("not_html", clean(kind)))
        body = self._body(record, data)
        if kind in UNKNOWN_TYPES and not looks_like_html(body):
            raise Dropped(Drop("not_html", clean(kind)))
        return decode(body, charset)

    def _body(self, record: WarcRecord, data: bytes) -> bytes:
        """The payload with HTTP's transfer and content encodings undone.

        Archives often keep headers of encodings that the crawler has undone already: then the bytes stand as they are.
        """
        body = _payload(record, self.record_bytes)
        if body is None:
            body = _payload(_parse(data, "none"), self.record_bytes)
            if body is None or not looks_like_html(body):
                raise Dropped(Drop("content_encoding", clean(str(record.http_headers.get("Content-Encoding", "")))))
        if len(body) > self.record_bytes:
            raise Dropped(Drop("record_too_large", f"more than {self.record_bytes}"))
        return body


def _parse(data: bytes, auto_decode: Literal["all", "none"]) -> WarcRecord:
    try:
        for record in ArchiveIterator(io.BytesIO(data), parse_http=True, auto_decode=auto_decode, quirks_mode=True):
            return record
    except OSError:
        if auto_decode != "none":
            return _parse(data, "none")
    raise Dropped(Drop("broken_record", "header cannot be parsed"))


def _payload(record: WarcRecord, limit: int) -> bytes | None:
    """At most ``limit + 1`` bytes of the payload; None when its encoding is not what the header says."""
    blocks, size = [], 0
    try:
        while size <= limit and (block := record.reader.read(limit + 1 - size)):
            blocks.append(block)
            size += len(block)
    except OSError:
        return None
    return b"".join(blocks)


def _header(record: WarcRecord, name: str) -> str:
    return clean(record.headers.get(name) or "").strip("<> ")

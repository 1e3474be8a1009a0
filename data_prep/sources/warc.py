"""Source of web crawls: WARC files with raw HTML (``response``) or extracted text (WET, ``conversion``).

    crawl-00000.warc.gz:0  warcinfo    -> dropped: not_a_page
    crawl-00000.warc.gz:1  response    -> HTTP 200, text/html -> charset -> text -> Document(url, date)
    crawl-00000.warc.gz:2  response    -> dropped: http_status 404
    crawl-00000.warc.gz:3  (cut off)   -> dropped: truncated_record

Every record is counted: records = documents + drops. Files are plain, gzip or zstd, and are read record by record.

    pieces ── warc_records ──> WarcBytes(data, fault=None), WarcBytes(b"", Drop("truncated_record", …)), ...

FastWARC parses the content of a record (warc_payload.py), but it ends silently at the end of a truncated file and stops
at the first bad byte of a gzip file. Here damage between two good records becomes a counted fault, and reading
continues at the next ``WARC/``. Versions 0.17 to 1.1 (ISO 28500:2017) are read, with line ends of CR LF or LF.
"""

import enum
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from datatrove.data import Document

from headrace.data_prep.document import Drop
from headrace.data_prep.sources.damaged_files import Mark, RawPiece, pieces
from headrace.data_prep.sources.files import FileSource
from headrace.data_prep.sources.html import Extracted, HtmlExtraction, decodable, html_of, text_of
from headrace.data_prep.sources.page_bytes import (
    ContentType,
    content_type,
    is_html_document,
    keeps_tags,
    looks_like_html,
    sanitize,
)
from headrace.data_prep.sources.source import Record
from headrace.data_prep.sources.warc_payload import PAGES, Parsed, parse, payload, with_http
from headrace.pipeline.core.settings import Positive, settings

HEADER_BYTES = 1 << 16
"""The largest size of a header."""
SKIP_BYTES = 1 << 20
LINE_ENDS = re.compile(rb"[\r\n]*")
START = re.compile(rb"WARC/\d")
NEXT_START = re.compile(rb"\nWARC/\d+\.\d+\r?\n")
START_BYTES = 16
HEADER_END = re.compile(rb"\r?\n\r?\n")
HEADER_END_BYTES = 4
CONTENT_LENGTH = re.compile(rb"\ncontent-length[ \t]*:[ \t]*(\d{1,18})[ \t]*\r?(?=\n)", re.IGNORECASE)
TARGET = re.compile(rb"\nwarc-target-uri[ \t]*:[ \t]*<?([^\r\n>]*)", re.IGNORECASE)


class _End(enum.Enum):
    FILE = "no piece is left"


@dataclass(frozen=True)
class WarcBytes:
    """One record: header and block as they were written, or the fault because of which it could not be read."""

    data: bytes
    fault: Drop | None = None
    url: str = ""
    """The target URL of a record with a fault, if its header could be read."""


def warc_records(pieces: Iterator[RawPiece], record_bytes: int) -> Iterator[WarcBytes]:
    """Splits decompressed ``pieces`` into records. Holds about ``record_bytes`` in memory at most."""
    buffer = _Buffer(pieces)
    while True:
        if (fault := buffer.find_record()) is not None:
            yield WarcBytes(b"", fault)
        elif buffer.ended:
            return
        else:
            yield _record(buffer, record_bytes)


def _record(buffer: "_Buffer", record_bytes: int) -> WarcBytes:
    """Takes the record at the start of ``buffer``, or its fault."""
    header_bytes = buffer.header_size()
    if header_bytes is None:
        return WarcBytes(b"", buffer.bad_header("header without end"))
    url = match[1].decode("utf-8", "replace") if (match := buffer.first(TARGET, header_bytes)) else ""
    if (length := buffer.first(CONTENT_LENGTH, header_bytes)) is None:
        return WarcBytes(b"", buffer.bad_header("no valid Content-Length"), url)
    content_bytes = int(length[1])
    size = header_bytes + content_bytes
    if content_bytes > record_bytes:
        is_complete = buffer.skip(size)
        fault = Drop("record_too_large", str(content_bytes)) if is_complete else buffer.truncated(size, 0)
        return WarcBytes(b"", fault, url)
    if not buffer.fill(size):
        return WarcBytes(b"", buffer.truncated(size, header_bytes), url)
    if (wrong_end := buffer.check_end(size, header_bytes)) is not None:
        return WarcBytes(b"", wrong_end, url)
    return WarcBytes(buffer.take(size))


class _Buffer:
    """Decompressed bytes from the start of the current record on."""

    def __init__(self, pieces: Iterator[RawPiece]) -> None:
        self._pieces = pieces
        self._data = bytearray()
        self._searched = dict.fromkeys((HEADER_END, TARGET, CONTENT_LENGTH), 0)
        """Bytes at the start in which no match of the pattern begins. They are not searched again, because junk may
        begin a new header on each of its lines."""
        self._line_ends = (0, 0)
        """Start and end of a run of line ends that was already read, for the same reason."""
        self._member_end: int | None = None
        """Offset of the end of a compressed member."""
        self._stop: Mark | _End | None = None
        """The damage or end of the file that prevents further reading until it is handled."""
        self._fault_reported = False
        self._record_in_member = False
        self.ended = False

    def find_record(self) -> Drop | None:
        """Moves to the next ``WARC/`` or to the end. Returns a fault, once, for damage or junk before it."""
        while True:
            self._delete(_after_line_ends(self._data, 0))
            if START.match(self._data):
                self._fault_reported = False
                return None
            if len(self._data) >= START_BYTES or (self._data and self._stop):
                start = self._next_start(0, len(self._data))
                self._delete(start or len(self._data) - (0 if self._stop else START_BYTES - 1))
                if not self._fault_reported:
                    self._fault_reported = True
                    return Drop("broken_record", "bytes that are no record")
            elif isinstance(self._stop, Mark):
                if not self._fault_reported and not (self._stop is Mark.CUT and self._record_in_member):
                    return self.truncated(0, 0)
                self._stop = None
            elif self._stop:
                self.ended = True
                return None
            self._read()

    def header_size(self) -> int | None:
        """Returns the size of the record's header including its empty line, or None if the header has no end."""
        while (end := self.first(HEADER_END, HEADER_BYTES)) is None:
            if len(self._data) >= HEADER_BYTES or not self._read():
                return None
        return end.end()

    def first(self, pattern: re.Pattern[bytes], end: int) -> re.Match[bytes] | None:
        """Returns the first match of ``pattern``, a key of ``_searched``, before ``end``."""
        match = pattern.search(self._data, self._searched[pattern], end)
        last = match.start() if match else min(len(self._data), end) - HEADER_END_BYTES
        self._searched[pattern] = max(last, 0)
        return match

    def fill(self, size: int) -> bool:
        """Reads until the buffer holds the record's ``size`` bytes. Returns False if the record ends earlier."""
        while not self._next_member_begins_within(size):
            if len(self._data) >= size:
                return True
            if not self._read():
                return False
        return False

    def take(self, size: int) -> bytes:
        """Removes and returns the first ``size`` bytes."""
        with memoryview(self._data) as view:
            data = bytes(view[:size])
        self._delete(size)
        return data

    def skip(self, size: int) -> bool:
        """Removes the record's ``size`` bytes. Returns False if the record ends earlier."""
        while size > 0:
            step = min(size, SKIP_BYTES)
            if not self.fill(step):
                return False
            self._delete(step)
            size -= step
        return True

    def check_end(self, size: int, header_bytes: int) -> Drop | None:
        """Checks that the record can end after its first ``size`` bytes. Otherwise deletes it and returns the fault.

        A record can end before two line ends, another record, the end of a member (whose checksum was right) or the end
        of the file.
        """
        self._record_in_member = True
        while True:
            start = self._after_line_ends(size)
            if self._member_end is not None and size <= self._member_end <= start:
                return None
            if self._stop is Mark.DAMAGE and start == len(self._data):
                return self.truncated(0, 0)
            if len(self._data) - start >= START_BYTES or self._stop or start - size > SKIP_BYTES:
                is_end = START.match(self._data, start) or self._data.startswith((b"\r\n\r\n", b"\n\n"), size)
                return None if is_end or start == len(self._data) else self._wrong_length(size, header_bytes)
            self._read()

    def truncated(self, size: int, header_bytes: int) -> Drop:
        """Deletes a record that ended before its ``size`` and returns the fault."""
        self._fault_reported = True
        if isinstance(self._stop, Mark) and self._stop is not Mark.CUT:
            value = "" if self._stop is Mark.DAMAGE else self._stop.value
            self._stop = None
            self._delete(len(self._data))
            return Drop("broken_compression", value)
        if self._next_member_begins_within(size) and self._member_end is not None:
            self._delete(self._member_end)
        elif header_bytes and (next_start := self._next_start(header_bytes - 1, len(self._data))):
            self._delete(next_start)
            return Drop("wrong_length", str(size - header_bytes))
        else:
            self._delete(len(self._data))
        return Drop("truncated_record", str(size - header_bytes))

    def bad_header(self, why: str) -> Drop:
        """Leaves the start of a record with a bad header and returns the fault."""
        self._delete(1)
        self._fault_reported = True
        return Drop("broken_record", why)

    def _wrong_length(self, size: int, header_bytes: int) -> Drop:
        """Deletes a record that no other record follows, but not the records within it, and returns the fault."""
        self._fault_reported = True
        self._delete(self._next_start(header_bytes - 1, size) or size)
        return Drop("wrong_length", str(size - header_bytes))

    def _next_start(self, start: int, end: int) -> int:
        """Returns the offset of the first header after a line end in [start, end), or 0."""
        while (start := self._data.find(b"\nWARC/", start, end)) >= 0:
            if NEXT_START.match(self._data, start, end):
                return start + 1
            start += 1
        return 0

    def _after_line_ends(self, start: int) -> int:
        """Returns the offset after the line ends at ``start``. Many records may have their end in the same run."""
        first, last = self._line_ends
        if not first <= start <= last:
            first = last = start
        self._line_ends = first, _after_line_ends(self._data, last)
        return self._line_ends[1]

    def _next_member_begins_within(self, size: int) -> bool:
        """Whether a compressed member ends, and the next record begins, within the first ``size`` bytes."""
        end = self._member_end
        return end is not None and 0 < end < size and START.match(self._data, end) is not None

    def _delete(self, size: int) -> None:
        del self._data[:size]
        self._searched = {pattern: max(end - size, 0) for pattern, end in self._searched.items()}
        self._line_ends = (self._line_ends[0] - size, self._line_ends[1] - size)
        if self._member_end is not None:
            self._member_end = self._member_end - size if self._member_end >= size else None

    def _read(self) -> bool:
        """Reads the next piece. Returns False if damage or the end of the file must be handled first."""
        if self._stop:
            return False
        piece = next(self._pieces, _End.FILE)
        if isinstance(piece, bytes):
            self._data += piece
            return True
        if piece is Mark.MEMBER_END:
            self._member_end, self._record_in_member = len(self._data), False
            return True
        self._stop = piece
        return False


def _after_line_ends(data: bytearray, start: int) -> int:
    """Returns the offset after the line ends at ``start``."""
    match = LINE_ENDS.match(data, start)
    return match.end() if match else start


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
        text = content.decode().strip()
        return Extracted(decodable(text) if text else Drop("no_text", ""), {})


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

"""The parts of a WARC record: its headers, the HTTP message in it with the facts of a page that it states, the body.

    record bytes ── parse ──> Parsed(headers, http=HttpHead(200, headers), body) ── payload ──> page bytes | Drop
    X-Robots-Tag: noai        facts {"robots": "noindex"}      ── with_http ──> {"robots": "noindex, noai"}
    b"1f8b…", ["gzip"]        ── decoded_body ──>  b"<html>…" | Drop

Archives often keep the headers of codings that the crawler has already decoded, or name codings in unusual ways. So a
coding is decoded where the bytes are in it, and compressed bytes are decoded also where no header says so (codings:
RFC 9110, section 8.4; RFC 9112, section 7).

Names of headers have no case. A line that begins with a space continues the one before it (RFC 9112, section 5.2).
Directives for one robot only (``X-Robots-Tag: googlebot: noindex``) are left out, as those of meta tags are.
Sources: the robots specification of Google Search; the TDM reservation protocol of the W3C community group.
"""

import io
import re
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import urljoin

from fastwarc.stream_io import BrotliReader

from headrace.data_prep.document import Drop
from headrace.data_prep.extraction.licence_places import MENTIONED, OF_PART, OWN
from headrace.data_prep.extraction.page_facts import PageFacts, with_directives
from headrace.data_prep.sources.damaged_files import Mark, pieces
from headrace.data_prep.sources.page_bytes import content_type, is_binary, looks_like_html, sanitize

CHUNK = re.compile(rb"(?:\r?\n)?([0-9a-fA-F]{1,8})[ \t]*(?:;[^\r\n]{0,200})?\r?\n")
PIECE_BYTES, SLICE_BYTES = 1 << 16, 1 << 12
MOST_CODINGS = 5
"""Codings of one body, nested. Chromium's limit is 5 as well."""
NO_CODING = ("", "identity", "none", "chunked", "binary", "8bit", "utf-8")
"""Values of Content-Encoding that change no byte; some are mistakes."""
COMPRESSED = re.compile(rb"\x1f\x8b\x08|\x28\xb5\x2f\xfd")
"""The beginnings of gzip and zstd."""


def decoded_body(body: bytes, content: Sequence[str], transfer: Sequence[str], limit_bytes: int) -> bytes | Drop:
    """Returns ``body`` without its codings.

    ``content`` and ``transfer`` are the values of all headers Content-Encoding and Transfer-Encoding. Drops:
    ``record_too_large`` (more than ``limit_bytes``), ``content_encoding`` (not decodable; value: the header).
    """
    if "chunked" in _names(transfer):
        body = _dechunked(body)
    named = [name for name in (*_names(content), *_names(transfer)) if name not in NO_CODING]
    is_undecoded = False
    for name in reversed(named[-MOST_CODINGS:]):
        before = body
        if len(body) <= limit_bytes and not looks_like_html(body):
            body = _decoded(name, body, limit_bytes)
            is_undecoded |= body is before
    for _ in range(MOST_CODINGS):
        if len(body) <= limit_bytes:
            body = _decoded("gzip", body, limit_bytes)
    if len(body) > limit_bytes:
        return Drop("record_too_large", f"more than {limit_bytes}")
    if is_undecoded and is_binary(body) and not looks_like_html(body):
        return Drop("content_encoding", sanitize(", ".join((*content, *transfer))))
    return body


def _names(headers: Sequence[str]) -> list[str]:
    """Returns the codings that headers list, in the order in which they were applied."""
    return [name.strip(" \t\"'").lower() for header in headers for name in header.split(",")]


def _dechunked(body: bytes) -> bytes:
    """Removes the chunk headers of ``body`` up to the first invalid one, if it begins with a chunk (RFC 9112, 7.1)."""
    chunks: list[bytes] = []
    start = 0
    while header := CHUNK.match(body, start):
        size = int(header[1], 16)
        start = header.end() + size
        if size == 0 or (not chunks and start < len(body) and body[start : start + 1] not in b"\r\n"):
            break
        chunks.append(body[header.end() : start])
    return b"".join(chunks) if chunks else body


def _decoded(name: str, body: bytes, limit_bytes: int) -> bytes:
    """Decodes ``body`` up to damage or to more than ``limit_bytes``; returns it itself if it is not in this coding."""
    blocks, size = [], 0
    try:
        for block in DECODERS[name](body) if name in DECODERS else ():
            blocks.append(block)
            size += len(block)
            if size > limit_bytes:
                break
    except (OSError, zlib.error):
        if not (is_binary(body) and any(blocks)):
            return body
    return b"".join(blocks) if blocks else body


def _compressed(body: bytes) -> Iterator[bytes]:
    """Yields the content of gzip or zstd, which their signatures show, up to damage."""
    for piece in pieces(io.BytesIO(body)) if COMPRESSED.match(body) else ():
        if isinstance(piece, Mark) and piece.is_loss:
            return
        yield piece if isinstance(piece, bytes) else b""


def _deflated(body: bytes) -> Iterator[bytes]:
    """Yields the content of ``deflate``: zlib's format, or what is inside it, which many servers send.

    Raises:
        zlib.error: when it is neither, or damaged, or does not end where the body ends. Text can begin like it.
    """
    has_header = len(body) > 1 and body[0] & 0x0F == 8 and int.from_bytes(body[:2], "big") % 31 == 0
    decoder = zlib.decompressobj(zlib.MAX_WBITS if has_header else -zlib.MAX_WBITS)
    for start in range(0, len(body), SLICE_BYTES):
        data = body[start : start + SLICE_BYTES]
        while data:
            if decoder.eof:
                raise zlib.error("bytes after the end")
            yield decoder.decompress(data, PIECE_BYTES)
            data = decoder.unconsumed_tail or decoder.unused_data
    if not decoder.eof:
        raise zlib.error("incomplete")


def _brotli(body: bytes) -> Iterator[bytes]:
    """Yields the content of ``br``.

    Raises:
        OSError: when it is damaged or incomplete.
    """
    reader = BrotliReader(io.BytesIO(body))
    yield reader.read(PIECE_BYTES)
    while block := reader.read(PIECE_BYTES):
        yield block


DECODERS: dict[str, Callable[[bytes], Iterator[bytes]]] = {
    **dict.fromkeys(("gzip", "x-gzip", "zstd"), _compressed), "deflate": _deflated, "br": _brotli,
}  # fmt: skip


HEADER_END = re.compile(rb"\r?\n\r?\n")
FOLD = re.compile(rb"\r?\n[ \t]+")
STATUS_LINE = re.compile(rb"[\r\n]*(?:HTTP/\d{1,3}(?:\.\d{1,3})?|ICY)[ \t]+(\d{3})(?!\d)[^\r\n]*", re.IGNORECASE)
PAGES = ("response", "resource", "conversion")
"""The types of records that may be pages."""
MOST_INTERIM = 5
"""Responses of status 1xx that may come before the one that has a body."""

Headers = Mapping[str, Sequence[str]]
"""The values of each header, by its name in lower case."""


@dataclass(frozen=True)
class HttpHead:
    """The part of an HTTP response before its body. ``status`` is None without a valid status line."""

    status: int | None
    headers: Headers


@dataclass(frozen=True)
class Parsed:
    """A record. ``body`` is that of the HTTP message if there is one, else the whole block."""

    headers: Headers
    http: HttpHead | None
    body: bytes

    def header(self, name: str) -> str:
        """Returns the first value of the record's header ``name``, or ""."""
        return next(iter(self.headers.get(name, ())), "")

    @property
    def kind(self) -> str:
        """The type of the record in lower case: ``response``, ``conversion``, …"""
        return self.header("warc-type").lower()

    @property
    def cut(self) -> str:
        """Why this is only a part of what the server sent: ``length``, ``time``, …, ``segment``; "": all of it."""
        is_segment = "warc-segment-number" in self.headers
        return sanitize(self.header("warc-truncated")).lower() or "segment" * is_segment

    @property
    def content_types(self) -> Sequence[str]:
        """The values of Content-Type: of the HTTP message if there is one, else of the record."""
        return (self.http or self).headers.get("content-type", ())


def parse(data: bytes) -> Parsed:
    """Parses the record in ``data``: a header that ends in an empty line, and a block.

    The block is an HTTP message if the record's Content-Type says so, or if there is none and it begins like one. The
    block of a record that is not one of PAGES is left out.
    """
    head, start = _head(data, 0)
    headers = _headers(head.partition(b"\n")[2], "utf-8")
    parsed = Parsed(headers, None, b"")
    if parsed.kind not in PAGES:
        return parsed
    essence = content_type(parsed.content_types).essence
    if essence == "application/http" or (not essence and STATUS_LINE.match(data, start)):
        http, start = _http(data, start)
        return Parsed(headers, http, data[start:])
    return Parsed(headers, None, data[start:])


def payload(parsed: Parsed, limit_bytes: int) -> bytes | Drop:
    """Returns the bytes of the page. Drops: ``record_too_large`` (more than ``limit_bytes``), ``content_encoding``."""
    headers: Headers = parsed.http.headers if parsed.http else {}
    codings = headers.get("content-encoding", ()), headers.get("transfer-encoding", ())
    return decoded_body(parsed.body, *codings, limit_bytes)


def _http(data: bytes, start: int) -> tuple[HttpHead, int]:
    """Parses the HTTP response at ``start``; returns the offset of its body, too.

    Interim responses before it are passed over (RFC 9110, section 15.2).
    """
    for _ in range(MOST_INTERIM):
        line = STATUS_LINE.match(data, start)
        status = int(line[1]) if line else None
        head, start = _head(data, line.end() if line else start)
        if status is None or status >= 200 or not STATUS_LINE.match(data, start):
            break
    return HttpHead(status, _headers(head, "latin-1")), start


def _head(data: bytes, start: int) -> tuple[bytes, int]:
    """Returns the bytes from ``start`` to the first empty line, and the offset after it."""
    match = HEADER_END.search(data, start)
    return (data[start : match.start()], match.end()) if match else (data[start:], len(data))


def _headers(lines: bytes, codec: str) -> Headers:
    """Parses lines of ``name: value``. Others are left out."""
    headers: dict[str, list[str]] = {}
    if b"\n " in lines or b"\n\t" in lines:
        lines = FOLD.sub(b" ", lines)
    for line in lines.decode(codec, "replace").split("\n"):
        name, colon, value = line.partition(":")
        if colon:
            headers.setdefault(name.strip().lower(), []).append(value.strip())
    return headers


LICENCE_LINK = re.compile(r"<([^>]*)>(?:[^,<]|,(?!\s*<))*;\s*rel=[\"']?[^;,\"']*\blicense\b", re.IGNORECASE)
"""A licence in the header Link (RFC 8288)."""
HEADERS = {"tdm-reservation": "tdm_reservation", "tdm-policy": "tdm_policy", "content-language": "language"}
"""Header → fact. What the page itself says counts first, but for reservations: the protocol has the header first."""


def with_http(facts: PageFacts, headers: Mapping[str, Sequence[str]], url: str) -> PageFacts:
    """Returns ``facts`` with those of ``headers``, and absolute addresses if ``url`` is that of the page."""
    facts_with_http = with_directives(facts, map(sanitize, headers.get("x-robots-tag", ())))
    linked = [sanitize(address) for value in headers.get("link", ()) for address in LICENCE_LINK.findall(value)]
    if linked:
        facts_with_http[OWN] = " ".join(dict.fromkeys([*facts.get(OWN, "").split(), *linked]))
    for header, fact in HEADERS.items():
        value = " ".join(sanitize(next(iter(headers.get(header, ())), "")).split())
        if value and (fact not in facts or fact != "language"):
            facts_with_http[fact] = value
    for fact in ("canonical", OWN, OF_PART, MENTIONED, "tdm_policy"):
        if url and fact in facts_with_http:
            facts_with_http[fact] = " ".join(_absolute(url, address) for address in facts_with_http[fact].split())
    return {fact: facts_with_http[fact] for fact in sorted(facts_with_http)}


WHOLE = re.compile(r"https?://[^/?#;]+(?:/[^?#;]*)?(?:\?[^#]+)?")
"""Addresses that ``urljoin`` returns as they are, slowly."""


def _absolute(url: str, address: str) -> str:
    """Returns ``address`` as it is seen from ``url``; unchanged if it is no address."""
    if "/" not in address or WHOLE.fullmatch(address):
        return address
    try:
        return urljoin(url, address)
    except ValueError:
        return address

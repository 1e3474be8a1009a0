"""The page inside a WARC record, with HTTP's transfer and content encodings undone.

    record bytes ── parse ──> Parsed(WarcRecord) ── payload ──> page bytes | Drop

Archives often keep the headers of encodings that the crawler has undone already, or name them in odd ways: what the
headers say is tried first, then what the bytes show.
"""

import io
import re
from dataclasses import dataclass
from typing import Literal

from fastwarc.warc import ArchiveIterator, WarcRecord

from headrace.data_prep.document import Drop
from headrace.data_prep.sources.charset import clean
from headrace.data_prep.sources.compression import Mark, pieces
from headrace.data_prep.sources.extraction import looks_like_html

CHUNK = re.compile(rb"(?:\r?\n)?([0-9a-fA-F]{1,8})[^\r\n]{0,200}\r?\n")


@dataclass(frozen=True)
class Parsed:
    """A record, its bytes, and whether its reader undoes the encodings that its headers name."""

    record: WarcRecord
    data: bytes
    decodes: bool


def parse(data: bytes) -> Parsed | None:
    """The one record in ``data``; None when its header is broken."""
    modes: tuple[Literal["all", "none"], ...] = ("all", "none")
    for mode in modes:
        try:
            for record in ArchiveIterator(io.BytesIO(data), parse_http=True, auto_decode=mode, quirks_mode=True):
                return Parsed(record, data, mode == "all")
        except OSError:
            continue
    return None


def payload(parsed: Parsed, limit_bytes: int) -> bytes | Drop:
    """The page's bytes; dropped as ``record_too_large`` beyond ``limit_bytes``, ``content_encoding`` if unreadable."""
    body = _read(parsed.record, limit_bytes) if parsed.decodes else None
    if body is None:
        raw = next(
            iter(ArchiveIterator(io.BytesIO(parsed.data), parse_http=True, quirks_mode=True, auto_decode="none"))
        )
        body = _read(raw, limit_bytes) or b""
        if not looks_like_html(body):
            body = _decompressed(_dechunked(body), limit_bytes)
        if not looks_like_html(body):
            headers = parsed.record.http_headers
            names = ("Content-Encoding", "Transfer-Encoding") if headers is not None else ()
            return Drop("content_encoding", clean(next((headers[name] for name in names if name in headers), "")))
    return body if len(body) <= limit_bytes else Drop("record_too_large", f"more than {limit_bytes}")


def _read(record: WarcRecord, limit_bytes: int) -> bytes | None:
    """At most one byte more than the limit; None when the encoding is not what the headers say."""
    blocks, size = [], 0
    try:
        while size <= limit_bytes and (block := record.reader.read(limit_bytes + 1 - size)):
            blocks.append(block)
            size += len(block)
    except OSError:
        return None
    return b"".join(blocks)


def _dechunked(body: bytes) -> bytes:
    """``body`` without chunk headers, as far as they lead (RFC 9112, section 7.1); as it stands if it has none."""
    chunks, start = [], 0
    while (header := CHUNK.match(body, start)) and int(header[1], 16):
        start = header.end() + int(header[1], 16)
        chunks.append(body[header.end() : start])
    return b"".join(chunks) if chunks else body


def _decompressed(body: bytes, limit_bytes: int) -> bytes:
    """``body`` as it stands, or decompressed as far as it is whole if it shows that it is compressed."""
    blocks, size = [], 0
    for piece in pieces(io.BytesIO(body)):
        if isinstance(piece, bytes):
            blocks.append(piece)
            size += len(piece)
        if size > limit_bytes or (isinstance(piece, Mark) and piece.is_loss):
            break
    return b"".join(blocks)

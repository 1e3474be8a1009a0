"""The page in a WARC record, decoded from HTTP's transfer and content encodings.

    record bytes ── parse ──> Parsed(WarcRecord) ── payload ──> page bytes | Drop

Archives often keep headers of encodings that the crawler has already decoded, or name encodings in unusual ways. So
decoding follows the headers first, and the bytes themselves if that fails.
"""

import io
import re
from dataclasses import dataclass
from typing import Literal

from fastwarc.warc import ArchiveIterator, WarcRecord

from headrace.data_prep.document import Drop
from headrace.data_prep.sources.charset import sanitize
from headrace.data_prep.sources.compression import Mark, pieces
from headrace.data_prep.sources.extraction import looks_like_html

CHUNK = re.compile(rb"(?:\r?\n)?([0-9a-fA-F]{1,8})[^\r\n]{0,200}\r?\n")


@dataclass(frozen=True)
class Parsed:
    """A record, its bytes, and whether its reader decodes the encodings that its headers name."""

    record: WarcRecord
    data: bytes
    decodes: bool


def parse(data: bytes) -> Parsed | None:
    """Parses the single record in ``data``. Returns None when its header is broken."""
    modes: tuple[Literal["all", "none"], ...] = ("all", "none")
    for mode in modes:
        try:
            for record in ArchiveIterator(io.BytesIO(data), parse_http=True, auto_decode=mode, quirks_mode=True):
                return Parsed(record, data, mode == "all")
        except OSError:
            continue
    return None


def payload(parsed: Parsed, limit_bytes: int) -> bytes | Drop:
    """Returns the bytes of the page. Drops: ``record_too_large`` (more than ``limit_bytes``), ``content_encoding``."""
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
            return Drop("content_encoding", sanitize(next((headers[name] for name in names if name in headers), "")))
    return body if len(body) <= limit_bytes else Drop("record_too_large", f"more than {limit_bytes}")


def _read(record: WarcRecord, limit_bytes: int) -> bytes | None:
    """Reads at most one byte more than the limit. Returns None when the headers name a wrong encoding."""
    blocks, size = [], 0
    try:
        while size <= limit_bytes and (block := record.reader.read(limit_bytes + 1 - size)):
            blocks.append(block)
            size += len(block)
    except OSError:
        return None
    return b"".join(blocks)


def _dechunked(body: bytes) -> bytes:
    """Removes the chunk headers of ``body`` up to the first invalid one (RFC 9112, section 7.1), if it has any."""
    chunks, start = [], 0
    while (header := CHUNK.match(body, start)) and int(header[1], 16):
        start = header.end() + int(header[1], 16)
        chunks.append(body[header.end() : start])
    return b"".join(chunks) if chunks else body


def _decompressed(body: bytes, limit_bytes: int) -> bytes:
    """Decompresses ``body`` up to the first damage if it is compressed. Returns other bodies unchanged."""
    blocks, size = [], 0
    for piece in pieces(io.BytesIO(body)):
        if isinstance(piece, bytes):
            blocks.append(piece)
            size += len(piece)
        if size > limit_bytes or (isinstance(piece, Mark) and piece.is_loss):
            break
    return b"".join(blocks)

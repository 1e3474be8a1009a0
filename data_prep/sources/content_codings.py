"""The body of an HTTP message, decoded from its transfer and content codings (RFC 9110, section 8.4; RFC 9112, 7).

    b"1f8b…", ["gzip"]  ── decoded_body ──>  b"<html>…" | Drop

Archives often keep the headers of codings that the crawler has already decoded, or name codings in unusual ways. So a
coding is decoded where the bytes are in it, and compressed bytes are decoded also where no header says so.
"""

import io
import re
import zlib
from collections.abc import Callable, Iterator, Sequence

from fastwarc.stream_io import BrotliReader

from headrace.data_prep.document import Drop
from headrace.data_prep.sources.body_types import is_binary, looks_like_html
from headrace.data_prep.sources.charset import sanitize
from headrace.data_prep.sources.damaged_files import Mark, pieces

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

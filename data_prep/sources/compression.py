"""Decompression that survives damage: gzip, zstd, bz2 or nothing, told apart by the first bytes.

    file bytes ── pieces ──> bytes, bytes, MEMBER_END, bytes, DAMAGE, bytes, MEMBER_END

A crawl's file is a chain of members (one per record), so a bad byte need not cost the rest of the file: after damage
the search goes on at the next member. No piece is larger than about PIECE_BYTES, whatever a hostile file expands to.
"""

import bz2
import enum
import re
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, BinaryIO

import zstandard

PIECE_BYTES = 1 << 20
ZSTD_SLICE_BYTES = 4096
"""zstd's streaming decoder has no output limit: 4 KiB of input expand to at most 128 MiB (RLE blocks)."""


class Mark(enum.Enum):
    """What lies between two pieces."""

    MEMBER_END = "the end of a compressed member"
    DAMAGE = "bytes that could not be decompressed"
    CUT = "the end of the file, inside a member"

    @property
    def is_loss(self) -> bool:
        return self is not Mark.MEMBER_END


Piece = bytes | Mark


class _Gzip:
    def __init__(self, _: object) -> None:
        self._decoder = zlib.decompressobj(wbits=31)

    def feed(self, data: bytes) -> Iterator[bytes]:
        while data and not self._decoder.eof:
            yield self._decoder.decompress(data, PIECE_BYTES)
            data = self._decoder.unconsumed_tail

    @property
    def rest(self) -> bytes | None:
        """What follows the member, once it has ended."""
        return self._decoder.unused_data if self._decoder.eof else None


class _Bz2:
    def __init__(self, _: object) -> None:
        self._decoder = bz2.BZ2Decompressor()

    def feed(self, data: bytes) -> Iterator[bytes]:
        yield self._decoder.decompress(data, PIECE_BYTES)
        while not self._decoder.eof and not self._decoder.needs_input:
            yield self._decoder.decompress(b"", PIECE_BYTES)

    @property
    def rest(self) -> bytes | None:
        return self._decoder.unused_data if self._decoder.eof else None


class _Zstd:
    def __init__(self, dictionary: zstandard.ZstdCompressionDict | None) -> None:
        decompressor = zstandard.ZstdDecompressor(dict_data=dictionary, max_window_size=1 << 31)
        self._decoder = decompressor.decompressobj(read_across_frames=False)
        self._left = b""

    def feed(self, data: bytes) -> Iterator[bytes]:
        for start in range(0, len(data), ZSTD_SLICE_BYTES):
            yield self._decoder.decompress(data[start : start + ZSTD_SLICE_BYTES])
            if self._decoder.eof:
                self._left = self._decoder.unused_data + data[start + ZSTD_SLICE_BYTES :]
                return

    @property
    def rest(self) -> bytes | None:
        return self._left if self._decoder.eof else None


@dataclass(frozen=True)
class _Codec:
    start: re.Pattern[bytes]
    """The first bytes of a member; gzip's also asks for flags that exist, to be found by chance less often."""
    decoder: Callable[[Any], Any]


CODECS = (
    _Codec(re.compile(rb"\x1f\x8b\x08[\x00-\x1f]", re.DOTALL), _Gzip),
    _Codec(re.compile(rb"\x28\xb5\x2f\xfd|[\x50-\x5f]\x2a\x4d\x18", re.DOTALL), _Zstd),
    _Codec(re.compile(rb"BZh[1-9]"), _Bz2),
)
ERRORS = (zlib.error, zstandard.ZstdError, OSError, ValueError)
"""What the three decoders raise on damaged input."""
SKIPPABLE = re.compile(rb"[\x50-\x5f]\x2a\x4d\x18", re.DOTALL)
MARK_BYTES = 8
"""Enough to recognize a member's start, and the head of zstd's skippable frames (magic, u32 size)."""
DICTIONARY_BYTES = 100_000_000
PADDING = b"\0\r\n"
"""What some tools leave between members: no loss."""


def pieces(stream: BinaryIO) -> Iterator[Piece]:
    """The decompressed content of ``stream``, with marks where members end and where bytes were lost."""
    reader = _Reader(stream)
    codec = _codec_of(reader.ahead(MARK_BYTES))
    if codec is None:
        while block := reader.take():
            yield block
        return
    dictionary = None
    while reader.ahead(MARK_BYTES):
        if codec.decoder is _Zstd and SKIPPABLE.match(reader.data):
            dictionary = _skippable(reader) or dictionary
        elif codec.start.match(reader.data):
            yield from _member(reader, codec, dictionary)
        elif reader.skip_to(codec.start):
            yield Mark.DAMAGE


def is_compressed(stream: BinaryIO) -> bool:
    """Whether ``stream``, at its beginning, is anything but plain; leaves it there."""
    stream.seek(0)
    codec = _codec_of(stream.read(MARK_BYTES))
    stream.seek(0)
    return codec is not None


def _codec_of(beginning: bytes) -> _Codec | None:
    return next((codec for codec in CODECS if codec.start.match(beginning)), None)


def _member(reader: "_Reader", codec: _Codec, dictionary: object) -> Iterator[Piece]:
    """One member, to its end or to where it breaks; leaves ``reader`` behind it.

    A decoder notices a loss late, when it has taken in some of what follows: so the next member is looked for in the
    last two blocks, and behind them.
    """
    decoder = codec.decoder(dictionary)
    blocks: list[bytes] = []
    start = 1
    loss = Mark.CUT
    while loss is Mark.CUT and (block := reader.take()):
        if len(blocks) == 2:
            del blocks[0]
            start = 0
        blocks.append(block)
        for piece in _decoded(decoder, block):
            if piece is Mark.DAMAGE:
                loss = piece
            elif piece:
                yield piece
        if decoder.rest is not None:
            reader.data = decoder.rest
            yield Mark.MEMBER_END
            return
    reader.data = b"".join(blocks)[start:] + reader.data
    reader.skip_to(codec.start)
    yield Mark.DAMAGE if reader.data else loss


def _decoded(decoder: Any, block: bytes) -> Iterator[Piece]:
    try:
        yield from decoder.feed(block)
    except ERRORS:
        yield Mark.DAMAGE


def _skippable(reader: "_Reader") -> zstandard.ZstdCompressionDict | None:
    """Pass a skippable frame (magic, u32 size, content); the dictionary it holds, if it is one that can be used.

    Source: IIPC, "Use of the Zstandard compression format in WARC files", frame magic 0x184D2A5D.
    """
    is_dictionary, size = reader.data[0] == 0x5D, int.from_bytes(reader.data[4:8], "little")
    if not is_dictionary or size > DICTIONARY_BYTES:
        reader.skip(8 + size)
        return None
    content = reader.ahead(8 + size)[8 : 8 + size]
    reader.data = reader.data[8 + size :]
    try:
        if content.startswith(b"\x28\xb5\x2f\xfd"):
            content = _first_bytes(_Zstd(None).feed(content), DICTIONARY_BYTES)
        return zstandard.ZstdCompressionDict(content)
    except ERRORS:
        return None


def _first_bytes(blocks: Iterator[bytes], wanted_bytes: int) -> bytes:
    """``blocks`` joined until they hold ``wanted_bytes``: the size that a frame itself names may be any number."""
    first: list[bytes] = []
    size = 0
    for block in blocks:
        first.append(block)
        size += len(block)
        if size >= wanted_bytes:
            break
    return b"".join(first)


class _Reader:
    """Raw bytes with a look ahead; ``data`` is what was read and not yet taken."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self.data = b""

    def ahead(self, wanted_bytes: int) -> bytes:
        while len(self.data) < wanted_bytes and (block := self._stream.read(PIECE_BYTES)):
            self.data += block
        return self.data

    def take(self) -> bytes:
        block = self.data or self._stream.read(PIECE_BYTES)
        self.data = b""
        return block

    def skip(self, size: int) -> None:
        while size > 0 and (block := self.take()):
            self.data = block[size:]
            size -= len(block)

    def skip_to(self, pattern: re.Pattern[bytes]) -> bool:
        """Drop bytes up to the first match of ``pattern``, or all of them; whether any was more than padding."""
        loss = False
        while len(self.ahead(MARK_BYTES)) >= MARK_BYTES:
            found = pattern.search(self.data)
            end = found.start() if found else len(self.data) - MARK_BYTES + 1
            loss = loss or bool(self.data[:end].strip(PADDING))
            self.data = self.data[end:]
            if found:
                return loss
        loss = loss or bool(self.data.strip(PADDING))
        self.data = b""
        return loss

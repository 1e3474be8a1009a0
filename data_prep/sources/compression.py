"""Decompression that continues after damage. The first bytes of a file show whether it is gzip, zstd, bz2 or plain.

    file bytes ── pieces ──> bytes, bytes, MEMBER_END, bytes, DAMAGE, bytes, MEMBER_END

A file of a crawl is a chain of members, one per record. After damage, reading continues at the next member, so a bad
byte does not lose the rest of the file. No piece is larger than about PIECE_BYTES, even if a hostile file expands to
much more.
"""

import bz2
import enum
import re
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import BinaryIO, Protocol

import zstandard

from headrace.data_prep.sources import raw_bytes
from headrace.data_prep.sources.raw_bytes import MARK_BYTES, RawBytes

SLICE_BYTES = 4096
"""Input that a decoder receives at a time. Decoders copy the bytes after the end of a member, and members may be as
short as a slice. Also, zstd's streaming decoder has no output limit: 4 KiB of input expand to at most 128 MiB (RLE
blocks)."""
FIRST_BYTES = 512
"""The first slice of a member. In most junk that looks like a member the decoder fails within it."""
HISTORY_BYTES = 2 * raw_bytes.PIECE_BYTES
"""Bytes of a broken member that are searched again for the start of the next member."""


class Mark(enum.Enum):
    """Marks what happened between two pieces."""

    MEMBER_END = "the end of a compressed member"
    DAMAGE = "bytes that could not be decompressed"
    CUT = "the end of the file, inside a member"

    @property
    def is_loss(self) -> bool:
        """Whether bytes were lost."""
        return self is not Mark.MEMBER_END


Piece = bytes | Mark


class _Decoder(Protocol):
    """Decodes one member of a file."""

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Yields the decompressed bytes of ``data``, in pieces of limited size."""

    @property
    def rest(self) -> bytes | None:
        """The input bytes after the member, or None while the member has not ended."""


class _Gzip:
    def __init__(self, _: object) -> None:
        self._decoder = zlib.decompressobj(wbits=31)

    def feed(self, data: bytes) -> Iterator[bytes]:
        while data and not self._decoder.eof:
            yield self._decoder.decompress(data, raw_bytes.PIECE_BYTES)
            data = self._decoder.unconsumed_tail

    @property
    def rest(self) -> bytes | None:
        return self._decoder.unused_data if self._decoder.eof else None


class _Bz2:
    def __init__(self, _: object) -> None:
        self._decoder = bz2.BZ2Decompressor()

    def feed(self, data: bytes) -> Iterator[bytes]:
        yield self._decoder.decompress(data, raw_bytes.PIECE_BYTES)
        while not self._decoder.eof and not self._decoder.needs_input:
            yield self._decoder.decompress(b"", raw_bytes.PIECE_BYTES)

    @property
    def rest(self) -> bytes | None:
        return self._decoder.unused_data if self._decoder.eof else None


class _Zstd:
    def __init__(self, decompressor: zstandard.ZstdDecompressor) -> None:
        self._decoder = decompressor.decompressobj(read_across_frames=False)
        self._left = b""

    def feed(self, data: bytes) -> Iterator[bytes]:
        for start in range(0, len(data), SLICE_BYTES):
            yield self._decoder.decompress(data[start : start + SLICE_BYTES])
            if self._decoder.eof:
                self._left = self._decoder.unused_data + data[start + SLICE_BYTES :]
                return

    @property
    def rest(self) -> bytes | None:
        return self._left if self._decoder.eof else None


@dataclass(frozen=True)
class Codec:
    """A compression format: the start of a member, and its decoder."""

    start: re.Pattern[bytes]
    """The first bytes of a member. gzip's includes valid flags, so that it occurs less often by chance."""
    decoder: Callable[[zstandard.ZstdDecompressor], _Decoder]


CODECS = {
    "gzip": Codec(re.compile(rb"\x1f\x8b\x08[\x00-\x1f]", re.DOTALL), _Gzip),
    "zstd": Codec(re.compile(rb"\x28\xb5\x2f\xfd|[\x50-\x5f]\x2a\x4d\x18", re.DOTALL), _Zstd),
    "bz2": Codec(re.compile(rb"BZh[1-9]"), _Bz2),
}
ERRORS = (zlib.error, zstandard.ZstdError, OSError, ValueError)
"""The errors that the three decoders raise on damaged input."""
SKIPPABLE = re.compile(rb"[\x50-\x5f]\x2a\x4d\x18", re.DOTALL)
DICTIONARY_BYTES = 100_000_000
MAX_DICTIONARIES = 16
"""Frames of a file that are read as dictionaries; later ones are skipped, because a small frame can cause a large
decompression. A WARC file has one dictionary, and a concatenation of WARC files has one per file."""


def pieces(stream: BinaryIO) -> Iterator[Piece]:
    """Yields the decompressed content of ``stream``, and marks where members end and where bytes were lost."""
    reader = RawBytes(stream)
    codec = _codec_of(reader.peek(MARK_BYTES))
    if codec is None:
        while block := reader.take(raw_bytes.PIECE_BYTES):
            yield block
        return
    decompressor = _decompressor(None)  # one for all members: creating it takes longer than decoding a short member
    frames = 0
    while not reader.is_at_end:
        if codec.decoder is _Zstd and reader.begins_with(SKIPPABLE):
            frames += 1
            if dictionary := _skippable(reader, frames <= MAX_DICTIONARIES):
                decompressor = _decompressor(dictionary)
        elif reader.begins_with(codec.start):
            yield from _member(reader, codec, decompressor)
        elif reader.skip_to(codec.start):
            yield Mark.DAMAGE


def _decompressor(dictionary: zstandard.ZstdCompressionDict | None) -> zstandard.ZstdDecompressor:
    return zstandard.ZstdDecompressor(dict_data=dictionary, max_window_size=1 << 31)


def is_compressed(stream: BinaryIO) -> bool:
    """Whether ``stream`` is compressed. Afterwards its position is its beginning."""
    stream.seek(0)
    codec = _codec_of(stream.read(MARK_BYTES))
    stream.seek(0)
    return codec is not None


def _codec_of(beginning: bytes) -> Codec | None:
    return next((codec for codec in CODECS.values() if codec.start.match(beginning)), None)


def _member(reader: RawBytes, codec: Codec, decompressor: zstandard.ZstdDecompressor) -> Iterator[Piece]:
    """Yields one member up to its end or to its damage, and moves ``reader`` to the next member.

    A decoder notices a loss late, after it has read some of the bytes that follow. So the next member is searched for
    in the last HISTORY_BYTES that the decoder read, and after them.
    """
    decoder = codec.decoder(decompressor)
    taken = 0
    loss = Mark.CUT
    while loss is Mark.CUT and (block := reader.take(SLICE_BYTES if taken else FIRST_BYTES, min(taken, HISTORY_BYTES))):
        taken += len(block)
        for piece in _decoded(decoder, block):
            if piece is Mark.DAMAGE:
                loss = piece
            elif piece:
                yield piece
        if decoder.rest is not None:
            reader.unread(len(decoder.rest))
            yield Mark.MEMBER_END
            return
    reader.rewind(min(taken - 1, HISTORY_BYTES))
    reader.skip_to(codec.start)
    yield loss if reader.is_at_end else Mark.DAMAGE


def _decoded(decoder: _Decoder, block: bytes) -> Iterator[Piece]:
    try:
        yield from decoder.feed(block)
    except ERRORS:
        yield Mark.DAMAGE


def _skippable(reader: RawBytes, may_be_dictionary: bool) -> zstandard.ZstdCompressionDict | None:
    """Skips a skippable frame (magic, u32 size, content). Returns the dictionary in it if it is usable.

    Source: IIPC, "Use of the Zstandard compression format in WARC files", frame magic 0x184D2A5D.
    """
    head = reader.take(8)
    is_dictionary, size = may_be_dictionary and head[0] == 0x5D, int.from_bytes(head[4:8], "little")
    if not is_dictionary or size > DICTIONARY_BYTES:
        reader.skip(size)
        return None
    content = reader.peek(size)
    reader.skip(size)
    try:
        if content.startswith(b"\x28\xb5\x2f\xfd"):
            content = _first_bytes(_Zstd(_decompressor(None)).feed(content), DICTIONARY_BYTES)
        return zstandard.ZstdCompressionDict(content)
    except ERRORS:
        return None


def _first_bytes(blocks: Iterator[bytes], wanted_bytes: int) -> bytes:
    """Joins ``blocks`` until they hold ``wanted_bytes``. The size that a frame states itself may be wrong."""
    first: list[bytes] = []
    size = 0
    for block in blocks:
        first.append(block)
        size += len(block)
        if size >= wanted_bytes:
            break
    return b"".join(first)

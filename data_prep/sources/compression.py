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
SLICE_BYTES = 4096
"""What decoders are given at a time: they copy what follows the end of a member, and members may be as short as a
slice. Also, zstd's streaming decoder has no output limit: 4 KiB of input expand to at most 128 MiB (RLE blocks)."""
FIRST_BYTES = 512
"""The first slice of a member: most junk that looks like one shows itself there."""
HISTORY_BYTES = 2 * PIECE_BYTES
TIMES_AGAIN = 16
"""How often a file's bytes may be read again, on average, to look for members in what a broken one took in. Real damage
needs once or twice; junk that is built so that each member seems to begin inside the one before is passed over."""


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
    name: str
    magic: bytes
    start: re.Pattern[bytes]
    """The first bytes of a member; gzip's also asks for flags that exist, to be found by chance less often."""
    decoder: Callable[[Any], Any]


CODECS = (
    Codec("gzip", b"\x1f\x8b\x08\0", re.compile(rb"\x1f\x8b\x08[\x00-\x1f]", re.DOTALL), _Gzip),
    Codec("zstd", b"\x28\xb5\x2f\xfd", re.compile(rb"\x28\xb5\x2f\xfd|[\x50-\x5f]\x2a\x4d\x18", re.DOTALL), _Zstd),
    Codec("bz2", b"BZh9", re.compile(rb"BZh[1-9]"), _Bz2),
)
ERRORS = (zlib.error, zstandard.ZstdError, OSError, ValueError)
"""What the three decoders raise on damaged input."""
SKIPPABLE = re.compile(rb"[\x50-\x5f]\x2a\x4d\x18", re.DOTALL)
MARK_BYTES = 8
"""Enough to recognize a member's start, and the head of zstd's skippable frames (magic, u32 size)."""
DICTIONARY_BYTES = 100_000_000
MOST_DICTIONARIES = 16
"""Frames of a file that are taken for dictionaries: a small one can cost a large decompression. Later ones are skipped.
A WARC file has one; files that were put together have one each."""
PADDING = b"\0\r\n"
"""What some tools leave between members: no loss."""


def pieces(stream: BinaryIO) -> Iterator[Piece]:
    """The decompressed content of ``stream``, with marks where members end and where bytes were lost."""
    reader = _Reader(stream)
    codec = _codec_of(reader.ahead(MARK_BYTES))
    if codec is None:
        while block := reader.take(PIECE_BYTES):
            yield block
        return
    decompressor = _decompressor(None)  # one for all members: making it takes longer than a short member
    frames = 0
    while not reader.is_at_end:
        if codec.decoder is _Zstd and reader.begins_with(SKIPPABLE):
            frames += 1
            if dictionary := _skippable(reader, frames <= MOST_DICTIONARIES):
                decompressor = _decompressor(dictionary)
        elif reader.begins_with(codec.start):
            yield from _member(reader, codec, decompressor)
        elif reader.skip_to(codec.start):
            yield Mark.DAMAGE


def _decompressor(dictionary: zstandard.ZstdCompressionDict | None) -> zstandard.ZstdDecompressor:
    return zstandard.ZstdDecompressor(dict_data=dictionary, max_window_size=1 << 31)


def is_compressed(stream: BinaryIO) -> bool:
    """Whether ``stream``, at its beginning, is anything but plain; leaves it there."""
    stream.seek(0)
    codec = _codec_of(stream.read(MARK_BYTES))
    stream.seek(0)
    return codec is not None


def _codec_of(beginning: bytes) -> Codec | None:
    return next((codec for codec in CODECS if codec.start.match(beginning)), None)


def _member(reader: "_Reader", codec: Codec, decompressor: zstandard.ZstdDecompressor) -> Iterator[Piece]:
    """One member, to its end or to where it breaks; leaves ``reader`` behind it.

    A decoder notices a loss late, when it has taken in some of what follows: so the next member is looked for in the
    last HISTORY_BYTES of what it took, and behind them.
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
            reader.back(len(decoder.rest))
            yield Mark.MEMBER_END
            return
    reader.read_again(min(taken - 1, HISTORY_BYTES))
    reader.skip_to(codec.start)
    yield loss if reader.is_at_end else Mark.DAMAGE


def _decoded(decoder: Any, block: bytes) -> Iterator[Piece]:
    try:
        yield from decoder.feed(block)
    except ERRORS:
        yield Mark.DAMAGE


def _skippable(reader: "_Reader", may_be_dictionary: bool) -> zstandard.ZstdCompressionDict | None:
    """Pass a skippable frame (magic, u32 size, content); the dictionary it holds, if it is one that can be used.

    Source: IIPC, "Use of the Zstandard compression format in WARC files", frame magic 0x184D2A5D.
    """
    head = reader.take(8)
    is_dictionary, size = may_be_dictionary and head[0] == 0x5D, int.from_bytes(head[4:8], "little")
    if not is_dictionary or size > DICTIONARY_BYTES:
        reader.skip(size)
        return None
    content = reader.ahead(size)
    reader.skip(size)
    try:
        if content.startswith(b"\x28\xb5\x2f\xfd"):
            content = _first_bytes(_Zstd(_decompressor(None)).feed(content), DICTIONARY_BYTES)
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
    """Raw bytes with a look ahead, and back to what was taken last."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._data = b""
        self._place = 0
        self._read_bytes = 0
        self._again_bytes = 0

    def ahead(self, wanted_bytes: int) -> bytes:
        """The next bytes, as many as wanted if the file has them."""
        while len(self._data) - self._place < wanted_bytes and self._read(0):
            pass
        return self._data[self._place : self._place + wanted_bytes]

    def begins_with(self, pattern: re.Pattern[bytes]) -> bool:
        self.ahead(MARK_BYTES)
        return pattern.match(self._data, self._place) is not None

    @property
    def is_at_end(self) -> bool:
        return not self.ahead(1)

    def take(self, most_bytes: int, history_bytes: int = 0) -> bytes:
        """Up to ``most_bytes``, none only at the end; so many bytes before them can be gone back to."""
        if self._place == len(self._data):
            self._read(history_bytes)
        block = self._data[self._place : self._place + most_bytes]
        self._place += len(block)
        return block

    def back(self, size: int) -> None:
        """Give the last ``size`` bytes back."""
        self._place -= size

    def read_again(self, size: int) -> None:
        """Give the last ``size`` bytes back, unless that was done for so many that the file is made to cost time."""
        if self._again_bytes + size <= TIMES_AGAIN * (self._read_bytes + PIECE_BYTES):
            self._again_bytes += size
            self._place -= size

    def skip(self, size: int) -> None:
        while size > 0 and (block := self.take(min(size, PIECE_BYTES))):
            size -= len(block)

    def skip_to(self, pattern: re.Pattern[bytes]) -> bool:
        """Drop bytes up to the first match of ``pattern``, or all of them; whether any was more than padding."""
        loss = False
        while len(self.ahead(MARK_BYTES)) == MARK_BYTES:
            found = pattern.search(self._data, self._place)
            end = found.start() if found else len(self._data) - MARK_BYTES + 1
            loss = bool(self._data[self._place : end].strip(PADDING)) or loss
            self._place = end
            if found:
                return loss
        rest = self.take(MARK_BYTES)
        return bool(rest.strip(PADDING)) or loss

    def _read(self, history_bytes: int) -> bool:
        """Read a block; what lies more than ``history_bytes`` before the next byte is forgotten."""
        block = self._stream.read(PIECE_BYTES)
        first = self._place - history_bytes
        self._data = self._data[first:] + block
        self._place = history_bytes
        self._read_bytes += len(block)
        return bool(block)

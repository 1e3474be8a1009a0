"""Decompression that continues after damage. A file's first bytes show its compression (core/compression.py).

    file bytes ── pieces ──> bytes, bytes, MEMBER_END, bytes, DAMAGE, bytes, MEMBER_END

A file of a crawl is a chain of members, one per record. After damage, reading continues at the next member, so a bad
byte does not lose the rest of the file. No piece is larger than about PIECE_BYTES, even if a hostile file expands to
much more.

    ─── history ───│─ position ──> taken ──> …        RawBytes: begins_with, skip_to search from the position on
       rewind <────┘
"""

import enum
import re
import sys
from collections.abc import Iterator
from typing import BinaryIO

import zstandard

from headrace.pipeline.core import compression
from headrace.pipeline.core.compression import (
    ERRORS,
    HEAD_BYTES,
    MARK_BYTES,
    PADDING,
    REMEDIES,
    REMEDY,
    ZSTD,
    Codec,
    Decoder,
    codec_of,
    unread_format,
    with_head,
    zstd_decompressor,
)
from headrace.pipeline.core.progress import count

MAX_REREADS = 16
"""The maximum number of times that the bytes of a file are read again, on average, to search a broken member for other
members. Real damage needs one or two. The limit stops hostile files in which each member seems to begin inside the one
before."""


class RawBytes:
    """Reads raw bytes, with look-ahead and a way back to the bytes that were taken last."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._data = b""
        self._position = 0
        self._read_bytes = 0
        self._reread_bytes = 0

    def peek(self, wanted_bytes: int) -> bytes:
        """Returns the next ``wanted_bytes``, fewer only at the end of the file, without taking them."""
        while len(self._data) - self._position < wanted_bytes and self._read(0):
            pass
        return self._data[self._position : self._position + wanted_bytes]

    def begins_with(self, pattern: re.Pattern[bytes]) -> bool:
        """Whether the next bytes match ``pattern``."""
        self.peek(MARK_BYTES)
        return pattern.match(self._data, self._position) is not None

    @property
    def is_at_end(self) -> bool:
        return not self.peek(1)

    def take(self, max_bytes: int, history_bytes: int = 0) -> bytes:
        """Takes up to ``max_bytes``, none only at the end. ``rewind`` can then return to ``history_bytes`` before."""
        if self._position == len(self._data):
            self._read(history_bytes)
        block = self._data[self._position : self._position + max_bytes]
        self._position += len(block)
        return block

    def unread(self, size: int) -> None:
        """Puts the last ``size`` bytes back."""
        self._position -= size

    def rewind(self, size: int) -> None:
        """Puts the last ``size`` bytes back to search them again, until MAX_REREADS is reached."""
        if self._reread_bytes + size <= MAX_REREADS * (self._read_bytes + compression.PIECE_BYTES):
            self._reread_bytes += size
            self._position -= size

    def skip(self, size: int) -> None:
        """Skips ``size`` bytes, fewer only at the end of the file."""
        while size > 0 and (block := self.take(min(size, compression.PIECE_BYTES))):
            size -= len(block)

    def skip_to(self, pattern: re.Pattern[bytes]) -> bool:
        """Skips to the first match of ``pattern``, or to the end. Returns whether it skipped more than padding."""
        loss = False
        while len(self.peek(MARK_BYTES)) == MARK_BYTES:
            match = pattern.search(self._data, self._position)
            end = match.start() if match else len(self._data) - MARK_BYTES + 1
            loss = bool(self._data[self._position : end].strip(PADDING)) or loss
            self._position = end
            if match:
                return loss
        rest = self.take(MARK_BYTES)
        return bool(rest.strip(PADDING)) or loss

    def _read(self, history_bytes: int) -> bool:
        """Reads a block, and keeps ``history_bytes`` before the current position. Returns False at the end."""
        block = self._stream.read(compression.PIECE_BYTES)
        count(raw_bytes=len(block))
        first = self._position - history_bytes
        self._data = self._data[first:] + block
        self._position = history_bytes
        self._read_bytes += len(block)
        return bool(block)


SLICE_BYTES = 4096
"""Input that zstd's decoder receives at a time, and a quarter of what others do. Decoders copy the bytes after the end
of a member, and members may be as short as a slice. Also, it limits what zstd returns at once."""
FIRST_BYTES = 512
"""The first slice of a member. In most junk that looks like a member the decoder fails within it."""
HISTORY_BYTES = 2 * compression.PIECE_BYTES
"""Bytes of a broken member that are searched again for the start of the next member."""


class Mark(enum.Enum):
    """Marks what happened between two pieces."""

    MEMBER_END = "the end of a compressed member"
    DAMAGE = "bytes that could not be decompressed"
    CUT = "the end of the file, inside a member"
    UNREAD = f"a compression that is not read: {REMEDY}"
    TAR = f"an archive of files (tar): {REMEDIES['tar']}"
    ARC = f"an ARC file: {REMEDIES['ARC']}"

    @property
    def is_loss(self) -> bool:
        """Whether bytes were lost."""
        return self is not Mark.MEMBER_END


RawPiece = bytes | Mark
UNREAD = {name: {"tar": Mark.TAR, "ARC": Mark.ARC}.get(name, Mark.UNREAD) for name in compression.UNREAD}
"""The marks of files that are not read, by their format."""

SKIPPABLE = re.compile(rb"[\x50-\x5f]\x2a\x4d\x18", re.DOTALL)
DICTIONARY_BYTES = 100_000_000
MAX_DICTIONARIES = 16
"""Frames of a file that are read as dictionaries; later ones are skipped, because a small frame can cause a large
decompression. A WARC file has one dictionary, and a concatenation of WARC files has one per file."""


def pieces(stream: BinaryIO) -> Iterator[RawPiece]:
    """Yields the decompressed content of ``stream``, and marks where members end and where bytes were lost."""
    reader = RawBytes(stream)
    head, content = with_head(_content(reader))
    if (name := unread_format(head)) is not None:
        reader.skip(sys.maxsize)
        yield UNREAD[name]
    else:
        yield from content


def _content(reader: RawBytes) -> Iterator[RawPiece]:
    codec = codec_of(reader.peek(MARK_BYTES))
    if codec is None:
        while block := reader.take(compression.PIECE_BYTES):
            yield block
    else:
        yield from _members(reader, codec)


def _members(reader: RawBytes, codec: Codec) -> Iterator[RawPiece]:
    decompressor = zstd_decompressor()  # one for all members
    frames = 0
    while not reader.is_at_end:
        if codec is ZSTD and reader.begins_with(SKIPPABLE):
            frames += 1
            if dictionary := _skippable(reader, frames <= MAX_DICTIONARIES):
                decompressor = zstd_decompressor(dictionary)
        elif reader.begins_with(codec.start):
            yield from _member(reader, codec, decompressor)
        elif reader.skip_to(codec.start):
            yield Mark.DAMAGE


def is_compressed(stream: BinaryIO) -> bool:
    """Whether ``stream`` is compressed, or not read at all. Afterwards its position is its beginning."""
    stream.seek(0)
    head = stream.read(HEAD_BYTES)
    stream.seek(0)
    return codec_of(head[:MARK_BYTES]) is not None or unread_format(head) is not None


def _member(reader: RawBytes, codec: Codec, decompressor: zstandard.ZstdDecompressor) -> Iterator[RawPiece]:
    """Yields one member up to its end or to its damage, and moves ``reader`` to the next member.

    A decoder notices a loss late, after it has read some of the bytes that follow. So the next member is searched for
    in the last HISTORY_BYTES that the decoder read, and after them.
    """
    decoder = codec.decoder(decompressor)
    taken, slice_bytes = 0, SLICE_BYTES if codec is ZSTD else 4 * SLICE_BYTES
    loss = Mark.CUT
    while loss is Mark.CUT and (block := reader.take(slice_bytes if taken else FIRST_BYTES, min(taken, HISTORY_BYTES))):
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


def _decoded(decoder: Decoder, block: bytes) -> Iterator[RawPiece]:
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
            content = _first_bytes(_frame(content), DICTIONARY_BYTES)
        return zstandard.ZstdCompressionDict(content)
    except ERRORS:
        return None


def _frame(content: bytes) -> Iterator[bytes]:
    """Yields the decompressed content of the zstd frame that ``content`` begins with."""
    decoder = ZSTD.decoder(zstd_decompressor())
    for start in range(0, len(content), SLICE_BYTES):
        yield from decoder.feed(content[start : start + SLICE_BYTES])
        if decoder.rest is not None:
            return


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

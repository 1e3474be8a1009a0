"""Compression formats of files: how the content of each is recognized, decompressed and written.

    first bytes ── codec_of ──> Codec     gzip, zstd, bzip2 or xz; None: plain
                                  ├─ decoder ──> the bytes of one member (a gzip member, zstd frame, bzip2 or xz stream)
                                  └─ encoder <── the bytes of a new file

Another format is a line of CODECS: sources, benchmarks, examples to learn from, exports and messages follow. The
content of a file decides how it is read, never its name. A file is a chain of members. ``text_files`` reads it
strictly, and data_prep/sources/damaged_files.py continues after damage.
"""

import bz2
import gzip
import itertools
import lzma
import re
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, BinaryIO, Protocol, TypeVar, cast

import zstandard
from isal import isal_zlib

T = TypeVar("T")

PIECE_BYTES = 1 << 20
"""The most bytes that gzip, bzip2 and xz return at once."""
MARK_BYTES = 8
"""Enough to recognize the start of a member, and the header of zstd's skippable frames (magic, u32 size)."""
HEAD_BYTES = 512
"""Enough to recognize what is not read: the header of the first file in a tar."""
PADDING = b"\0\r\n"
"""Bytes that some tools write between members. They are no loss."""
MAX_WINDOW_BYTES = 1 << 31
"""The largest window of zstd (its option --long=31) and the most memory of a decoder of xz."""
FNAME = 0x08
"""The flag of a gzip member whose header has the name of the file."""
LEVEL = 3
"""zstd's default compression level."""


class Decoder(Protocol):
    """Decodes one member of a file."""

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Yields the decompressed bytes of ``data``, in pieces.

        zstd has no limit of a piece: 4 KiB of input expand to at most 128 MiB (RLE blocks).
        """

    @property
    def rest(self) -> bytes | None:
        """The input bytes after the member, or None while the member has not ended."""


class _Gzip:
    """isal's decoder, 1.8 times as fast as zlib's; that one for headers that isal may refuse when they come in pieces.

    Those have more than a name (RFC 1952, 2.3.1: FHCRC, FEXTRA, FCOMMENT). Of a member that is cut, isal may return one
    byte less.
    """

    def __init__(self, _: object) -> None:
        self._decoder: Any = None

    def feed(self, data: bytes) -> Iterator[bytes]:
        if self._decoder is None:
            has_fields = any(flags & ~FNAME for flags in data[3:4])
            self._decoder = (zlib if has_fields else isal_zlib).decompressobj(wbits=31)
        while data and not self._decoder.eof:
            yield self._decoder.decompress(data, PIECE_BYTES)
            data = self._decoder.unconsumed_tail

    @property
    def rest(self) -> bytes | None:
        return self._decoder.unused_data if self._decoder is not None and self._decoder.eof else None


class _Limited:
    """A decoder that keeps the input beyond a piece itself: bzip2 and xz."""

    def __init__(self, decoder: bz2.BZ2Decompressor | lzma.LZMADecompressor) -> None:
        self._decoder = decoder

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

    def feed(self, data: bytes) -> Iterator[bytes]:
        yield self._decoder.decompress(data)

    @property
    def rest(self) -> bytes | None:
        return self._decoder.unused_data if self._decoder.eof else None


@dataclass(frozen=True)
class Codec:
    """A compression format."""

    name: str
    suffixes: tuple[str, ...]
    """The ends of names of such files; the first one is usual."""
    start: re.Pattern[bytes]
    """The first bytes of a member. gzip's includes valid flags, so that it occurs less often by chance."""
    decoder: Callable[[zstandard.ZstdDecompressor], Decoder]
    encoder: Callable[[BinaryIO, int, int], Any]
    """Returns a writer that compresses into a file, from the file, zstd's level and the number of bytes (-1: unknown).
    Others than zstd use neither."""


def zstd_decompressor(dictionary: zstandard.ZstdCompressionDict | None = None) -> zstandard.ZstdDecompressor:
    """Returns what a decoder of zstd needs. Creating it takes longer than decoding a short member."""
    return zstandard.ZstdDecompressor(dict_data=dictionary, max_window_size=MAX_WINDOW_BYTES)


def _bzip2(_: object) -> Decoder:
    return _Limited(bz2.BZ2Decompressor())


def _xz(_: object) -> Decoder:
    return _Limited(lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=MAX_WINDOW_BYTES))


def _gzip_encoder(file: BinaryIO, *_: int) -> gzip.GzipFile:
    return gzip.GzipFile("", "wb", 6, file, mtime=0)  # without name and time, equal contents have equal bytes


def _zstd_encoder(file: BinaryIO, level: int, size: int) -> zstandard.ZstdCompressionWriter:
    return zstandard.ZstdCompressor(level=level).stream_writer(file, size=size, closefd=False)


def _bzip2_encoder(file: BinaryIO, *_: int) -> bz2.BZ2File:
    return bz2.BZ2File(file, "wb")


def _xz_encoder(file: BinaryIO, *_: int) -> lzma.LZMAFile:
    return lzma.LZMAFile(file, "wb")


GZIP = Codec("gzip", (".gz", ".gzip"), re.compile(rb"\x1f\x8b\x08[\x00-\x1f]", re.DOTALL), _Gzip, _gzip_encoder)
ZSTD = Codec(
    "zstd", (".zst", ".zstd"), re.compile(rb"\x28\xb5\x2f\xfd|[\x50-\x5f]\x2a\x4d\x18", re.DOTALL), _Zstd, _zstd_encoder
)
BZIP2 = Codec("bzip2", (".bz2",), re.compile(rb"BZh[1-9]"), _bzip2, _bzip2_encoder)
XZ = Codec("xz", (".xz",), re.compile(rb"\xfd7zXZ\x00"), _xz, _xz_encoder)
CODECS = (GZIP, ZSTD, BZIP2, XZ)
ERRORS = (zlib.error, cast(type[Exception], isal_zlib.error), zstandard.ZstdError, lzma.LZMAError, OSError, ValueError)
"""The errors that the decoders raise on damaged input."""

UNREAD = {
    "zip": (re.compile(rb"PK(?:\x03\x04|\x05\x06)"), (".zip",)),
    "lz4": (re.compile(rb"\x04\x22\x4d\x18|\x02\x21\x4c\x18"), (".lz4",)),
    "brotli": (re.compile(rb"(?!)"), (".br",)),
    "7z": (re.compile(rb"7z\xbc\xaf\x27\x1c"), (".7z",)),
    "tar": (re.compile(rb".{257}ustar(?:\x00|  \x00)", re.DOTALL), (".tar", ".tgz", ".tbz", ".tbz2", ".txz", ".tzst")),
    "ARC": (re.compile(rb"filedesc://"), (".arc",)),
}
"""Formats that are not read, also inside a compressed file: its first HEAD_BYTES, and the ends of names. brotli has no
first bytes of its own."""
REMEDIES = {
    "tar": "unpack it",
    "ARC": "convert it with warcio (warcio recompress OLD.arc.gz NEW.warc.gz)",
}
"""Formats that no compression of ours can replace → what to do instead of REMEDY."""
READ = f"{', '.join(codec.name for codec in CODECS[:-1])} or {CODECS[-1].name}"
"""The names of the formats that are read, for messages."""
REMEDY = f"unpack it, or compress it with {READ}"
SUFFIXES = tuple(suffix for codec in CODECS for suffix in codec.suffixes)
UNREAD_SUFFIXES = {suffix: name for name, (_, suffixes) in UNREAD.items() for suffix in suffixes}


def codec_of(beginning: bytes) -> Codec | None:
    """Returns the format of a file that begins with these MARK_BYTES; None: it is plain, or not read."""
    return next((codec for codec in CODECS if codec.start.match(beginning)), None)


def unread_format(head: bytes) -> str | None:
    """Returns the name of the format that is not read, of a file whose first HEAD_BYTES, decompressed, are ``head``."""
    return next((name for name, (start, _) in UNREAD.items() if start.match(head)), None)


def with_head(pieces: Iterator[T]) -> tuple[bytes, Iterator[T]]:
    """Returns the first HEAD_BYTES of the bytes among ``pieces``, and all pieces."""
    first, head = list[T](), b""
    while len(head) < HEAD_BYTES > len(first) and (piece := next(pieces, None)) is not None:
        first.append(piece)
        head += piece[:HEAD_BYTES] if isinstance(piece, bytes) else b""
    return head[:HEAD_BYTES], itertools.chain(first, pieces)


def codec_named(name: str) -> Codec | None:
    """Returns the format that the end of a file's ``name`` asks for."""
    return next((codec for codec in CODECS if name.lower().endswith(codec.suffixes)), None)


def bare_name(name: str) -> str:
    """Returns the ``name`` of a file without the suffix of its compression: ``a.jsonl.gz`` → ``a.jsonl``."""
    suffix = next((suffix for suffix in SUFFIXES if name.lower().endswith(suffix)), "")
    return name[: len(name) - len(suffix)]

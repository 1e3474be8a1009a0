"""Text files in any compression, read strictly and written: benchmarks, examples, lists, shards, exports.

    opened(path)       the decompressed bytes of the whole file, or an error that names it; ``-`` is standard input
    read_lines(path)   its lines
    plain_text(path)   the text of a file that is not compressed
    created(path)      a new file, compressed as the end of its name asks

Raw crawl is read by data_prep/sources/damaged_files.py instead, which continues after damage.
"""

import contextlib
import io
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO, TextIO, cast

from headrace.pipeline.core.compression import (
    ERRORS,
    HEAD_BYTES,
    LEVEL,
    MARK_BYTES,
    PADDING,
    PIECE_BYTES,
    REMEDIES,
    REMEDY,
    SUFFIXES,
    Codec,
    bare_name,
    codec_named,
    codec_of,
    unread_format,
    with_head,
    zstd_decompressor,
)
from headrace.pipeline.core.errors import ArtifactError

STANDARD_INPUT = Path("-")
SLICE_BYTES = 1 << 14
"""Input that a decoder receives at a time."""


@contextlib.contextmanager
def opened(path: Path) -> Iterator[BinaryIO]:
    """Opens the file ``path`` for its decompressed bytes.

    Reading raises ArtifactError when a member is damaged or cut, when anything but padding follows one, and when the
    file is in a format that is not read, such as an archive.

    Raises:
        OSError: when the file cannot be opened.
    """
    with _stored(path) as file:
        yield cast(BinaryIO, io.BufferedReader(_Decompressed(_pieces(path, file)), PIECE_BYTES))


def read_lines(path: Path) -> Iterator[bytes]:
    """Yields the lines of the file ``path`` without their line ends (LF).

    Raises:
        ArtifactError: see ``opened``.
    """
    parts: list[bytes] = []
    with _stored(path) as file:
        for piece in _pieces(path, file):
            first, *others = piece.split(b"\n")
            parts.append(first)
            if others:
                yield b"".join(parts)
                parts = [others.pop()]
                yield from others
    if last := b"".join(parts):
        yield last


def plain_text(path: Path, encoding: str = "utf-8") -> str:
    """Returns the text of the file ``path``, which is not compressed.

    Raises:
        ArtifactError: when it is in a format that is not read, such as an archive.
        UnicodeDecodeError: when it is not text.
        OSError: when it cannot be read.
    """
    content = path.read_bytes()
    if (name := unread_format(content[:HEAD_BYTES])) is not None:
        raise ArtifactError(place(path), f"is in a format that is not read ({name})", REMEDIES.get(name, "unpack it"))
    return io.TextIOWrapper(io.BytesIO(content), encoding).read()


@contextlib.contextmanager
def created(path: Path, name: str = "", level: int = LEVEL, size: int = -1) -> Iterator[BinaryIO]:
    """Creates the file ``path``, compressed as the end of ``name`` (default: its own name) asks.

    Args:
        path: the file.
        name: the name that the file will have.
        level: the level of zstd.
        size: bytes that will be written, if known: zstd notes them.
    """
    codec = codec_named(name or path.name)
    with path.open("wb") as file:
        if codec is None:
            yield file
            return
        with codec.encoder(file, level, size) as stream:
            yield cast(BinaryIO, stream)


def stored_path(path: Path) -> Path:
    """Returns ``path``; where no such file exists, the only file of this name in another compression, or in none."""
    if path.is_file():
        return path
    bare = bare_name(path.name)
    files = [file for suffix in ("", *SUFFIXES) if (file := path.with_name(bare + suffix)).is_file()]
    return files[0] if bare and len(files) == 1 else path


def place(path: Path) -> str:
    """Returns how errors name the file ``path``."""
    return "standard input" if path == STANDARD_INPUT else str(path)


def _stored(path: Path) -> contextlib.AbstractContextManager[io.BufferedReader]:
    """Opens the file ``path`` for its bytes as they are."""
    return path.open("rb") if path != STANDARD_INPUT else contextlib.nullcontext(standard(sys.stdin, place(path)))


def standard(stream: TextIO | None, name: str) -> Any:
    """Returns the bytes of a standard stream, which an ArtifactError names if it is closed, as after ``<&-``."""
    if stream is None:
        raise ArtifactError(name, "is closed", "name a file for it, or a pipe")
    return stream.buffer


class _Decompressed(io.RawIOBase):
    """The bytes of ``pieces`` as a file."""

    def __init__(self, pieces: Iterator[bytes]) -> None:
        self._pieces, self._left = pieces, memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        while not self._left and (piece := next(self._pieces, None)) is not None:
            self._left = memoryview(piece)
        taken = self._left[: len(buffer)]
        buffer[: len(taken)] = taken
        self._left = self._left[len(taken) :]
        return len(taken)


def _pieces(path: Path, file: io.BufferedReader) -> Iterator[bytes]:
    """Yields the decompressed content of ``file``, whose name in errors is ``path``."""
    head, content = with_head(_content(path, file))
    if (name := unread_format(head)) is not None:
        raise ArtifactError(place(path), f"is in a format that is not read ({name})", REMEDIES.get(name, REMEDY))
    yield from content


def _content(path: Path, file: io.BufferedReader) -> Iterator[bytes]:
    codec = codec_of(file.peek(MARK_BYTES)[:MARK_BYTES])
    if codec is None:
        while block := file.read(PIECE_BYTES):
            yield block
        return
    try:
        yield from _members(codec, file)
    except ERRORS as error:
        if getattr(error, "errno", None) is not None:  # an error of the machine
            raise
        raise ArtifactError(place(path), f"cannot be decompressed ({error})", "fetch it again") from None


def _members(codec: Codec, file: BinaryIO) -> Iterator[bytes]:
    """Yields the content of all members.

    Raises:
        ValueError, and other ERRORS: when a member is damaged or cut, or anything but padding follows it.
    """
    decompressor = zstd_decompressor()
    data = file.read(SLICE_BYTES)
    while data := _after_padding(data, file):
        if not codec.start.match(data):
            raise ValueError(f"its {codec.name} content is followed by other bytes")
        decoder = codec.decoder(decompressor)
        yield from decoder.feed(data)
        while decoder.rest is None:
            if not (data := file.read(SLICE_BYTES)):
                raise ValueError(f"it ends inside its {codec.name} content")
            yield from decoder.feed(data)
        data = decoder.rest


def _after_padding(data: bytes, file: BinaryIO) -> bytes:
    """Returns ``data`` without leading padding, with MARK_BYTES or more where ``file`` has them."""
    while len(data := data.lstrip(PADDING)) < MARK_BYTES and (block := file.read(SLICE_BYTES)):
        data += block
    return data

"""Reads ARC files, the format of crawls before WARC, as WARC: each header line becomes the header of a WARC record.

    filedesc://a.arc 0.0.0.0 20090102030405 text/plain 76      ->  WARC-Type: warcinfo
    http://x.org/ 1.2.3.4 20090102030405 text/html 5120        ->  WARC-Type: response, WARC-Target-URI, WARC-Date, …
    HTTP/1.1 200 OK …                                              the same bytes

So warc_records.py finds damage, and warc.py reads the pages. A header of ARC 1.0 and 1.1 has five fields, one of
version 2 ten; the first three and the last one, the length, are the same. Source: Burner and Kahle, "Arc File Format",
Internet Archive 1996.
"""

import enum
import re
from collections.abc import Iterator
from typing import NamedTuple

from headrace.data_prep.sources.damaged_files import Mark, RawPiece

HEADER_BYTES = 1 << 16
"""The largest size of a header line."""
FIRST = b"filedesc://"
"""The first bytes of an ARC file."""
SCHEME = re.compile(rb"[A-Za-z][A-Za-z0-9+.-]*:.")
ADDRESS = re.compile(rb"[0-9A-Fa-f.:]{1,45}")
DATE = re.compile(rb"[0-9]{14}")
LENGTH = re.compile(rb"[0-9]{1,18}")
LINE_ENDS = re.compile(rb"[\r\n]*")
NO_RECORD = b"[bytes that are no ARC record]\r\n"
"""The text in place of such bytes: warc_records.py counts it as a broken record."""


class _Header(NamedTuple):
    """The fields of a header line that are used, and its size."""

    url: bytes
    date: str
    length: int
    size: int

    @classmethod
    def of(cls, line: bytes) -> "_Header | None":
        """Returns the header in ``line``, which ends with its line feed; None if it is none."""
        fields = line.rstrip(b"\r\n").split(b" ")
        if not (SCHEME.match(line) and LENGTH.fullmatch(fields[-1])):
            return None
        for number in range(2, len(fields) - 1):
            if DATE.fullmatch(fields[number]) and ADDRESS.fullmatch(fields[number - 1]):
                url = b" ".join(fields[: number - 1])
                return cls(url, fields[number].decode(), int(fields[-1]), len(line))
        return None


class _State(enum.Enum):
    HEADER = "the header of a record comes next"
    CONTENT = "the content of a record comes next"
    END = "the content has ended; what comes next shows whether its length was right"


def as_warc(pieces: Iterator[RawPiece], is_arc: bool) -> Iterator[RawPiece]:
    """Yields the ``pieces`` of an ARC file as those of a WARC file; others unchanged.

    Args:
        pieces: the decompressed file.
        is_arc: whether its name says that it is an ARC file. Else its first bytes decide.
    """
    first = next(pieces, b"")
    if not is_arc and not (isinstance(first, bytes) and first.startswith(FIRST)):
        yield first
        yield from pieces
        return
    records = _Records()
    yield from records.after(first)
    for piece in pieces:
        yield from records.after(piece)
    yield from records.rest(is_last=True)


class _Records:
    """The bytes of an ARC file that were not handed on yet, and what they are."""

    def __init__(self) -> None:
        self._data = bytearray()
        self._state = _State.HEADER
        self._content_bytes = 0
        """The bytes of the content that were not read yet."""
        self._in_new_member = False
        """True after a compressed member began inside the content, whose record may have ended before."""
        self._reported = False
        """True after NO_RECORD stood for bytes since the last record."""

    def after(self, piece: RawPiece) -> Iterator[RawPiece]:
        """Yields what follows from the next piece."""
        if isinstance(piece, bytes):
            self._data += piece
            yield from self.rest()
            return
        if piece is Mark.MEMBER_END:
            yield from self.rest(is_member_end=True)
            self._in_new_member = self._state is _State.CONTENT
        else:
            yield from self.rest(is_last=True)
            self._state, self._reported = _State.HEADER, True
            self._data.clear()
        yield piece

    def rest(self, is_last: bool = False, is_member_end: bool = False) -> Iterator[bytes]:
        """Yields what follows from the bytes that were read.

        Args:
            is_last: whether no byte follows that belongs to them.
            is_member_end: whether a compressed member ends after them, where a record may end, too.
        """
        while True:
            before = len(self._data), self._state
            step = {_State.HEADER: self._header, _State.CONTENT: self._content, _State.END: self._end}[self._state]
            if (data := step(is_last, is_member_end)) is not None:
                yield data
            elif before == (len(self._data), self._state):
                return

    def _header(self, is_last: bool, is_member_end: bool) -> bytes | None:
        """Takes a header line, or bytes that are none."""
        del self._data[: self._after_line_ends()]
        if header := self._header_at(0):
            self._state, self._content_bytes, self._reported = _State.CONTENT, header.length, False
            del self._data[: header.size]
            return _warc_header(header)
        if not self._data or not (is_last or self._has_line()):
            return None
        self._skip_line()
        if self._reported:
            return None
        self._reported = True
        return NO_RECORD

    def _content(self, is_last: bool, is_member_end: bool) -> bytes | None:
        """Takes content, unless a new member begins with the header of the next record."""
        if self._in_new_member:
            if not (is_last or is_member_end or self._has_line()):
                return None
            self._in_new_member = False
            if self._header_at(0):
                self._state = _State.HEADER
                return None
        content = bytes(self._data[: self._content_bytes])
        del self._data[: len(content)]
        self._content_bytes -= len(content)
        if not self._content_bytes:
            self._state = _State.END
        return content or None

    def _end(self, is_last: bool, is_member_end: bool) -> bytes | None:
        """Ends the record: with line ends where one may end, before a line end or a header, or at the end of a member
        or of the file."""
        following = self._after_line_ends()
        if not (is_last or is_member_end or self._has_line(following)):
            return None
        self._state = _State.HEADER
        may_end = following > 0 or not self._data or self._header_at(0)
        return b"\r\n\r\n" if may_end else None

    def _after_line_ends(self) -> int:
        """Returns the offset after the line ends at the beginning."""
        match = LINE_ENDS.match(self._data)
        return match.end() if match else 0

    def _header_at(self, start: int) -> _Header | None:
        """Returns the header that begins at ``start``, if a whole one does."""
        end = self._data.find(b"\n", start, start + HEADER_BYTES) + 1
        return _Header.of(bytes(self._data[start:end])) if end else None

    def _has_line(self, start: int = 0) -> bool:
        """Whether a whole line begins at ``start``, or more bytes than a header may have."""
        return self._data.find(b"\n", start, start + HEADER_BYTES) >= 0 or len(self._data) - start > HEADER_BYTES

    def _skip_line(self) -> None:
        """Removes the bytes to the end of the line, all if it has none."""
        end = self._data.find(b"\n")
        del self._data[: end + 1 if end >= 0 else len(self._data)]


def _warc_header(header: _Header) -> bytes:
    """Returns the header of a record of WARC."""
    url, date = header.url, header.date
    kind = b"warcinfo" if url.startswith(FIRST) else b"response"
    content_type = b"application/http" if url[:4].lower() == b"http" else b"application/octet-stream"
    day, clock = f"{date[:4]}-{date[4:6]}-{date[6:8]}", f"{date[8:10]}:{date[10:12]}:{date[12:]}"
    fields = {
        b"WARC-Type": kind,
        b"WARC-Target-URI": url,
        b"WARC-Date": f"{day}T{clock}Z".encode(),
        b"Content-Type": content_type,
        b"Content-Length": b"%d" % header.length,
    }
    lines = b"".join(name + b": " + value + b"\r\n" for name, value in fields.items())
    return b"WARC/1.0\r\n" + lines + b"\r\n"

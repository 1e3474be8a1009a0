"""Where each record of a WARC file begins and ends, found again after damage.

    pieces ── warc_records ──> WarcBytes(data, fault=None), WarcBytes(b"", Drop("truncated_record", …)), ...

FastWARC parses what is inside a record (see warc.py), but it ends silently at a cut file and gives up at the first bad
byte of a gzip. Here everything between two good records becomes a counted fault, and reading goes on at the next
``WARC/``. Versions 0.17 to 1.1 (ISO 28500:2017), line ends of CR LF or LF alone.
"""

import enum
import re
from collections.abc import Iterator
from dataclasses import dataclass

from headrace.data_prep.document import Drop
from headrace.data_prep.sources.compression import Mark, Piece

HEADER_BYTES = 1 << 16
"""A header larger than this is not one."""
SKIP_BYTES = 1 << 20
LINE_ENDS = re.compile(rb"[\r\n]*")
START = re.compile(rb"WARC/\d")
NEXT_START = re.compile(rb"\nWARC/\d+\.\d+\r?\n")
START_BYTES = 16
HEADER_END = re.compile(rb"\r?\n\r?\n")
HEADER_END_BYTES = 4
CONTENT_LENGTH = re.compile(rb"\ncontent-length[ \t]*:[ \t]*(\d{1,18})[ \t]*\r?(?=\n)", re.IGNORECASE)
TARGET = re.compile(rb"\nwarc-target-uri[ \t]*:[ \t]*<?([^\r\n>]*)", re.IGNORECASE)


class _End(enum.Enum):
    FILE = "no piece is left"


@dataclass(frozen=True)
class WarcBytes:
    """One record: header and block as they were written, or the fault that kept it from being read."""

    data: bytes
    fault: Drop | None = None
    url: str = ""
    """The target of a record with a fault, as far as its header could be read."""


def warc_records(pieces: Iterator[Piece], record_bytes: int) -> Iterator[WarcBytes]:
    """Cut decompressed ``pieces`` into records, holding at most about one of ``record_bytes`` in memory."""
    buffer = _Buffer(pieces)
    while True:
        if (fault := buffer.seek()) is not None:
            yield WarcBytes(b"", fault)
        elif buffer.ended:
            return
        else:
            yield _record(buffer, record_bytes)


def _record(buffer: "_Buffer", record_bytes: int) -> WarcBytes:
    header_bytes = buffer.header()
    if header_bytes is None:
        return WarcBytes(b"", buffer.bad_header("header without end"))
    url = found[1].decode("utf-8", "replace") if (found := buffer.first(TARGET, header_bytes)) else ""
    if (length := buffer.first(CONTENT_LENGTH, header_bytes)) is None:
        return WarcBytes(b"", buffer.bad_header("no valid Content-Length"), url)
    content_bytes = int(length[1])
    size = header_bytes + content_bytes
    if content_bytes > record_bytes:
        whole = buffer.skip(size)
        return WarcBytes(b"", Drop("record_too_large", str(content_bytes)) if whole else buffer.cut(size, 0), url)
    if not buffer.hold(size):
        return WarcBytes(b"", buffer.cut(size, header_bytes), url)
    if (fault := buffer.ending(size, header_bytes)) is not None:
        return WarcBytes(b"", fault, url)
    return WarcBytes(buffer.take(size))


class _Buffer:
    """Decompressed bytes from the current record on; ``_stop`` is what keeps more from being read, until it is seen.

    ``_without``: no match of a pattern begins in so many of the first bytes, which need not be looked at again: junk
    may begin a new header on each of its lines.
    ``_line_ends``: a run of line ends that was gone through, for the same reason.
    """

    def __init__(self, pieces: Iterator[Piece]) -> None:
        self._pieces = pieces
        self._data = bytearray()
        self._without = dict.fromkeys((HEADER_END, TARGET, CONTENT_LENGTH), 0)
        self._line_ends = (0, 0)
        self._member_end: int | None = None
        self._stop: Mark | _End | None = None
        self._lost = False
        self._record_in_member = False
        self.ended = False

    def seek(self) -> Drop | None:
        """Move to the next ``WARC/`` or the end; a fault for damage or junk on the way, once."""
        while True:
            self._delete(_behind_line_ends(self._data, 0))
            if START.match(self._data):
                self._lost = False
                return None
            if len(self._data) >= START_BYTES or (self._data and self._stop):
                found = self._next_start(0, len(self._data))
                self._delete(found or len(self._data) - (0 if self._stop else START_BYTES - 1))
                if not self._lost:
                    self._lost = True
                    return Drop("broken_record", "bytes that are no record")
            elif isinstance(self._stop, Mark):
                if not self._lost and not (self._stop is Mark.CUT and self._record_in_member):
                    return self.cut(0, 0)
                self._stop = None
            elif self._stop:
                self.ended = True
                return None
            self._fill()

    def header(self) -> int | None:
        """The bytes of the record's header with its empty line; None when it has no end."""
        while (end := self.first(HEADER_END, HEADER_BYTES)) is None:
            if len(self._data) >= HEADER_BYTES or not self._fill():
                return None
        return end.end()

    def first(self, pattern: re.Pattern[bytes], end: int) -> re.Match[bytes] | None:
        """The first match of ``pattern``, one of ``_without``, before ``end``."""
        found = pattern.search(self._data, self._without[pattern], end)
        last = found.start() if found else min(len(self._data), end) - HEADER_END_BYTES
        self._without[pattern] = max(last, 0)
        return found

    def hold(self, size: int) -> bool:
        """Read until the record's ``size`` bytes are here; False when it ends earlier."""
        while not self._next_member_begins_within(size):
            if len(self._data) >= size:
                return True
            if not self._fill():
                return False
        return False

    def take(self, size: int) -> bytes:
        with memoryview(self._data) as view:
            data = bytes(view[:size])
        self._delete(size)
        return data

    def skip(self, size: int) -> bool:
        while size > 0:
            step = min(size, SKIP_BYTES)
            if not self.hold(step):
                return False
            self._delete(step)
            size -= step
        return True

    def ending(self, size: int, header_bytes: int) -> Drop | None:
        """A fault if the record in the first ``size`` bytes, which are here, cannot end there; it is deleted then.

        It can before two line ends, another record, the end of a member (whose checksum was right then) or of the file.
        """
        self._record_in_member = True
        while True:
            start = self._ending_behind(size)
            if self._member_end is not None and size <= self._member_end <= start:
                return None
            if self._stop is Mark.DAMAGE and start == len(self._data):
                return self.cut(0, 0)
            if len(self._data) - start >= START_BYTES or self._stop or start - size > SKIP_BYTES:
                follows = START.match(self._data, start) or self._data.startswith((b"\r\n\r\n", b"\n\n"), size)
                return None if follows or start == len(self._data) else self._bad_length(size, header_bytes)
            self._fill()

    def cut(self, size: int, header_bytes: int) -> Drop:
        """The fault of a record that ended before its ``size``; what is left of it is dropped."""
        self._lost = True
        if self._stop is Mark.DAMAGE:
            self._stop = None
            self._delete(len(self._data))
            return Drop("broken_compression", "")
        if self._next_member_begins_within(size) and self._member_end is not None:
            self._delete(self._member_end)
        elif header_bytes and (found := self._next_start(header_bytes - 1, len(self._data))):
            self._delete(found)
            return Drop("wrong_length", str(size - header_bytes))
        else:
            self._delete(len(self._data))
        return Drop("truncated_record", str(size - header_bytes))

    def bad_header(self, why: str) -> Drop:
        self._delete(1)
        self._lost = True
        return Drop("broken_record", why)

    def _bad_length(self, size: int, header_bytes: int) -> Drop:
        """The fault of a record that is followed by no other; the records that it swallowed stay here."""
        self._lost = True
        self._delete(self._next_start(header_bytes - 1, size) or size)
        return Drop("wrong_length", str(size - header_bytes))

    def _next_start(self, start: int, end: int) -> int:
        """Where the first header between ``start`` (the line end in front of it) and ``end`` begins; 0 for none."""
        while (start := self._data.find(b"\nWARC/", start, end)) >= 0:
            if NEXT_START.match(self._data, start, end):
                return start + 1
            start += 1
        return 0

    def _ending_behind(self, start: int) -> int:
        """The place behind the line ends at ``start``, which many records may claim to end at."""
        first, last = self._line_ends
        if not first <= start <= last:
            first = last = start
        self._line_ends = first, _behind_line_ends(self._data, last)
        return self._line_ends[1]

    def _next_member_begins_within(self, size: int) -> bool:
        end = self._member_end
        return end is not None and 0 < end < size and START.match(self._data, end) is not None

    def _delete(self, size: int) -> None:
        del self._data[:size]
        self._without = {pattern: max(end - size, 0) for pattern, end in self._without.items()}
        self._line_ends = (self._line_ends[0] - size, self._line_ends[1] - size)
        if self._member_end is not None:
            self._member_end = self._member_end - size if self._member_end >= size else None

    def _fill(self) -> bool:
        if self._stop:
            return False
        piece = next(self._pieces, _End.FILE)
        if isinstance(piece, bytes):
            self._data += piece
            return True
        if piece is Mark.MEMBER_END:
            self._member_end, self._record_in_member = len(self._data), False
            return True
        self._stop = piece
        return False


def _behind_line_ends(data: bytearray, start: int) -> int:
    found = LINE_ENDS.match(data, start)
    return found.end() if found else start

"""The bytes of a file, read with look-ahead and a limited way back: for formats whose damaged parts are searched again.

─── history ───│─ position ──> taken ──> …        begins_with, skip_to: search from the position on
   rewind <────┘
"""

import re
from typing import BinaryIO

from headrace.pipeline.core import codecs
from headrace.pipeline.core.amounts import count
from headrace.pipeline.core.codecs import MARK_BYTES, PADDING

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
        if self._reread_bytes + size <= MAX_REREADS * (self._read_bytes + codecs.PIECE_BYTES):
            self._reread_bytes += size
            self._position -= size

    def skip(self, size: int) -> None:
        """Skips ``size`` bytes, fewer only at the end of the file."""
        while size > 0 and (block := self.take(min(size, codecs.PIECE_BYTES))):
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
        block = self._stream.read(codecs.PIECE_BYTES)
        count(raw_bytes=len(block))
        first = self._position - history_bytes
        self._data = self._data[first:] + block
        self._position = history_bytes
        self._read_bytes += len(block)
        return bool(block)

"""Packing: documents of any length into rows of ``row_tokens`` positions, as an index; no token is copied.

    documents   ▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁ ▂▂▂▂ ▃▃▃▃▃▃ ▄▄ ▅▅▅▅▅
    cut         ▁▁▁▁▁▁▁▁ ▁▁▁▁▁▁▁ ▂▂▂▂ ▃▃▃▃▃▃ ▄▄ ▅▅▅▅▅        only what is longer than a row
    best fit    ▁▁▁▁▁▁▁▁ | ▁▁▁▁▁▁▁  | ▂▂▂▂     | ▃▃▃▃▃▃▄▄ | ▅▅▅▅▅

Best fit decreasing is the method of "Fewer Truncations Improve Language Modeling" (Ding et al., ICML 2024): pieces
from long to short, each into the row with the least room that still holds it. Concatenation is GPT's method: the
documents one behind the other, cut every ``row_tokens`` positions wherever that falls.
"""

import math
from bisect import bisect_left, insort
from collections import deque
from typing import Any

import numpy as np
from numpy.typing import NDArray

SPAN = np.dtype([("shard", "<u4"), ("start", "<u8"), ("length", "<u4")])
"""``length`` positions of token shard ``shard``: inputs tokens[start : start+length], targets one further on."""

Spans = NDArray[np.void]
"""(number of spans,) of ``SPAN``."""

Index = NDArray[np.int64]
"""Lengths, numbers or offsets."""


def best_fit(documents: Spans, row_tokens: int) -> tuple[Spans, Index]:
    """Rows that split no document that fits one, with little padding.

    Rows stand in the order of their first spans, so that the first rows are no other kind of text than the rest.

    Args:
        documents: one span for each document, its whole length.

    Returns:
        The spans of all rows, one row behind the other, and where each row begins: (rows + 1,).
    """
    pieces = cut(documents, row_tokens)
    _, first_piece, row = np.unique(fit(pieces["length"], row_tokens), return_index=True, return_inverse=True)
    rank = np.argsort(np.argsort(first_piece))
    row = rank[row]
    offsets = np.concatenate([[0], np.cumsum(np.bincount(row, minlength=len(first_piece)))])
    return pieces[np.argsort(row, kind="stable")], offsets


def concatenate(documents: Spans, row_tokens: int) -> tuple[Spans, Index]:
    """Rows that are full, all but the last, whatever they split. Arguments and result as ``best_fit``."""
    lengths = documents["length"].astype(np.int64)
    ends = np.cumsum(lengths)
    total = int(ends[-1]) if len(ends) else 0
    starts = np.union1d(ends - lengths, np.arange(0, total, row_tokens))
    document = np.searchsorted(ends, starts, side="right")
    spans = documents[document]
    spans["start"] += (starts - (ends - lengths)[document]).astype(np.uint64)
    spans["length"] = np.diff(starts, append=total)
    offsets = np.append(np.searchsorted(starts, np.arange(0, total, row_tokens)), len(starts))
    return spans, offsets


def cut(documents: Spans, row_tokens: int) -> Spans:
    """``documents`` in pieces of at most ``row_tokens``: full ones, then what remains of each."""
    lengths = documents["length"].astype(np.int64)
    numbers = -(-lengths // row_tokens)
    document = np.repeat(np.arange(len(documents)), numbers)
    before = (np.arange(len(document)) - (np.cumsum(numbers) - numbers)[document]) * row_tokens
    pieces = documents[document]
    pieces["start"] += before.astype(np.uint64)
    pieces["length"] = np.minimum(lengths[document] - before, row_tokens)
    return pieces


def fit(lengths: NDArray[Any], row_tokens: int) -> Index:
    """The row of each piece by best fit decreasing; pieces of one length in their order.

    Pieces of equal length are placed together, and so are rows with equal room: after a row took one piece it has the
    least room of all, so it goes on taking until it is full. The steps number at most three for each distinct length,
    however many pieces there are.

    Args:
        lengths: positions of each piece, 1 to ``row_tokens``.
    """
    decreasing = np.argsort(-lengths.astype(np.int64), kind="stable")
    sizes, counts = np.unique(lengths, return_counts=True)
    row = np.empty(len(lengths), dtype=np.int64)
    rows = _Rooms(row_tokens)
    begin = 0
    for size, count in zip(sizes[::-1].tolist(), counts[::-1].tolist(), strict=True):
        pieces = decreasing[begin : begin + count]
        begin += count
        while len(pieces):
            room, taken = rows.take(size, len(pieces))
            each = room // size
            placed = min(len(pieces), len(taken) * each)
            row[pieces[:placed]] = np.repeat(taken, each)[:placed]
            full, rest = divmod(placed, each)
            rows.put(room - each * size, taken[:full])
            rows.put(room - rest * size, taken[full:])
            pieces = pieces[placed:]
    return row


def split_documents(documents: Spans, spans: Spans) -> int:
    """How many of ``documents`` (in the order of shard and start) lie in more than one of ``spans``."""
    tokens = spans["length"][np.lexsort((spans["start"], spans["shard"]))].cumsum(dtype=np.int64)
    last_span = np.searchsorted(tokens, documents["length"].cumsum(dtype=np.int64))
    return int((np.diff(last_span, prepend=-1) > 1).sum())


class _Rooms:
    """The rows that have room left, by how much, and the empty ones, of which there is no end."""

    def __init__(self, row_tokens: int) -> None:
        self._row_tokens = row_tokens
        self._rooms: list[int] = []
        self._rows: dict[int, deque[Index]] = {}
        self._opened = 0

    def take(self, size: int, pieces: int) -> tuple[int, Index]:
        """The rows with the least room for ``size``, no more than hold ``pieces`` of them: (room, their numbers)."""
        at = bisect_left(self._rooms, size)
        if at == len(self._rooms):
            opened = self._opened + np.arange(math.ceil(pieces / (self._row_tokens // size)))
            self._opened += len(opened)
            return self._row_tokens, opened
        room = self._rooms[at]
        wanted = math.ceil(pieces / (room // size))
        chunks: list[Index] = []
        stock = self._rows[room]
        while stock and wanted:
            chunk = stock.popleft()
            if len(chunk) > wanted:
                stock.appendleft(chunk[wanted:])
            chunks.append(chunk[:wanted])
            wanted -= len(chunks[-1])
        if not stock:
            del self._rows[room], self._rooms[at]
        return room, np.concatenate(chunks)

    def put(self, room: int, rows: Index) -> None:
        """Give ``rows`` back with ``room`` left."""
        if not room or not len(rows):
            return
        if room not in self._rows:
            self._rows[room] = deque()
            insort(self._rooms, room)
        self._rows[room].append(rows)

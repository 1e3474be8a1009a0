"""Packs documents of any length into rows of ``row_tokens`` positions. The result is an index; no token is copied.

    documents   ▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁ ▂▂▂▂ ▃▃▃▃▃▃ ▄▄ ▅▅▅▅▅
    cut         ▁▁▁▁▁▁▁▁ ▁▁▁▁▁▁▁ ▂▂▂▂ ▃▃▃▃▃▃ ▄▄ ▅▅▅▅▅        only documents longer than a row are cut
    best fit    ▁▁▁▁▁▁▁▁ | ▁▁▁▁▁▁▁  | ▂▂▂▂     | ▃▃▃▃▃▃▄▄ | ▅▅▅▅▅
    padded      ▁▁▁▁▁▁▁▁ | ▁▁▁▁▁▁▁  | ▂▂▂▂     | ▃▃▃▃▃▃   | ▄▄       | ▅▅▅▅▅

Best-fit decreasing is the method of "Fewer Truncations Improve Language Modeling" (Ding et al., ICML 2024): each piece,
from the longest to the shortest, goes into the row with the least free space that still holds it. Concatenation is the
method of GPT: all documents one after the other, cut every ``row_tokens`` positions. A padded row has one piece.
``similar_order`` is an order of documents before they are concatenated.
"""

import math
from bisect import bisect_left, insort
from collections import deque
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headrace.data_prep.kernel import kernel

SPAN = np.dtype([("shard", "<u4"), ("start", "<u8"), ("length", "<u4")])
"""``length`` positions of token shard ``shard``. Inputs are tokens[start : start+length], targets one token later."""

DocumentSpans = NDArray[np.void]
"""(number of spans,) of ``SPAN``."""

Index = NDArray[np.int64]
"""Lengths, indices or offsets."""

NO_WORDS = np.uint32(0xFFFFFFFF)
"""Every value of the signature of a document without words."""


def best_fit(documents: DocumentSpans, row_tokens: int, frame_tokens: int = 0) -> tuple[DocumentSpans, Index]:
    """Packs by best fit: documents that fit a row are not split, and there is little padding.

    Rows are sorted by their first spans, so the first rows hold the same kinds of text as the others.

    Args:
        documents: one span for each whole document.
        row_tokens: positions of a row.
        frame_tokens: positions that each span takes besides its own.

    Returns:
        The spans of all rows, one row after the other, and the offset of each row: (rows + 1,).
    """
    pieces = cut(documents, row_tokens - frame_tokens)
    rows = fit(pieces["length"] + np.uint32(frame_tokens), row_tokens)
    _, first_piece, row = np.unique(rows, return_index=True, return_inverse=True)
    rank = np.argsort(np.argsort(first_piece))
    row = rank[row]
    offsets = np.concatenate([[0], np.cumsum(np.bincount(row, minlength=len(first_piece)))])
    return pieces[np.argsort(row, kind="stable")], offsets


def concatenate(documents: DocumentSpans, row_tokens: int, frame_tokens: int = 0) -> tuple[DocumentSpans, Index]:
    """Packs by concatenation: all rows but the last are full, but for ``frame_tokens`` positions.

    The other arguments and the result are those of ``best_fit``.
    """
    row_tokens -= frame_tokens
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


def padded(documents: DocumentSpans, row_tokens: int, frame_tokens: int = 0) -> tuple[DocumentSpans, Index]:
    """Puts each document into a row of its own; one longer than a row has several. The rest of a row is padding.

    The other arguments and the result are those of ``best_fit``. Rows are in the order of the documents.
    """
    pieces = cut(documents, row_tokens - frame_tokens)
    return pieces, np.arange(len(pieces) + 1)


def similar_order(signatures: NDArray[np.uint32]) -> Index:
    """Returns an order of documents in which similar ones follow one another, by a greedy walk: (n_docs,) indices.

    The order of in-context pretraining (Shi et al., In-Context Pretraining, 2024, section 2.2), with signatures in the
    place of embeddings. The walk begins with the first document. From each it goes on to the candidate with the most
    equal hashes, the first of equally similar ones; without a candidate, to the first document that is left. So
    documents without words keep their order. Candidates have one hash in common with the document: for each hash the
    nearest one before and the nearest one after it that are left. So time is linear in the number of documents; a more
    similar one may be missed where many have the same hash. Memory: 8 bytes a hash besides the signatures.

    Args:
        signatures: MinHash of each document, (n_docs, n_hashes). Equal hashes, as a share, estimate the similarity.
    """
    before, after = (np.full(signatures.shape, -1, np.int32) for _ in range(2))
    for column in range(signatures.shape[1]):
        order = np.argsort(signatures[:, column], kind="stable")
        hashes = signatures[order, column]
        equal = (hashes[1:] == hashes[:-1]) & (hashes[1:] != NO_WORDS)
        before[order[1:][equal], column] = order[:-1][equal]
        after[order[:-1][equal], column] = order[1:][equal]
    return _walk(signatures, before, after)


@kernel
def _walk(
    signatures: NDArray[np.uint32], before: NDArray[np.int32], after: NDArray[np.int32]
) -> Index:  # pragma: no cover (compiled)
    """Walks as ``similar_order`` says. ``before`` and ``after`` link documents that are left by each hash; -1: none."""
    n_docs, n_hashes = signatures.shape
    order, is_left = np.empty(n_docs, np.int64), np.ones(n_docs, np.bool_)
    first, nearest = 0, -1
    for step in range(n_docs):
        while nearest == -1:
            nearest = first if is_left[first] else -1
            first += 1
        document = nearest
        order[step], is_left[document] = document, False
        nearest, most = -1, 0
        for column in range(n_hashes):
            left, right = before[document, column], after[document, column]
            if left != -1:
                after[left, column] = right
            if right != -1:
                before[right, column] = left
            for other in (left, right):
                if other != -1:
                    equal = 0
                    for k in range(n_hashes):
                        equal += signatures[document, k] == signatures[other, k]
                    if equal > most or (equal == most and other < nearest):
                        nearest, most = other, equal
    return order


def cut(documents: DocumentSpans, row_tokens: int) -> DocumentSpans:
    """Cuts ``documents`` into pieces of at most ``row_tokens``: full pieces, then the rest of each document."""
    lengths = documents["length"].astype(np.int64)
    numbers = -(-lengths // row_tokens)
    document = np.repeat(np.arange(len(documents)), numbers)
    before = (np.arange(len(document)) - (np.cumsum(numbers) - numbers)[document]) * row_tokens
    pieces = documents[document]
    pieces["start"] += before.astype(np.uint64)
    pieces["length"] = np.minimum(lengths[document] - before, row_tokens)
    return pieces


def fit(lengths: NDArray[Any], row_tokens: int) -> Index:
    """Returns the row of each piece by best-fit decreasing. Pieces of equal length are placed in their order.

    Pieces of equal length are placed together, in rows with equal free space: after a row takes one piece, it has the
    least free space of these rows, so it takes pieces until it is full. There are at most three steps for each distinct
    length, independent of the number of pieces.

    Args:
        lengths: positions of each piece, 1 to ``row_tokens``.
        row_tokens: positions of a row.
    """
    decreasing = np.argsort(-lengths.astype(np.int64), kind="stable")
    sizes, counts = np.unique(lengths, return_counts=True)
    row = np.empty(len(lengths), dtype=np.int64)
    rows = _OpenRows(row_tokens)
    begin = 0
    for size, count in zip(sizes[::-1].tolist(), counts[::-1].tolist(), strict=True):
        pieces = decreasing[begin : begin + count]
        begin += count
        while len(pieces):
            free, taken = rows.take(size, len(pieces))
            pieces_per_row = free // size
            placed = min(len(pieces), len(taken) * pieces_per_row)
            row[pieces[:placed]] = np.repeat(taken, pieces_per_row)[:placed]
            full, rest = divmod(placed, pieces_per_row)
            rows.put(free - pieces_per_row * size, taken[:full])
            rows.put(free - rest * size, taken[full:])
            pieces = pieces[placed:]
    return row


def split_documents(documents: DocumentSpans, spans: DocumentSpans) -> int:
    """Counts the ``documents`` (in the order of shard and start) that are in more than one of ``spans``."""
    tokens = spans["length"][np.lexsort((spans["start"], spans["shard"]))].cumsum(dtype=np.int64)
    last_span = np.searchsorted(tokens, documents["length"].cumsum(dtype=np.int64))
    return int((np.diff(last_span, prepend=-1) > 1).sum())


class _OpenRows:
    """The rows by free space: rows that hold pieces, and an unlimited number of empty rows."""

    def __init__(self, row_tokens: int) -> None:
        self._row_tokens = row_tokens
        self._sizes: list[int] = []
        """The free spaces that occur in ``_rows``, ascending."""
        self._rows: dict[int, deque[Index]] = {}
        """The rows by free space."""
        self._opened = 0

    def take(self, size: int, pieces: int) -> tuple[int, Index]:
        """Takes rows with the least free space ≥ ``size``, at most the number that ``pieces`` of this size need.

        Returns:
            The free space of each of these rows, and their indices.
        """
        index = bisect_left(self._sizes, size)
        if index == len(self._sizes):
            opened = self._opened + np.arange(math.ceil(pieces / (self._row_tokens // size)))
            self._opened += len(opened)
            return self._row_tokens, opened
        free = self._sizes[index]
        wanted = math.ceil(pieces / (free // size))
        chunks: list[Index] = []
        stock = self._rows[free]
        while stock and wanted:
            chunk = stock.popleft()
            if len(chunk) > wanted:
                stock.appendleft(chunk[wanted:])
            chunks.append(chunk[:wanted])
            wanted -= len(chunks[-1])
        if not stock:
            del self._rows[free], self._sizes[index]
        return free, np.concatenate(chunks)

    def put(self, free: int, rows: Index) -> None:
        """Puts ``rows`` back, with ``free`` positions left in each. Full rows are not kept."""
        if not free or not len(rows):
            return
        if free not in self._rows:
            self._rows[free] = deque()
            insort(self._sizes, free)
        self._rows[free].append(rows)

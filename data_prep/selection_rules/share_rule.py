"""The rule that keeps the best share of all documents: an exact quantile, counted over sorted shards.

    shard ── (order, tie), sorted ──> file        order: the value as uint64, the best smallest; tie: a hash of the id
    files ── count entries ≤ pivots, 8 bits of the limit a pass ──> limit (order, tie) ──> documents ≤ limit are kept

The files are searched, not loaded, so memory does not grow with the number of documents.
"""

import fractions
import math
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from headrace.data_prep.columns.column_values import ColumnValues
from headrace.data_prep.selection_rules.selection_rule import Factors, SelectionRule
from headrace.data_prep.tokenization.shards import key_of
from headrace.pipeline.core.settings import settings

BITS = 8
"""Bits of the limit that one pass over the files decides."""

DocumentRanks = NDArray[np.uint64]
"""(2, documents): order and tie of each; the smallest are the best."""
SIGN = np.uint64(1 << 63)


@settings
class Share(SelectionRule):
    """Keeps the best ``share`` of the documents that rules before it kept and that have a value, rounded up.

    Of equal values, those of documents with the smallest hashes of their ids are the best.
    """

    type: Literal["share"] = "share"
    column: str
    """The column that is read."""
    share: Annotated[float, Field(gt=0, le=1)]
    """The share of the documents that is kept."""
    best: Literal["highest", "lowest"] = "highest"
    """The values that are the best."""

    def ranks(self, values: ColumnValues, ids: Iterable[str]) -> DocumentRanks:
        """Returns the ranks of documents with these ``values``, none of which is missing."""
        order = ascending(values)
        ties = np.array([key_of(f"share {self.column}", identity) for identity in ids], dtype="<u8")
        return np.stack([~order if self.best == "highest" else order, ties])

    def limit(self, files: Sequence[Path]) -> DocumentRanks:
        """Returns the rank of the last document that is kept: (2, 1). ``files`` hold the sorted ranks of each shard."""
        documents = sum(np.load(file, mmap_mode="r").shape[1] for file in files)
        wanted = math.ceil(fractions.Fraction(repr(self.share)) * documents)

        def orders(file: Path) -> NDArray[np.uint64]:
            column: NDArray[np.uint64] = np.load(file, mmap_mode="r")[0]
            return column

        def ties(file: Path) -> NDArray[np.uint64]:
            ranks = np.load(file, mmap_mode="r")
            first, last = np.searchsorted(ranks[0], order, "left"), np.searchsorted(ranks[0], order, "right")
            column: NDArray[np.uint64] = ranks[1][first:last]
            return column

        order = smallest(wanted, files, orders)
        better = sum(int(np.searchsorted(orders(file), order, "left")) for file in files)
        return np.array([[order], [smallest(wanted - better, files, ties)]], dtype="<u8")

    def factors(self, values: ColumnValues) -> Factors:
        """Raises TypeError: which values are kept depends on those of other documents (``kept``)."""
        raise TypeError("a share is of all documents")

    def kept(self, ranks: DocumentRanks, limit: DocumentRanks) -> Factors:
        """Returns 1 for documents that are kept, else 0."""
        (orders, ties), (order, tie) = ranks, limit
        kept: Factors = ((orders < order) | ((orders == order) & (ties <= tie))).astype(float)
        return kept


def ascending(values: NDArray[np.float64]) -> NDArray[np.uint64]:
    """Returns integers in the order of ``values``; equal ones, and so 0 and -0, have equal integers."""
    bits = (values + 0.0).view(np.uint64)
    return np.where(bits & SIGN, ~bits, bits | SIGN)


def sorted_ranks(ranks: DocumentRanks) -> DocumentRanks:
    """Returns ``ranks`` in ascending order."""
    return ranks[:, np.lexsort(ranks[::-1])]


def smallest(wanted: int, files: Sequence[Path], read: Callable[[Path], NDArray[np.uint64]]) -> np.uint64:
    """Returns the smallest number that at least ``wanted`` entries of the sorted arrays do not exceed."""
    prefix = 0
    for shift in range(64 - BITS, -1, -BITS):
        pivots = np.array([prefix + ((i + 1) << shift) - 1 for i in range(1 << BITS)], dtype=np.uint64)
        counts = sum((np.searchsorted(read(file), pivots, "right") for file in files), np.zeros(len(pivots), np.int64))
        prefix += int(np.searchsorted(counts, wanted, "left")) << shift
    return np.uint64(prefix)

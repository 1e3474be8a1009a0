"""Rules that decide, by the value of a column, how many copies of a document are trained on.

    copies ── rule: · factor ──> copies        a fraction is drawn: 2.5 are 2 copies, or 3 with probability 0.5

    threshold, any_of   keep a document or drop it by its own value
    copies              value ≥ 0.9 twice, ≥ 0.5 once, else with probability 0.1       topic "news" 0.5, "science" 2.5
    share               keeps the best share of all documents: an exact quantile, counted over sorted shards

    shard ── (order, tie), sorted ──> file        order: the value as uint64, the best smallest; tie: a hash of the id
    files ── count entries ≤ pivots, 8 bits of the limit a pass ──> limit (order, tie) ──> documents ≤ limit are kept

The files are searched, not loaded, so memory does not grow with the number of documents. The draw is a function of
(type of the rule, column, seed, document id): no shard, order or worker decides it.
"""

import abc
import dataclasses
import fractions
import itertools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from headrace.data_prep.columns.scorer import ColumnValues, ScoreKind, holds_text
from headrace.data_prep.tokenization.shards import key_of
from headrace.pipeline.core.errors import ConfigError
from headrace.pipeline.core.settings import Seed, SomeTexts, settings

Factors = NDArray[np.float64]
"""The factors of the copies of documents: (documents,)."""
MOST_REPEATED = 1_000_000
MISSING = "missing"
"""The reason of documents without a value, before the column."""


class SelectionRule(abc.ABC):
    """Multiplies the copies of each document. Subclasses are ``@settings`` classes with a ``type`` tag."""

    type: str
    column: str
    takes_missing: ClassVar[bool] = False
    """Whether it has a factor for documents without a value. Other rules drop them."""

    @property
    def kinds(self) -> tuple[ScoreKind, ...]:
        """The types of columns that it can read."""
        return (float,)

    @property
    def described(self) -> str:
        """Its name in messages."""
        return self.type

    @property
    def reasons(self) -> tuple[str, str]:
        """The reasons of documents that it drops: for their value, and because they have none."""
        return f"{self.type}.{self.column}", f"{MISSING}.{self.column}"

    def check(self, where: str) -> None:  # noqa: B027  (most rules have nothing to add)
        """Checks what no type says of its settings, found at the dotted path ``where``.

        Raises:
            ConfigError: when they contradict each other.
        """

    @abc.abstractmethod
    def factors(self, values: ColumnValues) -> Factors:
        """Returns the factor of each of ``values``."""

    def drawn(self, totals: Factors, ids: Iterable[str]) -> NDArray[np.uint32]:
        """Returns ``totals`` as whole numbers: the fraction of each is drawn for its document.

        Raises:
            ConfigError: when one is too large.
        """
        if totals.max(initial=0) > MOST_REPEATED:
            problem = f"{totals.max():,.0f} copies of a document are asked for"
            raise ConfigError("selection.rules", problem, f"give rules of at most {MOST_REPEATED:,} copies together")
        whole = np.floor(totals)
        copies = whole.astype("<u4")
        if (totals != whole).any():
            copies += np.array([uniform(self._purpose, identity) for identity in ids]) < totals - whole
        return copies

    @property
    def _purpose(self) -> str:
        seed: Seed = getattr(self, "seed", 0)
        return f"{self.type} {self.column} {seed}"


def uniform(purpose: str, document_id: str) -> float:
    """Returns a number in [0, 1), a function of both arguments."""
    return (key_of(purpose, document_id) >> 11) * 2.0**-53


Limit = Annotated[float, Field(ge=-1e15, le=1e15)]


@settings
class Threshold(SelectionRule):
    """Keeps documents whose value is at least ``min`` and at most ``max``."""

    type: Literal["threshold"] = "threshold"
    column: str
    """The column that is read."""
    min: Limit | None = None
    """Lowest value; null: no limit."""
    max: Limit | None = None
    """Highest value; null: no limit."""

    def check(self, where: str) -> None:
        if self.min is None and self.max is None:
            raise ConfigError(where, "min and max are null", "give one of them, or both")
        if self.min is not None and self.max is not None and self.min > self.max:
            problem = f"min = {self.min} is above max = {self.max}: every document would be dropped"
            raise ConfigError(where, problem, "exchange them")

    def factors(self, values: ColumnValues) -> Factors:
        low, high = (-np.inf if self.min is None else self.min), (np.inf if self.max is None else self.max)
        return ((values >= low) & (values <= high)).astype(float)


@settings
class AnyOf(SelectionRule):
    """Keeps documents whose value is one of ``texts``: their language, or their topic."""

    type: Literal["any_of"] = "any_of"
    column: str
    """The column that is read; its values are texts."""
    texts: SomeTexts
    """The values that are kept."""

    @property
    def kinds(self) -> tuple[ScoreKind, ...]:
        return (str,)

    def factors(self, values: ColumnValues) -> Factors:
        return np.isin(values, self.texts).astype(float)


MOST_COPIES = 1000
CopyCount = Annotated[float, Field(ge=0, le=MOST_COPIES)]
"""Copies of a document; the fraction is the probability of one more."""


@settings
class CopyStep:
    """The copies of documents from some value on."""

    at_least: Limit
    """The lowest value of the step."""
    copies: CopyCount
    """The copies up to the next step."""


@settings
class Copies(SelectionRule):
    """Repeats documents by steps of their value, or by their text; 0.25 copies keep a quarter of them.

    Dolma 3 upsamples pages this way by quality and topic (OLMo 3, 2025), FineWeb-Edu keeps those from a score on.
    """

    takes_missing: ClassVar[bool] = True

    type: Literal["copies"] = "copies"
    column: str
    """The column that is read."""
    steps: tuple[CopyStep, ...] = ()
    """Copies by number: the last step that is not above the value, so they ascend."""
    texts: Mapping[str, CopyCount] = dataclasses.field(default_factory=dict)
    """Copies by text, such as a language or a topic."""
    otherwise: CopyCount = 1.0
    """Copies of documents below the first step, with another text, or without a value."""
    seed: Seed = 0
    """Seed of the draw of fractions."""

    def check(self, where: str) -> None:
        if self.steps and self.texts:
            problem = f"{len(self.steps)} steps and {len(self.texts)} texts are given"
            raise ConfigError(where, problem, "give steps for numbers, or texts")
        bounds = [step.at_least for step in self.steps]
        if any(bound <= before for before, bound in itertools.pairwise(bounds)):
            raise ConfigError(f"{where}.steps", f"at_least is {bounds}, in no ascending order", "sort the steps")

    @property
    def kinds(self) -> tuple[ScoreKind, ...]:
        """Numbers for ``steps``, texts for ``texts``, both without either."""
        return (float,) if self.steps else (str,) if self.texts else (float, str)

    @property
    def described(self) -> str:
        return f"{self.type} with {'steps' if self.steps else 'texts'}"

    def factors(self, values: ColumnValues) -> Factors:
        if holds_text(values):
            return np.array([self.texts.get(text, self.otherwise) for text in values.tolist()], dtype=float)
        copies = np.array([self.otherwise, *(step.copies for step in self.steps)])
        places = np.searchsorted([step.at_least for step in self.steps], values, side="right")
        return copies[np.where(np.isnan(values), 0, places)]


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

"""Base class of rules that decide, by the value of a column, how many copies of a document are trained on.

    copies ── rule: · factor ──> copies        a fraction is drawn: 2.5 are 2 copies, or 3 with probability 0.5

The draw is a function of (type of the rule, column, seed, document id): no shard, order or worker decides it.
"""

import abc
from collections.abc import Iterable
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from headrace.data_prep.columns.column_values import ColumnValues
from headrace.data_prep.columns.scorer import ScoreKind
from headrace.data_prep.tokenization.shards import key_of
from headrace.pipeline.core.errors import ConfigError
from headrace.pipeline.core.settings import Seed

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

    def check_values(self, values: ColumnValues, where: str) -> None:  # noqa: B027  (most rules have nothing to add)
        """Checks that it has a factor for each of ``values``.

        Raises:
            ConfigError: naming the rule, found at the dotted path ``where``, and a value.
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

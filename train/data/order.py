"""The order of rows: a pure function of (seed, rows, position). Nothing is stored, nothing is shuffled in memory.

    rows seen so far   0 1 2 3 4 | 5 6 7 8 9 | 10 ...      position p: epoch p // rows, index p % rows
    row numbers        3 0 4 2 1 | 1 4 0 3 2 | ...         each epoch is a permutation of its own

So the whole state of the data loader is one integer, the rows seen, valid for any number of ranks and any gradient
accumulation; a batch may begin in one epoch and end in the next, and every epoch has each row once.

The permutation is a Feistel network with cycle walking (Black and Rogaway, "Ciphers with Arbitrary Finite Domains",
CT-RSA 2002): a bijection on 2^(2h) ≥ rows numbers, applied again until the result is below ``rows``. Its round function
is the finalizer of SplitMix64 (Steele, Lea and Flood, OOPSLA 2014; constants of Stafford's variant 13), its keys are
SHAKE-256 of seed and epoch: the same numbers on every machine and with every version of NumPy.
"""

import dataclasses
import hashlib
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

ROUNDS = 8


@dataclasses.dataclass(frozen=True)
class Order:
    """The order of ``rows`` rows under ``seed``."""

    seed: int
    rows: int

    def __post_init__(self) -> None:
        if self.rows < 1:
            raise ValueError(f"an order of {self.rows} rows")

    def batch(self, rows_seen: int, batch_rows: int) -> NDArray[np.int64]:
        """Returns the row numbers of the global batch that follows ``rows_seen`` rows, (batch_rows,)."""
        positions = np.arange(rows_seen, rows_seen + batch_rows, dtype=np.int64)
        epochs, indices = np.divmod(positions, self.rows)
        numbers = np.empty_like(positions)
        for epoch in range(rows_seen // self.rows, -(-(rows_seen + batch_rows) // self.rows)):
            numbers[epochs == epoch] = self.permuted(epoch, indices[epochs == epoch])
        return numbers

    def epochs(self, rows_seen: int) -> dict[str, float]:
        """Returns the number of epochs so far, under its name in metrics.jsonl."""
        return {"epoch": rows_seen / self.rows}

    def permuted(self, epoch: int, indices: NDArray[np.int64]) -> NDArray[np.int64]:
        """Returns the row number at each index of ``epoch``; indices and result (n,) in [0, rows)."""
        half_bits = max(1, -(-(self.rows - 1).bit_length() // 2))
        keys = self._keys(epoch)
        numbers = indices.astype(np.uint64)
        outside = np.arange(len(numbers))
        while len(outside):
            numbers[outside] = _feistel(numbers[outside], keys, half_bits)
            outside = outside[numbers[outside] >= self.rows]
        return numbers.astype(np.int64)

    def _keys(self, epoch: int) -> NDArray[np.uint64]:
        shake = hashlib.shake_256(f"headrace order\0{self.seed}\0{epoch}".encode())
        return np.frombuffer(shake.digest(8 * ROUNDS), dtype="<u8").astype(np.uint64)


class RowOrder(Protocol):
    """The order of the rows of one source or of a mixture."""

    def batch(self, rows_seen: int, batch_rows: int) -> NDArray[np.int64]: ...

    def epochs(self, rows_seen: int) -> dict[str, float]: ...


@dataclasses.dataclass(frozen=True)
class Later:
    """``order``, beginning after ``first_row`` rows of other data."""

    order: RowOrder
    first_row: int

    def batch(self, rows_seen: int, batch_rows: int) -> NDArray[np.int64]:
        return self.order.batch(rows_seen - self.first_row, batch_rows)

    def epochs(self, rows_seen: int) -> dict[str, float]:
        return self.order.epochs(rows_seen - self.first_row)


def row_generator(seed: int, purpose: str, position: int) -> np.random.Generator:
    """Returns the random numbers of the row at ``position``, counter-based: no other row and no rank changes them.

    Philox (Salmon et al., SC 2011), its key SHAKE-256 of seed and purpose, its counter beginning at position · 2^192.
    """
    shake = hashlib.shake_256(f"headrace row\0{seed}\0{purpose}".encode()).digest(16)
    key = np.frombuffer(shake, dtype="<u8")
    return np.random.Generator(np.random.Philox(counter=np.array([0, 0, 0, position], np.uint64), key=key))


def share(batch: NDArray[np.int64], rank: int, ranks: int) -> NDArray[np.int64]:
    """Returns the rows of a global batch that ``rank`` of ``ranks`` reads: an equal, consecutive part.

    Raises:
        ValueError: when ``ranks`` does not divide the batch.
    """
    if len(batch) % ranks:
        raise ValueError(f"a batch of {len(batch)} rows over {ranks} ranks")
    rows_per_rank = len(batch) // ranks
    return batch[rank * rows_per_rank : (rank + 1) * rows_per_rank]


def _feistel(numbers: NDArray[np.uint64], keys: NDArray[np.uint64], half_bits: int) -> NDArray[np.uint64]:
    """Maps numbers by a bijection on [0, 2^(2 half_bits)), elementwise."""
    bits, mask = np.uint64(half_bits), np.uint64((1 << half_bits) - 1)
    left, right = numbers >> bits, numbers & mask
    for key in keys:
        left, right = right, left ^ (_mixed(right + key) & mask)
    return (left << bits) | right


def _mixed(numbers: NDArray[np.uint64]) -> NDArray[np.uint64]:
    numbers = (numbers ^ (numbers >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    numbers = (numbers ^ (numbers >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return numbers ^ (numbers >> np.uint64(31))

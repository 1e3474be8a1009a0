"""Names as 62-bit numbers: the FNV-1a hash (Fowler, Noll, Vo), and tables of numbers by it.

62 of its 64 bits are kept: they are never negative, so Python and compiled code compute the same.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from headrace.data_prep.kernel import kernel_in_place

HASH_START, HASH_PRIME, HASH_MASK = 0xCBF29CE484222325 & 2**62 - 1, 0x100000001B3, 2**62 - 1


def name_hash(name: bytes) -> int:
    """Returns the hash of ``name``."""
    value = HASH_START
    for byte in name:
        value = (value ^ byte) * HASH_PRIME & HASH_MASK
    return value


class HashTable(NamedTuple):
    """Numbers by the hash of a name, 0 where a slot is free; collisions stand in the slots that follow."""

    hashes: NDArray[np.int64]
    numbers: NDArray[np.int64]


def hash_table(numbers: dict[bytes, int], slots: int) -> HashTable:
    """Returns ``numbers`` by hash. ``slots`` is a power of two, and larger than the number of names.

    Raises:
        ValueError: when two names have the same hash.
    """
    table = HashTable(np.zeros(slots, np.int64), np.zeros(slots, np.int64))
    for name, number in numbers.items():
        value = name_hash(name)
        slot = value % slots
        while table.hashes[slot]:
            if int(table.hashes[slot]) == value:
                raise ValueError(f"{name!r} has the hash of another name")
            slot = (slot + 1) % slots
        table.hashes[slot], table.numbers[slot] = value, number
    return table


@kernel_in_place
def number_of(value: int, hashes: NDArray[np.int64], numbers: NDArray[np.int64]) -> int:
    """Returns the number of the name with the hash ``value`` in a table; 0 if it has none."""
    slot = value & (hashes.size - 1)
    while hashes[slot] != 0:
        if hashes[slot] == value:
            return int(numbers[slot])
        slot = (slot + 1) & (hashes.size - 1)
    return 0

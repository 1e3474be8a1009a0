"""Names in markup: bytes that are equal in both cases, as 62-bit numbers, and tables of numbers by them.

The numbers are the FNV-1a hash (Fowler, Noll, Vo). 62 of its 64 bits are kept: they are never negative, so Python and
compiled code compute the same.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from headrace.data_prep.kernel import int64, kernel_in_place

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


@kernel_in_place
def is_space(byte: int) -> bool:
    return byte == 0x20 or byte == 0x09 or byte == 0x0A or byte == 0x0C or byte == 0x0D


@kernel_in_place
def space_bytes(page: NDArray[np.uint8], at: int) -> int:
    """Returns the number of bytes of the white space character at ``at``; 0 if it is another (``str.isspace``)."""
    byte = int64(page[at])
    if byte < 0x80:
        return 1 if byte == 0x20 or 0x09 <= byte <= 0x0D or 0x1C <= byte <= 0x1F else 0
    if byte == 0xC2:
        return 2 if at + 1 < page.size and (page[at + 1] == 0xA0 or page[at + 1] == 0x85) else 0
    if not 0xE1 <= byte <= 0xE3 or at + 2 >= page.size:
        return 0
    point = (byte & 0x0F) << 12 | (int64(page[at + 1]) & 0x3F) << 6 | int64(page[at + 2]) & 0x3F
    is_space = point in (0x1680, 0x2028, 0x2029, 0x202F, 0x205F, 0x3000) or 0x2000 <= point <= 0x200A
    return 3 if is_space else 0


@kernel_in_place
def is_letter(byte: int) -> bool:
    return 0x61 <= byte | 0x20 <= 0x7A


@kernel_in_place
def begins_with(page: NDArray[np.uint8], at: int, word: bytes) -> bool:
    """Whether ``page`` has ``word``, in lower case, at ``at``; upper case is equal."""
    if at + len(word) > page.size:
        return False
    for index in range(len(word)):
        byte = page[at + index]
        if 0x41 <= byte <= 0x5A:
            byte |= 0x20
        if byte != word[index]:
            return False
    return True


@kernel_in_place
def lower_hash(page: NDArray[np.uint8], start: int, end: int) -> int:
    """Returns the hash of the bytes from ``start`` to ``end`` in lower case."""
    value = HASH_START
    for at in range(start, end):
        byte = int64(page[at])
        value = (value ^ (byte | 0x20 if 0x41 <= byte <= 0x5A else byte)) * HASH_PRIME & HASH_MASK
    return value

"""Bytes of markup, as the HTML standard compares them: ASCII letters are equal in both cases."""

import numpy as np
from numpy.typing import NDArray

from headrace.data_prep.extraction.hashes import HASH_MASK, HASH_PRIME, HASH_START
from headrace.data_prep.kernel import int64, kernel_in_place


@kernel_in_place
def is_space(byte: int) -> bool:
    return byte == 0x20 or byte == 0x09 or byte == 0x0A or byte == 0x0C or byte == 0x0D


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

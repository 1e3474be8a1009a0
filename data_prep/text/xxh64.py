"""The hash XXH64 for compiled code (Collet's specification: github.com/Cyan4973/xxHash, doc/xxhash_spec.md)."""

import numpy as np
from numpy.typing import NDArray

from headrace.data_prep.kernel import kernel

PRIME_1 = np.uint64(0x9E3779B185EBCA87)
PRIME_2 = np.uint64(0xC2B2AE3D27D4EB4F)
PRIME_3 = np.uint64(0x165667B19E3779F9)
PRIME_4 = np.uint64(0x85EBCA77C2B2AE63)
PRIME_5 = np.uint64(0x27D4EB2F165667C5)


@kernel
def _rotate(value: np.uint64, bits: int) -> np.uint64:  # pragma: no cover (compiled)
    return (value << np.uint64(bits)) | (value >> np.uint64(64 - bits))


@kernel
def _read_4(data: NDArray[np.uint8], offset: int) -> np.uint64:  # pragma: no cover (compiled)
    """Reads four bytes, little-endian. Unsigned indices and no loop let the compiler emit one load."""
    i = np.uint64(offset)
    return (
        np.uint64(data[i])
        | np.uint64(data[i + np.uint64(1)]) << np.uint64(8)
        | np.uint64(data[i + np.uint64(2)]) << np.uint64(16)
        | np.uint64(data[i + np.uint64(3)]) << np.uint64(24)
    )


@kernel
def _read_8(data: NDArray[np.uint8], offset: int) -> np.uint64:  # pragma: no cover (compiled)
    return _read_4(data, offset) | _read_4(data, offset + 4) << np.uint64(32)


@kernel
def _round(accumulator: np.uint64, lane: np.uint64) -> np.uint64:  # pragma: no cover (compiled)
    return _rotate(accumulator + lane * PRIME_2, 31) * PRIME_1


@kernel
def xxh64(data: NDArray[np.uint8], start: int, end: int) -> np.uint64:  # pragma: no cover (compiled)
    """Returns XXH64 of data[start:end] with seed 0."""
    offset = start
    if end - start >= 32:
        lanes = (PRIME_1 + PRIME_2, PRIME_2, np.uint64(0), np.uint64(0) - PRIME_1)
        first, second, third, fourth = lanes
        while offset + 32 <= end:
            first = _round(first, _read_8(data, offset))
            second = _round(second, _read_8(data, offset + 8))
            third = _round(third, _read_8(data, offset + 16))
            fourth = _round(fourth, _read_8(data, offset + 24))
            offset += 32
        total = _rotate(first, 1) + _rotate(second, 7) + _rotate(third, 12) + _rotate(fourth, 18)
        for lane in (first, second, third, fourth):
            total = (total ^ _round(np.uint64(0), lane)) * PRIME_1 + PRIME_4
    else:
        total = PRIME_5
    total += np.uint64(end - start)
    while offset + 8 <= end:
        total = _rotate(total ^ _round(np.uint64(0), _read_8(data, offset)), 27) * PRIME_1 + PRIME_4
        offset += 8
    if offset + 4 <= end:
        total = _rotate(total ^ (_read_4(data, offset) * PRIME_1), 23) * PRIME_2 + PRIME_3
        offset += 4
    while offset < end:
        total = _rotate(total ^ (np.uint64(data[offset]) * PRIME_5), 11) * PRIME_1
        offset += 1
    total = (total ^ (total >> np.uint64(33))) * PRIME_2
    total = (total ^ (total >> np.uint64(29))) * PRIME_3
    return total ^ (total >> np.uint64(32))

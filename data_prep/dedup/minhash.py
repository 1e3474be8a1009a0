"""MinHash signatures, bit for bit those of datasketch 2.0's default scheme, "affine32".

    shingle hashes (n,) ── fmix32 ── a[k]·h + b[k] mod 2^32 ── minimum over n ──> signature (n_hashes,) uint32

Formula (read in datasketch 2.0.0, minhash.py: ``_init_permutations``, ``_fmix`` and ``update_batch``):

    generator = numpy.random.RandomState(seed)
    a = generator.randint(0, 2^31, n_hashes, uint32) · 2 + 1          odd, so that h -> a·h + b is a bijection
    b = generator.randint(0, 2^32, n_hashes, uint32)
    h = fmix32(the low 32 bits of the shingle's hash)                 MurmurHash3's finalizer
    signature[k] = min over shingles of (a[k]·h + b[k]) mod 2^32      2^32 - 1 everywhere when there is no shingle

The share of equal values in two signatures estimates the Jaccard similarity of the two sets of shingles (Broder, On the
resemblance and containment of documents, 1997).

datasketch makes an object of a row: ``MinHash(hashvalues=row, seed=seed, scheme="affine32")``.
"""

import numpy as np
from numpy.typing import NDArray

from headrace.data_prep.kernel import kernel

EMPTY = 0xFFFFFFFF
"""Every value of the signature of a document without words."""


def permutations(n_hashes: int, seed: int) -> NDArray[np.uint32]:
    """Returns the multipliers a and the offsets b: (2, n_hashes) uint32."""
    generator = np.random.RandomState(seed)
    a = generator.randint(0, 1 << 31, n_hashes, dtype=np.uint32) * np.uint32(2) + np.uint32(1)
    b = generator.randint(0, 1 << 32, n_hashes, dtype=np.uint32)
    return np.array([a, b])


def signature(hashes: NDArray[np.uint64], permutations: NDArray[np.uint32]) -> NDArray[np.uint32]:
    """Returns the signature (n_hashes,) uint32 of a document with the shingle hashes (n_shingles,) uint64."""
    minima = np.full(permutations.shape[1], EMPTY, dtype=np.uint32)
    _lower(minima, hashes, permutations[0], permutations[1])
    return minima


@kernel
def _lower(
    minima: NDArray[np.uint32], hashes: NDArray[np.uint64], a: NDArray[np.uint32], b: NDArray[np.uint32]
) -> None:  # pragma: no cover (compiled)
    for hash64 in hashes:
        h = _fmix32(np.uint32(hash64 & np.uint64(0xFFFFFFFF)))
        for k in range(minima.size):
            minima[k] = min(minima[k], np.uint32(a[k] * h + b[k]))


@kernel
def _fmix32(h: np.uint32) -> np.uint32:  # pragma: no cover (compiled)
    h = np.uint32(h ^ (h >> np.uint32(16)))
    h = np.uint32(h * np.uint32(0x85EBCA6B))
    h = np.uint32(h ^ (h >> np.uint32(13)))
    h = np.uint32(h * np.uint32(0xC2B2AE35))
    return np.uint32(h ^ (h >> np.uint32(16)))

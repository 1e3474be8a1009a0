"""Locality-sensitive hashing: signatures that agree in a whole band fall into one group.

    signature  [ h0 … h7 | h8 … h15 | … ]     bands × rows hashes
                  │          │
    band hashes  B0         B1       …        one 64-bit hash for each band, different from band to band

(Leskovec, Rajaraman, Ullman, Mining of Massive Datasets, 3.4.) Two bands get one hash by accident with probability
2^-64, and what comes of it is one comparison too many.
"""

import numpy as np
from numpy.typing import NDArray

from headrace.data_prep.dedup.numbering import Numbers
from headrace.data_prep.shuffle.records import runs

MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)
"""2^64 divided by the golden ratio, odd (Knuth, The Art of Computer Programming 3, 6.4)."""

GROUP_MEMBER = np.dtype([("hash", "<u8"), ("document", "<u8")])
"""One document in one band."""


def band_hashes(signatures: NDArray[np.uint32], bands: int) -> NDArray[np.uint64]:
    """(n_docs, bands) uint64 hashes of the bands of (n_docs, bands · rows) uint32 signatures."""
    values = signatures.reshape(len(signatures), bands, signatures.shape[1] // bands)
    hashes = np.broadcast_to(mix(np.arange(bands, dtype=np.uint64)), values.shape[:2])
    for row in range(values.shape[2]):
        hashes = mix(hashes ^ values[:, :, row])
    return hashes


def mix(keys: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """A bijection of 64-bit keys whose high bits depend on all bits."""
    keys = (keys + np.uint64(1)) * MULTIPLIER
    keys ^= keys >> np.uint64(32)
    keys *= MULTIPLIER
    return keys ^ (keys >> np.uint64(29))


def members(documents: Numbers, hashes: NDArray[np.uint64]) -> NDArray[np.void]:
    """A GROUP_MEMBER for each document and band: (n_docs · bands,)."""
    records = np.empty(hashes.size, dtype=GROUP_MEMBER)
    records["hash"] = hashes.ravel()
    records["document"] = np.repeat(documents, hashes.shape[1])
    return records


def groups(records: NDArray[np.void], is_older: NDArray[np.bool_]) -> NDArray[np.void]:
    """The members of groups of two and more.

    Args:
        records: GROUP_MEMBER, sorted by (hash, document).
        is_older: which of them need not be compared with one another: groups of such only are left out.
    """
    bounds = runs(records["hash"])
    lengths = np.diff(bounds)
    ours = np.concatenate([[0], np.cumsum(~is_older)])
    return records[np.repeat((lengths > 1) & (np.diff(ours[bounds]) > 0), lengths)]

"""Locality-sensitive hashing (LSH): documents whose signatures agree in a whole band are candidates.

    signature  [ h0 … h7 | h8 … h15 | … ]     bands × rows hashes
                  │          │
    band hashes  B0         B1       …        one 64-bit hash for each band; equal bands at another index differ

The banding is the number of bands and of rows (hashes in a band). Two documents of similarity s agree in all hashes of
one band with probability s^rows, and in at least one whole band with probability

    P(s) = 1 - (1 - s^rows)^bands        (Leskovec, Rajaraman, Ullman, Mining of Massive Datasets, 3.4.2)

This is an S-curve that rises around (1 / bands)^(1 / rows). ``choose`` takes, for each number of rows, the fewest bands
with P(threshold) ≥ recall. For threshold 0.8 and recall 0.99:

    bands × rows   hashes   P(0.8)   P(0.5)   P(0.3)   P(0.1)
         3 × 1          3    0.992    0.875    0.657    0.271
         9 × 4         36    0.991    0.441    0.071    0.001
        16 × 6         96    0.992    0.223    0.012    0.000
        26 × 8        208    0.992    0.097    0.002    0.000
        41 × 10       410    0.991    0.039    0.000    0.000

The fewest hashes alone would give 3 × 1, which compares almost all pairs. So the user bounds the number of hashes, and
``choose`` takes the banding with the fewest false candidates within this bound.

Two different bands get the same hash by accident with probability 2^-64; the only cost is one more comparison.
"""

import dataclasses
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from headrace.data_prep.dedup.corpus import Numbers
from headrace.data_prep.shuffle.records import run_bounds
from headrace.pipeline.core.errors import ConfigError

MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)
"""2^64 divided by the golden ratio, odd (Knuth, The Art of Computer Programming 3, 6.4)."""

GROUP_MEMBER = np.dtype([("hash", "<u8"), ("document", "<u8")])
"""A document in a group: the hash of a band, and the document that has it."""

STEPS = 1000
"""Points at which the S-curve is summed. The error of an area is 10^-5; areas of two bandings differ by more."""


@dataclasses.dataclass(frozen=True)
class Banding:
    """LSH with ``bands`` bands of ``rows`` hashes."""

    bands: int
    rows: int

    @property
    def hashes(self) -> int:
        """The number of hashes in a signature."""
        return self.bands * self.rows

    def chance(self, similarity: float) -> float:
        """Returns P(similarity), the probability that two documents of this similarity become candidates."""
        return float(1 - (1 - similarity**self.rows) ** self.bands)

    def false_candidates(self, threshold: float) -> float:
        """Returns the area below the S-curve, from 0 to ``threshold``.

        datasketch's MinHashLSH weighs the same area against misses (datasketch 2.0.0, lsh.py: ``_optimal_param``).
        """
        similarities = (np.arange(STEPS) + 0.5) / STEPS * threshold
        return float((1 - (1 - similarities**self.rows) ** self.bands).mean() * threshold)

    def expected_recall(self, threshold: float) -> str:
        """Returns one sentence: the share of the pairs with similarity ``threshold`` that become candidates."""
        chance = 100 * self.chance(threshold)
        share = f"{chance:.0f}" if chance < 99 else f"{chance:.1f}" if chance < 99.9 else "more than 99.9"
        return f"Near duplicates: pairs {100 * threshold:g} % alike are found in {share} % of cases"


def choose(threshold: float, recall: float, most_hashes: int) -> Banding:
    """Returns the banding with the fewest false candidates among those with P(threshold) ≥ ``recall``.

    Args:
        threshold: least similarity of a pair to find, in (0, 1].
        recall: least P(threshold), in (0, 1). More similar pairs have a higher probability.
        most_hashes: bound on the hashes per document (4 bytes each in a signature).

    Raises:
        ConfigError: if no banding within ``most_hashes`` reaches ``recall``.
    """
    bandings = list(_reaching(threshold, recall, most_hashes))
    if not bandings:
        raise ConfigError(
            "dedup.recall",
            f"no banding of at most {most_hashes} hashes finds {recall:g} of the pairs at similarity {threshold:g}",
            "raise dedup.most_hashes or dedup.threshold, or lower dedup.recall",
        )
    return min(bandings, key=lambda banding: (banding.false_candidates(threshold), banding.hashes))


def _reaching(threshold: float, recall: float, most_hashes: int) -> Iterator[Banding]:
    """Yields for each number of rows the banding with the fewest bands that reaches ``recall``, if there is one."""
    for rows in range(1, most_hashes + 1):
        bandings = (Banding(bands, rows) for bands in range(1, most_hashes // rows + 1))
        sufficient = next((banding for banding in bandings if banding.chance(threshold) >= recall), None)
        if sufficient:
            yield sufficient


def band_hashes(signatures: NDArray[np.uint32], bands: int) -> NDArray[np.uint64]:
    """Returns the hashes of the bands, (n_docs, bands) uint64, of (n_docs, bands · rows) uint32 signatures."""
    values = signatures.reshape(len(signatures), bands, signatures.shape[1] // bands)
    hashes = np.broadcast_to(mix(np.arange(bands, dtype=np.uint64)), values.shape[:2])
    for row in range(values.shape[2]):
        hashes = mix(hashes ^ values[:, :, row])
    return hashes


def mix(keys: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Maps 64-bit keys one to one to keys whose high bits depend on all bits."""
    keys = (keys + np.uint64(1)) * MULTIPLIER
    keys ^= keys >> np.uint64(32)
    keys *= MULTIPLIER
    return keys ^ (keys >> np.uint64(29))


def members(documents: Numbers, hashes: NDArray[np.uint64]) -> NDArray[np.void]:
    """Returns a GROUP_MEMBER for each document and band: (n_docs · bands,)."""
    records = np.empty(hashes.size, dtype=GROUP_MEMBER)
    records["hash"] = hashes.ravel()
    records["document"] = np.repeat(documents, hashes.shape[1])
    return records


def groups(records: NDArray[np.void], is_older: NDArray[np.bool_]) -> NDArray[np.void]:
    """Returns the members of groups of two or more documents, without groups that hold only older documents.

    Args:
        records: GROUP_MEMBER, sorted by (hash, document).
        is_older: whether the document belongs to an older run. Older documents are not compared with each other.
    """
    bounds = run_bounds(records["hash"])
    lengths = np.diff(bounds)
    ours = np.concatenate([[0], np.cumsum(~is_older)])
    return records[np.repeat((lengths > 1) & (np.diff(ours[bounds]) > 0), lengths)]

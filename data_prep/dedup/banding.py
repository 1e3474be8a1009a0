"""Banding: how many bands of how many hashes, and what that choice finds and costs.

Two documents of similarity s agree in all hashes of a band with probability s^rows, and in a whole band at least once,
which makes them candidates, with

    P(s) = 1 - (1 - s^rows)^bands        (Leskovec, Rajaraman, Ullman, Mining of Massive Datasets, 3.4.2)

an S-curve that rises around (1 / bands)^(1 / rows). ``choose`` takes, for each number of rows, the fewest bands that
give P(threshold) ≥ recall. For threshold 0.8 and recall 0.99:

    bands × rows   hashes   P(0.8)   P(0.5)   P(0.3)   P(0.1)
         3 × 1          3    0.992    0.875    0.657    0.271
         9 × 4         36    0.991    0.441    0.071    0.001
        16 × 6         96    0.992    0.223    0.012    0.000
        26 × 8        208    0.992    0.097    0.002    0.000
        41 × 10       410    0.991    0.039    0.000    0.000

Least hashes alone would choose 3 × 1, which compares almost everything with everything. So the number of hashes is
bounded, and among the bandings within the bound the one with the fewest false candidates is taken.
"""

import dataclasses
from collections.abc import Iterator

import numpy as np

from headrace.pipeline.core.errors import ConfigError

SHOWN = (0.5, 0.3)
"""Similarities below any usual threshold whose chance to become candidates tells what comparisons will cost."""

STEPS = 1000
"""Points at which the S-curve is summed: the areas are right to 10^-5, those of two bandings differ by more."""


@dataclasses.dataclass(frozen=True)
class Banding:
    """LSH with ``bands`` bands of ``rows`` hashes."""

    bands: int
    rows: int

    @property
    def hashes(self) -> int:
        """Hashes in a signature."""
        return self.bands * self.rows

    def chance(self, similarity: float) -> float:
        """P(similarity): the probability that two documents of this similarity become candidates."""
        return float(1 - (1 - similarity**self.rows) ** self.bands)

    def false_candidates(self, threshold: float) -> float:
        """The area below the S-curve left of ``threshold``.

        It is what datasketch's MinHashLSH weighs against misses (datasketch 2.0.0, lsh.py: ``_optimal_param``).
        """
        similarities = (np.arange(STEPS) + 0.5) / STEPS * threshold
        return float((1 - (1 - similarities**self.rows) ** self.bands).mean() * threshold)

    def expected_cost(self, threshold: float) -> str:
        """One line for people: hashes per document, and P at ``threshold`` and at those of ``SHOWN`` below it."""
        similarities = [threshold, *(s for s in SHOWN if s < threshold)]
        chances = ", ".join(f"{self.chance(s):.4f} at {s:g}" for s in similarities)
        return f"{self.bands} bands × {self.rows} rows = {self.hashes} hashes per document; P(candidate) {chances}"


def choose(threshold: float, recall: float, most_hashes: int) -> Banding:
    """Of the bandings with P(threshold) ≥ ``recall`` that fit in ``most_hashes``, the one of fewest false candidates.

    Args:
        threshold: in (0, 1], the similarity from which on pairs are to be found.
        recall: in (0, 1), the least share to find of the pairs right at the threshold; more similar ones are likelier.
        most_hashes: hashes per document (4 bytes each in a signature).

    Raises:
        ConfigError: when even single rows need more hashes than that.
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
    """For each number of rows the fewest bands that reach ``recall``, where ``most_hashes`` allow it."""
    for rows in range(1, most_hashes + 1):
        bandings = (Banding(bands, rows) for bands in range(1, most_hashes // rows + 1))
        found = next((banding for banding in bandings if banding.chance(threshold) >= recall), None)
        if found:
            yield found

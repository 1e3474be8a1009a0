"""Values that a sample estimates, with 95 % intervals."""

import math
from dataclasses import dataclass

Z95 = 1.959963984540054
"""The 97.5 % quantile of the normal distribution."""


@dataclass(frozen=True)
class Estimate:
    """A value and the limits of its 95 % interval."""

    value: float
    low: float
    high: float


def wilson(p: float, n: float) -> tuple[float, float]:
    """Returns Wilson's 95 % interval of a share ``p`` of ``n`` (JASA 22, 1927, equation for the score interval)."""
    centre = (p + Z95**2 / (2 * n)) / (1 + Z95**2 / n)
    half = Z95 / (1 + Z95**2 / n) * math.sqrt(p * (1 - p) / n + Z95**2 / (4 * n * n))
    return max(0.0, centre - half), min(1.0, centre + half)

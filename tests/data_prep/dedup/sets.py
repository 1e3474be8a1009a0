"""Shingle sets as Python's sets, and as the arrays that represent them."""

import numpy as np


def as_array(values: set[int]) -> np.ndarray:
    return np.array(sorted(values), dtype=np.uint64)


def slow(one: set[int], two: set[int]) -> float:
    """The Jaccard similarity."""
    return len(one & two) / len(one | two)

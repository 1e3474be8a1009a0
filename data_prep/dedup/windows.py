"""Windows: every run of n words of a text, and the few anchors by which equal windows find each other.

    words      w0 w1 w2 w3 w4 w5 w6 …          n = 5: windows w0…w4, w1…w5, …
    k-grams    h0 h1 h2 h3 h4 h5 …             hashes of every k = n // 2 words (see ``shingles``)
    anchor     of a window: the smallest of the n - k + 1 hashes in it; the first of equal ones

The anchor of a window follows from its words alone, so equal windows have equal anchors (winnowing: Schleimer,
Wilkerson, Aiken, Winnowing: local algorithms for document fingerprinting, SIGMOD 2003, section 3). Neighbouring windows
mostly share one: 2 / (n - k + 2) of the k-grams of a text are anchors, 7 % with n = 50. A window whose anchor occurs
once in the corpus occurs once.

The key of a window is 128 bits, made of XXH64 of its words and of its two halves. Among 10^12 windows the probability
that two different ones have one key is below 10^-14.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from headrace.data_prep.dedup.lsh import mix
from headrace.data_prep.dedup.shingles import shingle_hashes
from headrace.data_prep.kernel import kernel

Hashes = NDArray[np.uint64]


def anchor_words(words: int) -> int:
    """Returns the words of an anchor of windows of ``words`` words."""
    return max(1, words // 2)


def anchors(text: str, words: int) -> tuple[Hashes, NDArray[np.int64]]:
    """Returns the hash of each k-gram of ``text``, and the index of the anchor of each window: (n_windows,)."""
    size = anchor_words(words)
    hashes = shingle_hashes(text, size)
    if hashes.size <= words - size:
        return hashes, np.zeros(0, np.int64)
    return hashes, _first_minima(hashes, words - size + 1)


def window_keys(text: str, words: int, hashes: Hashes) -> Hashes:
    """Returns the key of each window of ``text``, which has the k-gram ``hashes``: (n_windows, 2).

    The first part is XXH64 of all words. The first and the last ⌈n/2⌉ words cover the window, too; the second part
    mixes XXH64 of both.
    """
    half = (words + 1) // 2
    halves = hashes if half == anchor_words(words) else shingle_hashes(text, half)
    whole = shingle_hashes(text, words)
    return np.stack([whole, mix(mix(halves[: whole.size]) + halves[words - half :])], axis=1)


@kernel
def _first_minima(values: NDArray[np.uint64], width: int) -> NDArray[Any]:  # pragma: no cover (compiled)
    """Returns the index of the smallest of each ``width`` values in a row, the first of equal ones."""
    minima = np.empty(values.size - width + 1, np.int64)
    least = -1
    for start in range(minima.size):
        last = start + width - 1
        if least < start:
            least = start
            for place in range(start + 1, last + 1):
                if values[place] < values[least]:
                    least = place
        elif values[last] < values[least]:
            least = last
        minima[start] = least
    return minima

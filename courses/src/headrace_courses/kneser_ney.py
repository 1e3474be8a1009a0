"""Interpolated modified Kneser–Ney n-gram models (Chen and Goodman 1999, section 3, equations 13 to 15 and 17).

    P_k(w | h) = (c(h w) - D(c(h w))) / c(h ·) + γ(h) P_{k-1}(w | h without its first token),   P_0 = 1 / V

    c of the highest order     how often the n-gram occurs
    c of a lower order         before how many different tokens it occurs
    D(0), D(1), D(2), D(3…)    0, 1 - 2Y n2/n1, 2 - 3Y n3/n2, 3 - 4Y n4/n3
    Y                          n1 / (n1 + 2 n2), n_i: the number of n-grams with c = i
    γ(h)                       Σ D(c(h w)) / c(h ·), so that the probabilities sum to 1

A text is a piece of a row: its first token is given, all others are predicted. ``order - 1`` tokens that are in no
vocabulary stand before it, so that all n-grams have full length. Where few n-grams leave the discounts undefined, they
are 0.5, 1 and 1.5 (KenLM's --discount_fallback).

Every n-gram of length k that occurs has a number. A sorted array has the key of each: the number of its first k - 1
tokens · (V + 1) + its last token.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
UNKNOWN = -1
"""The number of an n-gram that does not occur."""
FALLBACK = (0.5, 1.0, 1.5)


@dataclasses.dataclass(frozen=True)
class Level:
    """The counts of one length of n-grams in one role: as highest order, or as a lower one."""

    counts: Ints
    """(n-grams,): c of each."""
    totals: Floats
    """(contexts,): c(h ·)."""
    backoff: Floats
    """(contexts,): γ(h); undefined where the total is 0."""
    discounts: Floats
    """(4,): D(0) to D(3…)."""

    @classmethod
    def of(cls, counts: Ints, contexts: Ints, n_contexts: int) -> "Level":
        """Returns the level of n-grams with these ``counts``, after the contexts with these numbers."""
        discounts = np.array([0.0, *discounts_of(counts)])
        totals = np.bincount(contexts, counts, n_contexts).astype(np.float64)
        discounted = np.bincount(contexts, discounts[np.minimum(counts, 3)], n_contexts)
        return cls(counts, totals, discounted / np.maximum(totals, 1), discounts)

    def interpolated(self, grams: Ints, contexts: Ints, lower: Floats) -> Floats:
        """Returns P of n-grams by their numbers and those of their contexts, given that of the next lower order."""
        counts = np.where(grams == UNKNOWN, 0, self.counts[grams])
        totals = np.where(contexts == UNKNOWN, 0.0, self.totals[contexts])
        own = (counts - self.discounts[np.minimum(counts, 3)]) / np.maximum(totals, 1)
        return np.where(totals > 0, own + self.backoff[contexts] * lower, lower)


class KneserNey:
    """The models of all orders up to ``order``, fitted to ``pieces``."""

    def __init__(self, pieces: Sequence[NDArray[np.integer]], vocabulary: int, order: int) -> None:
        self.vocabulary, self.order = vocabulary, order
        self._keys: list[Ints] = []
        """The sorted keys of n-grams of length 1, 2, …"""
        self._highest: list[Level] = []
        self._lower: list[Level] = []
        tokens, predicted = self._padded(pieces)
        before = np.zeros(len(tokens), np.int64)  # the only n-gram of length 0
        suffixes = [before]
        n_contexts = 1
        for _ in range(order):
            keys, numbers = np.unique(self._key(before, tokens), return_inverse=True)
            self._keys.append(keys)
            counts = np.bincount(numbers[predicted], minlength=len(keys))
            contexts = keys // (vocabulary + 1)
            self._highest.append(Level.of(counts, contexts, n_contexts))
            if len(suffixes) > 1:
                self._lower.append(self._continued(suffixes[-1], numbers, predicted))
            suffixes.append(numbers)
            before, n_contexts = np.roll(numbers, 1), len(keys)

    def log_probs(self, pieces: Sequence[NDArray[np.integer]], order: int) -> Floats:
        """Returns ln P of each predicted token of ``pieces`` by the model of ``order``, one after the other."""
        tokens, predicted = self._padded(pieces)
        probability = np.full(len(tokens), 1 / self.vocabulary)
        before = np.zeros(len(tokens), np.int64)
        for length in range(1, order + 1):
            grams = self._numbers(length, before, tokens)
            level = self._highest[length - 1] if length == order else self._lower[length - 1]
            probability = level.interpolated(grams, before, probability)
            before = np.roll(grams, 1)
        log_probs: Floats = np.log(probability[predicted])
        return log_probs

    def arrays(self) -> dict[str, Ints | Floats]:
        """Returns the arrays that the model of the highest order needs, by name (``of_arrays``)."""
        levels = [*self._lower, self._highest[-1]]
        named = {f"{name}{k}": array for k, level in enumerate(levels) for name, array in vars(level).items()}
        return {f"keys{k}": keys for k, keys in enumerate(self._keys)} | named

    @classmethod
    def of_arrays(cls, arrays: Mapping[str, Any], vocabulary: int, order: int) -> "KneserNey":
        """Returns the model whose ``arrays`` are given. It has the highest order only."""
        model = cls.__new__(cls)
        model.vocabulary, model.order = vocabulary, order
        model._keys = [arrays[f"keys{k}"] for k in range(order)]
        names = [field.name for field in dataclasses.fields(Level)]
        model._lower = [Level(**{name: arrays[f"{name}{k}"] for name in names}) for k in range(order)]
        model._highest = model._lower
        return model

    def _continued(self, suffixes: Ints, numbers: Ints, predicted: NDArray[np.bool_]) -> Level:
        """Returns the level of n-grams whose c is the number of different tokens before them.

        Args:
            suffixes: (tokens,): the number of the n-gram that ends at each token.
            numbers: (tokens,): that of the n-gram that is one token longer.
            predicted: (tokens,): whether a token is predicted.
        """
        keys = self._keys[len(self._lower)]
        _, first = np.unique(numbers[predicted], return_index=True)
        counts = np.bincount(suffixes[predicted][first], minlength=len(keys))
        n_contexts = len(self._keys[len(self._lower) - 1]) if self._lower else 1
        return Level.of(counts, keys // (self.vocabulary + 1), n_contexts)

    def _padded(self, pieces: Sequence[NDArray[np.integer]]) -> tuple[Ints, NDArray[np.bool_]]:
        """Returns the tokens of all pieces, with padding before each, and whether each token is predicted."""
        padding = np.full(self.order - 1, self.vocabulary, np.int64)
        given = np.zeros(self.order, bool)
        tokens = [part for piece in pieces for part in (padding, piece.astype(np.int64))]
        predicted = [part for piece in pieces for part in (given, np.ones(len(piece) - 1, bool))]
        return np.concatenate(tokens), np.concatenate(predicted)

    def _key(self, before: Ints, tokens: Ints) -> Ints:
        return before * (self.vocabulary + 1) + tokens

    def _numbers(self, length: int, before: Ints, tokens: Ints) -> Ints:
        """Returns the numbers of n-grams of this ``length``, given those of their first ``length - 1`` tokens."""
        keys, wanted = self._keys[length - 1], self._key(before, tokens)
        places = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
        return np.where((before != UNKNOWN) & (keys[places] == wanted), places, UNKNOWN)


def discounts_of(counts: Ints) -> tuple[float, float, float]:
    """Returns D(1), D(2) and D(3…) for n-grams with these ``counts``."""
    n1, n2, n3, n4 = (int(np.count_nonzero(counts == i)) for i in range(1, 5))
    if not (n1 and n2 and n3):
        return FALLBACK
    y = n1 / (n1 + 2 * n2)
    discounts = 1 - 2 * y * n2 / n1, 2 - 3 * y * n3 / n2, 3 - 4 * y * n4 / n3
    return discounts if all(0 <= discount <= most for most, discount in enumerate(discounts, start=1)) else FALLBACK

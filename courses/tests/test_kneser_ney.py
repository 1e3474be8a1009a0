"""Modified Kneser–Ney models against an independent slow implementation; probabilities that sum to 1."""

import math
from collections import Counter, defaultdict

import numpy as np
import pytest

from headrace_courses.kneser_ney import FALLBACK, KneserNey, discounts_of

VOCABULARY, ORDER = 12, 4


class Slow:
    """The same model by its definition, with dictionaries: one n-gram at a time."""

    def __init__(self, pieces, order):
        self.order, self.counts = order, [Counter() for _ in range(order + 1)]
        padded = [[None] * (ORDER - 1) + piece.tolist() for piece in pieces]
        grams = [
            tuple(piece[end - length : end + 1])
            for length in range(order + 1)
            for piece in padded
            for end in range(ORDER, len(piece))
        ]
        for gram in grams:
            if len(gram) == order:
                self.counts[order][gram] += 1
        distinct = set(grams)
        for gram in distinct:
            if 2 <= len(gram) <= order:
                self.counts[len(gram) - 1][gram[1:]] += 1
        self.after = [defaultdict(list) for _ in range(order + 1)]
        for length in range(1, order + 1):
            for gram, count in self.counts[length].items():
                self.after[length][gram[:-1]].append(count)
        self.discounts = [(0, *discounts_of(np.array(list(one.values()) or [0]))) for one in self.counts]

    def probability(self, history, word):
        found = 1 / VOCABULARY
        for length in range(1, self.order + 1):
            context = tuple(history[len(history) - length + 1 :])
            counts, discounts = self.after[length][context], self.discounts[length]
            if counts:
                count = self.counts[length][(*context, word)]
                kept = sum(discounts[min(one, 3)] for one in counts)
                found = (count - discounts[min(count, 3)] + kept * found) / sum(counts)
        return found


def texts(seed: int, number: int) -> list[np.ndarray]:
    """Pieces in which the next token depends on the two before it."""
    draws, found = np.random.default_rng(seed), []
    for length in draws.integers(2, 40, number):
        tokens = [0, int(draws.integers(VOCABULARY))]
        while len(tokens) < length:
            follows = (tokens[-1] * 3 + tokens[-2]) % VOCABULARY
            tokens.append(int(follows if draws.random() < 0.6 else draws.integers(VOCABULARY - 2)))
        found.append(np.array(tokens[:length], np.uint16))
    return found


@pytest.fixture(scope="module")
def model() -> KneserNey:
    return KneserNey(texts(0, 60), VOCABULARY, ORDER)


@pytest.mark.parametrize("order", [1, 2, 3, 4])
def test_it_equals_the_definition(model, order):
    slow, pieces = Slow(texts(0, 60), order), texts(1, 12)
    padded = [[None] * (ORDER - 1) + piece.tolist() for piece in pieces]
    expected = [
        math.log(slow.probability(piece[:end], piece[end])) for piece in padded for end in range(ORDER, len(piece))
    ]
    assert model.log_probs(pieces, order) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("history", [(0,), (0, 5), (0, 5, 7, 1, 8), (0, 11, 11, 11), (0, 3, 9, 0, 4)])
def test_probabilities_sum_to_1(model, history):
    for order in range(1, ORDER + 1):
        pieces = [np.array([*history, word]) for word in range(VOCABULARY)]
        ends = np.cumsum([len(history)] * VOCABULARY) - 1
        assert np.exp(model.log_probs(pieces, order)[ends]).sum() == pytest.approx(1.0, abs=1e-12)


def test_a_longer_context_helps(model):
    losses = [-model.log_probs(texts(1, 40), order).mean() for order in (1, 2, 3)]
    assert losses[2] < min(losses[:2]) - 0.2


def test_discounts():
    counts = np.array([1] * 10 + [2] * 4 + [3] * 2 + [4])
    y = 10 / 18
    assert discounts_of(counts) == (1 - 2 * y * 4 / 10, 2 - 3 * y * 2 / 4, 3 - 4 * y / 2)
    assert discounts_of(np.array([1, 1, 4])) == FALLBACK

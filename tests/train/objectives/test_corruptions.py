"""BART's corruptions against slow references, token by token, and their distributions."""

import collections
import math
from fractions import Fraction

import numpy as np
import pytest

from headrace.train.objectives import noise
from headrace.train.objectives.noise import Masks

MASK = 99
ORDINARY = np.arange(50, 60)
MASKS = Masks(MASK, ORDINARY, 0.25)


def slow_masks(number: int, generator) -> list[int]:
    is_random = [draw < 0.25 for draw in generator.random(number)]
    tokens = generator.integers(0, len(ORDINARY), number).tolist()
    return [50 + token if random else MASK for random, token in zip(is_random, tokens, strict=True)]


def slow_infilled(text: list[int], begins_word: list[bool], rate: str, mean: float, generator, room: int) -> list[int]:
    """``add_whole_word_mask`` and ``add_insertion_noise`` of fairseq, with loops; ``room`` is ours."""
    words = sum(begins_word)
    budget = math.ceil(words * Fraction(rate))
    drawn: list[int] = []
    while sum(drawn) < budget:
        drawn += generator.poisson(mean, budget).tolist()
    lengths: list[int] = []
    while sum(lengths) < budget:
        lengths.append(min(drawn.pop(0), budget - sum(lengths)))
    spans, inserts = [length for length in lengths if length], lengths.count(0)
    starts = [index for index, begins in enumerate(begins_word) if begins]
    chosen = [starts[word] for word in generator.permutation(words)[: len(spans)]]
    source: list[int | None] = list(text)
    for place, mask in zip(chosen, slow_masks(len(spans), generator), strict=True):
        source[place] = mask
    for place, length in zip(chosen, spans, strict=True):
        index, left = place + 1, length
        while index < len(text) and (left := left - begins_word[index]) > 0:
            source[index] = None
            index += 1
    found = [token for token in source if token is not None]
    inserts = min(inserts, len(text) + room - len(found))
    places = generator.permutation(len(found) + inserts)[:inserts].tolist()
    for place, mask in zip(sorted(places), slow_masks(inserts, generator), strict=True):
        found.insert(place, mask)
    return found


@pytest.mark.parametrize("mean", [0.5, 3.0])
def test_infilling_is_that_of_loops(mean):
    texts = np.random.default_rng(0)
    for seed in range(300):
        length = int(texts.integers(1, 60))
        begins_word = np.append(True, texts.random(length - 1) < 0.6)
        rate, room = ("0.1", "0.3", "0.7")[seed % 3], seed % 2 * 100
        text = texts.integers(0, 50, length)
        generators = [np.random.default_rng(seed) for _ in range(2)]
        found = noise.infilled(text, begins_word, float(rate), mean, MASKS, generators[0], room)
        assert found.tolist() == slow_infilled(text.tolist(), begins_word.tolist(), rate, mean, generators[1], room)
        assert len(found) <= length + room
        assert generators[0].random() == generators[1].random()


def test_infilled_texts_have_the_share_and_the_spans_of_the_paper():
    """A text of distinct one-token words: what is missing is 30 % of it, less where spans overlap."""
    plain, text = Masks(MASK, ORDINARY, 0.0), np.arange(100, 1100)
    generator, missing, masks = np.random.default_rng(1), [], []
    for _ in range(100):
        source = noise.infilled(text, np.ones(1000, bool), 0.3, 3.0, plain, generator, 0)
        kept = source[source != MASK]
        assert (np.diff(kept) > 0).all()
        missing.append(1000 - len(kept))
        masks.append(len(source) - len(kept))
    assert 230 < np.mean(missing) < max(missing) <= 300
    # 100 spans to 300 words, with the empty ones; a span begins inside another one with the probability 0.2 or so
    assert 70 < np.mean(masks) < 100
    alone = noise.infilled(text[:1], np.ones(1, bool), 0.3, 3.0, plain, np.random.default_rng(0), 0)
    assert alone.tolist() == [MASK]


def test_lengths_of_spans_are_poisson_numbers():
    generator, lengths = np.random.default_rng(2), []
    for _ in range(200):
        found = noise.span_lengths(300, 3.0, generator)
        assert found.sum() == 300
        assert found[-1] > 0
        lengths += found[:-1].tolist()
    assert np.mean(lengths) == pytest.approx(3.0, abs=0.05)
    shares = collections.Counter(lengths)
    for length in range(7):
        expected = math.exp(-3) * 3**length / math.factorial(length)
        assert shares[length] / len(lengths) == pytest.approx(expected, abs=0.01)


@pytest.mark.parametrize("length", [1, 2, 9, 10, 57])
def test_masked_and_deleted_tokens_are_a_share_rounded_up(length):
    text, expected = np.arange(100, 100 + length), math.ceil(length * Fraction("0.3"))
    for seed in range(20):
        masked = noise.masked(text, 0.3, MASKS, np.random.default_rng(seed))
        assert int((masked != text).sum()) == expected
        assert set(masked[masked != text].tolist()) <= {MASK, *ORDINARY.tolist()}
        rest = noise.without_tokens(text, 0.3, np.random.default_rng(seed))
        assert (len(rest), set(rest.tolist()) <= set(text.tolist())) == (length - expected, True)
        assert (np.diff(rest) > 0).all()
        assert np.array_equal(rest, text[masked == text]), "the same tokens"


def test_masks_are_random_tokens_at_the_rate_of_their_share():
    found = MASKS.draw(20_000, np.random.default_rng(3))
    assert (found == MASK).mean() == pytest.approx(0.75, abs=0.02)
    counts = collections.Counter(found[found != MASK].tolist())
    assert counts.keys() == set(ORDINARY.tolist())
    assert min(counts.values()) > 0.8 * max(counts.values())


def test_sentences_are_whole_and_a_share_of_them_moves():
    text, starts = np.arange(20), np.array([0, 3, 4, 9, 15])
    sentences, orders = [[*part] for part in np.split(text, starts[1:])], set()
    for seed in range(400):
        found = noise.with_moved_sentences(text, starts, 1.0, np.random.default_rng(seed)).tolist()
        order = []
        while found:
            number = next(number for number, one in enumerate(sentences) if one[0] == found[0])
            assert found[: len(sentences[number])] == sentences[number]
            found = found[len(sentences[number]) :]
            order.append(number)
        assert sorted(order) == [0, 1, 2, 3, 4]
        orders.add(tuple(order))
    assert len(orders) > 110, "of 120 orders"
    for seed in range(50):
        found = noise.with_moved_sentences(text, starts, 0.3, np.random.default_rng(seed))
        places = [found.tolist().index(sentence[0]) for sentence in sentences]
        assert sum(place == rank for rank, place in enumerate(np.argsort(np.argsort(places)))) >= 3
    assert np.array_equal(noise.with_moved_sentences(text, starts[:1], 1.0, np.random.default_rng(0)), text)


def test_a_text_begins_with_each_token_when_it_is_rotated():
    text, found = np.arange(10), set()
    for seed in range(200):
        source = noise.rotated(text, np.random.default_rng(seed)).tolist()
        assert source == [(source[0] + step) % 10 for step in range(10)]
        found.add(source[0])
    assert found == set(range(10))

"""Noise: masks and texts against slow references that follow T5's data code word by word."""

import collections
import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.train.objectives import noise
from headrace.train.objectives.noise import Masks

SENTINELS = [900 + number for number in range(50)]


def slow_sentinels(text: list[int], mask: list[bool]) -> list[int]:
    """``noise_span_to_unique_sentinel``: token by token."""
    found, used, before = [], 0, False
    for token, is_masked in zip(text, mask, strict=True):
        if not is_masked:
            found.append(token)
        elif not before:
            found.append(SENTINELS[used])
            used += 1
        before = is_masked
    return found


def restored(inputs: list[int], targets: list[int]) -> list[int]:
    """The text again: each sentinel of the inputs is replaced by the tokens that follow it in the targets."""
    spans: dict[int, list[int]] = collections.defaultdict(list)
    current = None
    for token in targets:
        if token in SENTINELS:
            current = token
        else:
            spans[current].append(token)
    return [piece for token in inputs for piece in (spans[token] if token in SENTINELS else [token])]


@given(st.lists(st.booleans(), min_size=1, max_size=60))
def test_sentinels_are_those_of_a_loop(mask):
    text = list(range(len(mask)))
    found = noise.with_sentinels(np.array(text), np.array(mask), SENTINELS)
    assert found.tolist() == slow_sentinels(text, mask)


@given(st.integers(2, 300), st.floats(0.01, 0.99), st.floats(1, 70), st.integers(0, 2**32))
def test_span_masks_have_exact_counts_and_their_text_comes_back(length, rate, mean_span, seed):
    mask = noise.span_mask(length, rate, mean_span, np.random.default_rng(seed))
    assert len(mask) == length
    assert mask.sum() == min(max(round(length * rate), 1), length - 1)
    runs = [key for key, _ in itertools.groupby(mask.tolist())]
    spans = min(max(1, round(mask.sum() / mean_span)), length - mask.sum())
    assert runs == [False, True] * spans
    text, sentinels = np.arange(length), range(900, 900 + length)
    inputs, targets = (noise.with_sentinels(text, each, sentinels) for each in (mask, ~mask))
    assert len(inputs) == length - mask.sum() + spans
    assert len(targets) == mask.sum() + spans
    assert inputs[inputs >= 900].tolist() == targets[targets >= 900].tolist()
    if spans <= len(SENTINELS):
        assert restored(inputs.tolist(), targets.tolist()) == text.tolist()


def test_compositions_are_uniform():
    generator = np.random.default_rng(3)
    counts = collections.Counter(tuple(noise.composition(6, 3, generator).tolist()) for _ in range(10_000))
    assert sorted(counts) == sorted(c for c in itertools.product(range(1, 5), repeat=3) if sum(c) == 6)
    assert all(abs(count - 1000) < 120 for count in counts.values()), "more than 4 standard deviations"
    assert noise.composition(4, 1, generator).tolist() == [4]
    assert noise.composition(4, 4, generator).tolist() == [1, 1, 1, 1]


def test_a_span_mask_is_drawn_in_the_documented_order():
    """Spans first, then the kept parts."""
    mask = noise.span_mask(20, 0.5, 3.0, np.random.default_rng(8))
    generator = np.random.default_rng(8)
    masked, kept = (noise.composition(10, 3, generator).tolist() for _ in range(2))
    assert [len(list(run)) for _, run in itertools.groupby(mask.tolist())] == [
        length for pair in zip(kept, masked, strict=True) for length in pair
    ]


def test_independent_masks_have_their_rate_and_a_limit():
    generator = np.random.default_rng(1)
    sizes = [noise.independent_mask(400, 0.15, generator).sum() for _ in range(2000)]
    assert np.mean(sizes) == pytest.approx(60, abs=0.7)
    assert np.std(sizes) == pytest.approx((400 * 0.15 * 0.85) ** 0.5, rel=0.1)
    assert noise.most_independent(400, 0.15) == 89
    assert max(sizes) <= 89
    every = noise.independent_mask(3, 0.999999, generator)
    assert every.tolist() == [True] * 3
    assert noise.first_runs(np.array([True, True, False, True, False, True]), 2).tolist() == [1, 1, 0, 1, 0, 0]


def test_one_contiguous_span_begins_anywhere():
    generator = np.random.default_rng(2)
    masks = [noise.contiguous_mask(8, 0.5, generator) for _ in range(500)]
    assert all(mask.sum() == 4 for mask in masks)
    assert {int(mask.argmax()) for mask in masks} == {0, 1, 2, 3, 4}
    assert all(sum(key for key, _ in itertools.groupby(mask.tolist())) == 1 for mask in masks)


def test_masked_tokens_become_the_mask_or_a_random_token():
    text, mask = np.full(20_000, 7), np.arange(20_000) % 2 == 0
    found = noise.with_random_tokens(text, mask, 99, np.array([3, 4, 5]), 0.1, np.random.default_rng(0))
    assert (found[~mask] == 7).all()
    counts = collections.Counter(found[mask].tolist())
    assert counts.keys() == {99, 3, 4, 5}
    assert counts[99] == pytest.approx(9000, abs=130)
    assert all(counts[token] == pytest.approx(333, abs=75) for token in (3, 4, 5))


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

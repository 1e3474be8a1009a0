"""Passages of a text in a corpus, against all sequences of both compared with each other."""

import math
from collections.abc import Iterator, Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.data_prep.tokenization.text_index import CorpusPart, TextIndex

END = 0
Tokens = list[int]
Shard = tuple[Tokens, list[tuple[int, int]]]
"""Tokens, and the parts of them that belong to the corpus."""


def parts(shards: Sequence[Shard], at_once: int) -> Iterator[CorpusPart]:
    for number, (tokens, owned) in enumerate(shards):
        for begin in range(0, len(tokens), at_once):
            end = min(begin + at_once, len(tokens))
            inside = [(max(start, begin), min(stop, end)) for start, stop in owned if start < end and stop > begin]
            edges = np.array(inside, np.int64).reshape(-1, 2) - begin
            goes_on = any(start < begin < stop for start, stop in owned)
            yield CorpusPart(number, begin, np.array(tokens[begin:end], "<u2"), edges[:, 0], edges[:, 1], goes_on)


def bounds(tokens: Tokens) -> np.ndarray:
    return np.flatnonzero(np.array(tokens) == END).astype(np.uint64)


def places_of(passage: Tokens, shards: Sequence[Shard]) -> list[tuple[int, int]]:
    return [
        (number, first)
        for number, (tokens, owned) in enumerate(shards)
        for start, stop in owned
        for first in range(start, stop - len(passage) + 1)
        if tokens[first : first + len(passage)] == passage
    ]


def by_comparison(text: Tokens, shards: Sequence[Shard], least: int) -> dict[tuple[int, ...], list[int]]:
    """Passage → where it starts in the text."""
    lengths = []
    for first in range(len(text)):
        length = 0
        while first + length < len(text) and text[first + length] != END:
            if not places_of(text[first : first + length + 1], shards):
                break
            length += 1
        lengths.append(length)
    starts: dict[tuple[int, ...], list[int]] = {}
    for first, length in enumerate(lengths):
        if length >= least and (not first or lengths[first - 1] <= length):
            starts.setdefault(tuple(text[first : first + length]), []).append(first)
    return starts


def check(text: Tokens, shards: Sequence[Shard], least: int, at_once: int, documents: int) -> None:
    index = TextIndex(np.array(text, "<u2"), END)
    passages, total = index.passages(parts(shards, at_once), least)
    places = index.places(parts(shards, at_once), lambda number: bounds(shards[number][0]), passages, documents)
    expected = by_comparison(text, shards, least)
    corpus = [token for tokens, owned in shards for start, stop in owned for token in tokens[start:stop]]
    assert total == len(corpus)
    assert {tuple(text[one.starts[0] :][: one.length]): one.starts for one in passages} == expected
    logs = [
        math.fsum(math.log(corpus.count(token) / total) for token in text[one.starts[0] :][: one.length])
        for one in passages
    ]
    assert [one.log_probability for one in passages] == pytest.approx(logs, abs=1e-9)
    assert [one.log_probability for one in passages] == sorted(one.log_probability for one in passages)
    for passage, own in zip(passages, places, strict=True):
        everywhere = places_of(text[passage.starts[0] :][: passage.length], shards)
        assert own.number == len(everywhere)
        first_of: dict[tuple[int, int], tuple[int, int]] = {}
        for number, first in everywhere:
            document = int(np.searchsorted(bounds(shards[number][0]), first))
            first_of.setdefault((number, document), (number, first))
        assert list(own.first) == list(first_of.values())[:documents]


@st.composite
def shards_like(draw, text: Tokens) -> list[Shard]:
    """Shards of documents that are made of pieces of the text and of other tokens, read whole or in parts."""
    copied = st.integers(0, len(text)).flatmap(lambda first: st.just(text[first : first + 7]))
    piece = copied | st.lists(st.integers(1, 4), max_size=3)
    shards = []
    for _ in range(draw(st.integers(1, 2))):
        tokens = [END]
        for pieces in draw(st.lists(st.lists(piece, max_size=3), max_size=4)):
            tokens += [token for one in pieces for token in one if token != END] + [END]
        cuts = sorted(draw(st.sets(st.integers(0, len(tokens)), max_size=6)))
        shards.append((tokens, list(zip(cuts[::2], cuts[1::2], strict=False)) or [(0, len(tokens))]))
    return shards


@pytest.mark.slow
@settings(max_examples=150)
@given(st.data(), st.lists(st.integers(0, 3), max_size=14))
def test_the_passages_are_those_of_a_comparison_of_everything(data, text):
    shards = data.draw(shards_like(text))
    check(text, shards, data.draw(st.integers(1, 3)), data.draw(st.integers(1, 9)), data.draw(st.integers(1, 3)))


def test_a_passage_ends_with_its_document():
    text = [1, 2, 3, 4]
    check(text, [([END, 1, 2, END, 3, 4, END], [(0, 7)])], 1, 7, 2)
    (first, second), _ = TextIndex(np.array(text), END).passages(parts([([END, 1, 2, END, 3, 4, END], [(0, 7)])], 7), 1)
    assert {(*one.starts, one.length) for one in (first, second)} == {(0, 2), (2, 2)}


def test_repetition_costs_no_more_than_other_text():
    """10,000 equal tokens in a text and 200,000 in a corpus: 2 · 10^9 pairs of places, if they were compared."""
    text, tokens = np.ones(10_000, np.int64), [END, *[1] * 200_000, END]
    index = TextIndex(text, END)
    (passage,), _ = index.passages(parts([(tokens, [(0, len(tokens))])], 1 << 16), 8)
    (places,) = index.places(parts([(tokens, [(0, len(tokens))])], 1 << 16), lambda _: bounds(tokens), [passage], 3)
    assert (passage.starts, passage.length) == ([0], 10_000)
    assert (places.number, places.first) == (190_001, [(0, 1)])


def test_tokens_that_the_text_does_not_have_are_no_part_of_it():
    """Larger ids than those of the text, on both sides of 16 bits."""
    part = CorpusPart(0, 0, np.array([END, 70_000, 5, 6, 80_000, END], "<u4"), np.array([0]), np.array([6]), False)
    ((passage,), total) = TextIndex(np.array([5, 6]), END).passages([part], 2)
    assert (passage.starts, passage.length, total) == ([0], 2, 6)
    assert passage.log_probability == pytest.approx(2 * math.log(1 / 6))

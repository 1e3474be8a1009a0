"""Packing: each position once, no split of documents that fit a row, the rows of sequential best fit."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.data_prep.tokenization.packing import (
    SPAN,
    DocumentSpans,
    best_fit,
    concatenate,
    cut,
    fit,
    padded,
    similar_order,
    split_documents,
)

LENGTHS = st.lists(st.integers(1, 60), max_size=80)
METHODS = [best_fit, concatenate, padded]


def documents(lengths: list[int], shards: int = 3) -> DocumentSpans:
    """Returns documents of these lengths, in consecutive parts in token shards."""
    spans = np.empty(len(lengths), dtype=SPAN)
    start = 0
    for i, length in enumerate(lengths):
        shard = i * shards // len(lengths)
        start = 0 if i == 0 or shard != spans["shard"][i - 1] else start
        spans[i] = (shard, start, length)
        start += length
    return spans


def positions(spans: DocumentSpans) -> list[tuple[int, int]]:
    return [(shard, p) for shard, start, length in spans.tolist() for p in range(start, start + length)]


def sequential_best_fit(lengths: list[int], row_tokens: int) -> list[int]:
    """Returns the free space in each row by the definition, one piece at a time."""
    free: list[int] = []
    for length in sorted(lengths, reverse=True):
        fitting = [space for space in free if space >= length]
        if fitting:
            free.remove(min(fitting))
        free.append((min(fitting) if fitting else row_tokens) - length)
    return sorted(free)


@pytest.mark.parametrize("method", METHODS)
@given(lengths=LENGTHS, row_tokens=st.integers(1, 40))
def test_every_position_lies_in_exactly_one_span(method, lengths, row_tokens):
    whole = documents(lengths)
    spans, offsets = method(whole, row_tokens)
    assert sorted(positions(spans)) == positions(whole)
    assert offsets[0] == 0
    assert offsets[-1] == len(spans)
    filled = [spans["length"][a:b].sum() for a, b in itertools.pairwise(offsets)]
    assert all(1 <= tokens <= row_tokens for tokens in filled)


@given(lengths=LENGTHS, row_tokens=st.integers(1, 40))
def test_best_fit_splits_only_what_is_longer_than_a_row(lengths, row_tokens):
    whole = documents(lengths)
    spans, _ = best_fit(whole, row_tokens)
    assert len(spans) == sum(-(-length // row_tokens) for length in lengths)
    assert split_documents(whole, spans) == sum(length > row_tokens for length in lengths)


@given(lengths=LENGTHS, row_tokens=st.integers(1, 40))
def test_concatenation_pads_only_the_last_row_and_keeps_the_order(lengths, row_tokens):
    whole = documents(lengths)
    spans, offsets = concatenate(whole, row_tokens)
    assert len(offsets) - 1 == -(-sum(lengths) // row_tokens)
    assert positions(spans) == positions(whole)


@given(lengths=LENGTHS, row_tokens=st.integers(1, 40))
def test_a_padded_row_holds_one_document_or_a_piece_of_it(lengths, row_tokens):
    whole = documents(lengths)
    spans, offsets = padded(whole, row_tokens)
    assert (np.diff(offsets) == 1).all()
    assert len(spans) == sum(-(-length // row_tokens) for length in lengths)
    assert positions(spans) == positions(whole)


@given(lengths=st.lists(st.integers(1, 40), max_size=80), spare=st.integers(0, 20))
def test_fit_leaves_the_free_spaces_of_sequential_best_fit_decreasing(lengths, spare):
    row_tokens = max(lengths, default=1) + spare
    row = fit(np.array(lengths, dtype=np.uint32), row_tokens)
    filled = np.bincount(row, weights=lengths).astype(int) if lengths else np.empty(0, int)
    assert sorted((row_tokens - filled).tolist()) == sequential_best_fit(lengths, row_tokens)


@given(lengths=LENGTHS, row_tokens=st.integers(1, 40))
def test_rows_stand_in_the_order_of_their_first_spans(lengths, row_tokens):
    spans, offsets = best_fit(documents(lengths), row_tokens)
    first = [(s, p) for s, p, _ in spans[offsets[:-1]].tolist()]
    assert first == sorted(first)


def test_split_documents_counts_documents_not_cuts():
    whole = documents([25, 5, 20, 10], shards=2)
    assert split_documents(whole, concatenate(whole, 10)[0]) == 2
    assert split_documents(whole, cut(whole, 100)) == 0


def walked(signatures: list[list[int]]) -> list[int]:
    """Returns the order of ``similar_order`` by its definition, one document at a time."""
    left, order = list(range(len(signatures))), list[int]()
    while left:
        here, candidates = signatures[order[-1]] if order else [], set[int]()
        for k, value in enumerate(here):
            same = [other for other in left if signatures[other][k] == value != 0xFFFFFFFF]
            candidates |= {*[other for other in same if other < order[-1]][-1:]}
            candidates |= {*[other for other in same if other > order[-1]][:1]}
        equal = {other: sum(map(int.__eq__, here, signatures[other])) for other in sorted(candidates)}
        order.append(max(equal, key=lambda other: equal[other]) if equal else left[0])
        left.remove(order[-1])
    return order


@given(st.lists(st.lists(st.sampled_from([1, 2, 3, 0xFFFFFFFF]), min_size=4, max_size=4), max_size=14))
def test_similar_documents_follow_one_another_by_a_greedy_walk(signatures):
    assert similar_order(np.array(signatures, np.uint32).reshape(-1, 4)).tolist() == walked(signatures)


def test_documents_without_words_keep_their_order_and_others_meet():
    signatures = np.full((7, 8), 0xFFFFFFFF, np.uint32)
    signatures[1], signatures[3], signatures[6] = np.arange(8), np.arange(8) // 2 + 90, [*range(7), 99]
    signatures[4] = signatures[3]
    assert similar_order(signatures).tolist() == [0, 1, 6, 2, 3, 4, 5]


def test_an_example_by_hand():
    spans, offsets = best_fit(documents([15, 4, 6, 2, 5], shards=1), row_tokens=8)
    rows = [spans["length"][a:b].tolist() for a, b in itertools.pairwise(offsets)]
    assert rows == [[8], [7], [4], [6, 2], [5]]
    assert spans["start"].tolist() == [0, 8, 15, 19, 25, 27]


def test_web_like_lengths_are_packed_with_less_than_half_a_percent_of_padding():
    lengths = np.random.default_rng(0).lognormal(6.2, 1.2, 20_000).astype(int) + 1
    _, offsets = best_fit(documents(lengths.tolist()), row_tokens=2048)
    assert 0 <= 1 - lengths.sum() / (2048 * (len(offsets) - 1)) < 0.005

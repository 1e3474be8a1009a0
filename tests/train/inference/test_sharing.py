"""Shares of the queries of each rank; the ranks together answer as one alone does."""

import itertools

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from headrace.train.inference.queries import TokenQuery
from headrace.train.inference.sharing import in_rounds, rounds

TEXTS = st.lists(st.integers(0, 2), min_size=1, max_size=6)
QUERIES = st.lists(st.tuples(TEXTS, TEXTS), max_size=40)


def queries(pairs) -> list[TokenQuery]:
    return [
        TokenQuery(np.array(context, np.uint16), np.array(continuation, np.uint16)) for context, continuation in pairs
    ]


@given(QUERIES, st.integers(1, 4), st.integers(1, 30))
def test_each_query_once_and_those_of_one_context_together(pairs, ranks, round_tokens):
    shares = list(rounds(queries(pairs), ranks, round_tokens))
    assert all(len(stretches) == ranks for stretches in shares)
    stretches = list(itertools.chain(*shares))
    assert sorted(itertools.chain(*stretches)) == list(range(len(pairs)))
    owners: dict[tuple, set[int]] = {}
    for place, numbers in enumerate(stretches):
        for number in numbers:
            owners.setdefault(tuple(pairs[number][0]), set()).add(place)
    assert all(len(places) == 1 for places in owners.values())


@given(QUERIES, st.integers(1, 4), st.integers(1, 30), st.randoms())
def test_the_order_of_the_queries_does_not_matter(pairs, ranks, round_tokens, order):
    mixed = list(pairs)
    order.shuffle(mixed)
    shares = [
        [[sorted(one[number] for number in numbers) for numbers in each] for each in rounds(queries(one), ranks, 9)]
        for one in (pairs, mixed)
    ]
    assert shares[0] == shares[1]


@given(st.lists(st.integers(1, 50), min_size=1, max_size=60), st.integers(1, 5), st.integers(10, 300))
def test_stretches_cost_about_the_same(costs, ranks, round_cost):
    """None costs more than an equal part of all, and the block that reaches over its end."""
    shares = list(in_rounds([[number] for number in range(len(costs))], costs, ranks, round_cost))
    parts = ranks * -(-sum(costs) // (ranks * round_cost))
    for numbers in itertools.chain(*shares):
        assert sum(costs[number] for number in numbers) <= sum(costs) / parts + max(costs)


def test_what_begins_alike_stays_with_one_rank():
    """Six long contexts with two choices each, for three ranks: two contexts each."""
    contexts = [[n] * 20 for n in range(6)]
    pairs = [(context, [7, choice]) for choice in (0, 1) for context in contexts]
    ((first, second, third),) = rounds(queries(pairs), 3, 1000)
    assert [sorted(numbers) for numbers in (first, second, third)] == [[0, 1, 6, 7], [2, 3, 8, 9], [4, 5, 10, 11]]


def test_nothing_is_shared_out_without_queries():
    assert list(rounds([], 2, 10)) == []

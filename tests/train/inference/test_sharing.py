"""Shares of the queries of each rank; the ranks together answer as one alone does.

A resumed scoring reads the answers of a killed one: all of them, and none to a changed query.

Another likelihood than the causal one answers benchmarks through the real scoring, by one or several ranks.
"""

import contextlib
import itertools
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.pipeline.core.errors import RetryableError
from headrace.train.distributed.processes import Ranks, StopRequest
from headrace.train.inference.queries import TokenQuery
from headrace.train.inference.sharing import AnswerLog, Sharing, in_rounds, key_of, query_key, read_answers, rounds

TEXTS = st.lists(st.integers(0, 2), min_size=1, max_size=6)
QUERIES = st.lists(st.tuples(TEXTS, TEXTS), max_size=40)


def queries(pairs) -> list[TokenQuery]:
    return [
        TokenQuery(np.array(context, np.uint16), np.array(continuation, np.uint16)) for context, continuation in pairs
    ]


@given(QUERIES, st.integers(1, 4), st.integers(1, 30))
@settings(max_examples=50)
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
@settings(max_examples=50)
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


ANSWERS = [-12.25, 0.1 + 0.2, -5e-324, float("-inf"), -1024.0001]


def answers(first: int, last: int) -> dict[str, list]:
    return {f"{number:032x}": [ANSWERS[number % 5], number % 3 == 0] for number in range(first, last)}


@given(st.integers(1, 40), st.lists(st.tuples(st.integers(1, 12), st.integers(0, 4)), max_size=4), st.integers(1, 12))
@settings(max_examples=15)
def test_what_is_kept_is_not_asked_again(number: int, killed: list[tuple[int, int]], last_size: int) -> None:
    """Processes are killed one after the other in some round, each with rounds of another size."""
    keys = [f"{one % 30:032x}" for one in range(number)]
    asked: list[int] = []
    with TemporaryDirectory() as folder:
        path = Path(folder, "scratch", "answers")
        for size, rounds in [*killed, (last_size, number + 1)]:
            left, told = rounds, []

            def work(own: list[int]) -> list[list]:
                nonlocal left
                left -= 1
                if left < 0:
                    raise KeyboardInterrupt
                asked.extend(own)
                return [answers(one % 30, one % 30 + 1)[keys[one]] for one in own]

            shares = in_rounds([[one] for one in range(number)], [1] * number, 1, size)
            sharing = Sharing(Ranks(0, 1, 0, 1), told.append, AnswerLog(read_answers(path), path))
            with contextlib.suppress(KeyboardInterrupt):
                found = sharing.answers(keys, shares, work)
        assert found == [answers(one % 30, one % 30 + 1)[key] for one, key in enumerate(keys)]
        assert sum(told) == number
        assert {keys[one] for one in asked} == set(keys) == set(read_answers(path))
        assert len([one for one in asked if one < 30]) == min(number, 30), "none was asked twice"


def test_a_request_to_stop_ends_after_the_round_under_way(tmp_path: Path) -> None:
    keys, path, stop = [f"{one:032x}" for one in range(9)], tmp_path / "answers", StopRequest()
    asked: list[int] = []

    def work(own: list[int]) -> list[list]:
        asked.extend(own)
        stop.asked = len(asked) == 6
        return [answers(one, one + 1)[keys[one]] for one in own]

    shares = list(in_rounds([[one] for one in range(9)], [1] * 9, 1, 3))
    with pytest.raises(RetryableError) as error:
        Sharing(Ranks(0, 1, 0, 1), [].append, AnswerLog(read_answers(path), path), stop).answers(keys, shares, work)
    again = "run the same command again to go on"
    assert str(error.value) == f"scores: stopped on request with 6 answers kept; {again}"
    found = Sharing(Ranks(0, 1, 0, 1), [].append, AnswerLog(read_answers(path), path)).answers(keys, shares, work)
    assert found == list(answers(0, 9).values())
    assert asked == list(range(9))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Three lines with two answers each."""
    path = tmp_path / "answers"
    for first in (0, 2, 4):
        AnswerLog(path=path).add(answers(first, first + 2))
    assert read_answers(path) == answers(0, 6)
    return path


def test_of_a_torn_line_nothing_is_taken(path: Path) -> None:
    whole = path.read_bytes()
    last = whole.rindex(b"\n")
    for end in range(last, len(whole)):
        path.write_bytes(whole[:end])
        assert read_answers(path) == answers(0, 4)
    AnswerLog(path=path).add(answers(20, 22))
    assert read_answers(path) == answers(0, 4) | answers(20, 22)


def test_of_a_line_with_a_changed_byte_nothing_is_taken(path: Path) -> None:
    whole = path.read_bytes()
    for place in range(len(whole)):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 1 << place % 8]) + whole[place + 1 :])
        found = read_answers(path)
        assert found.items() <= answers(0, 6).items()
        assert len(found) >= 2
        assert len(found) < 6 or place == 0, "only the empty line before the first may change"


def test_the_key_tells_all_that_was_asked() -> None:
    asked = [([1, 2], [3], None), ([1], [2, 3], None), ([1, 2], [3], 4), ([1, 2], [], 3), ([258], [3], None)]
    queries = [TokenQuery(np.array(a, np.uint16), np.array(b, np.uint16), c) for a, b, c in asked]
    assert len({query_key(query) for query in queries}) == len(asked)
    (context, continuation, _) = asked[0]
    wider = TokenQuery(np.array(context, np.int64), np.array(continuation, np.uint32))
    assert query_key(wider) == query_key(queries[0])
    assert key_of(b"a", b"bc") != key_of(b"ab", b"c") != key_of(b"abc")

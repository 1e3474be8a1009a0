"""A resumed scoring reads the answers of a killed one: all of them, and none to a changed query."""

import contextlib
import json
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.pipeline.core.errors import RetryableError
from headrace.train.distributed.processes import Ranks, StopRequest
from headrace.train.inference.answer_log import AnswerLog, key_of, read
from headrace.train.inference.queries import TokenQuery
from headrace.train.inference.sharing import Sharing, in_rounds, query_key

ANSWERS = [-12.25, 0.1 + 0.2, -5e-324, float("-inf"), -1024.0001]


def answers(first: int, last: int) -> dict[str, list]:
    return {f"{number:032x}": [ANSWERS[number % 5], number % 3 == 0] for number in range(first, last)}


@given(st.integers(1, 40), st.lists(st.tuples(st.integers(1, 12), st.integers(0, 4)), max_size=4), st.integers(1, 12))
@settings(max_examples=30)
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
            sharing = Sharing(Ranks(0, 1, 0, 1), told.append, AnswerLog(read(path), path))
            with contextlib.suppress(KeyboardInterrupt):
                found = sharing.answers(keys, shares, work)
        assert found == [answers(one % 30, one % 30 + 1)[key] for one, key in enumerate(keys)]
        assert sum(told) == number
        assert {keys[one] for one in asked} == set(keys) == set(read(path))
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
        Sharing(Ranks(0, 1, 0, 1), [].append, AnswerLog(read(path), path), stop).answers(keys, shares, work)
    again = "run the same command again to go on"
    assert str(error.value) == f"scores: stopped on request with 6 answers kept; {again}"
    found = Sharing(Ranks(0, 1, 0, 1), [].append, AnswerLog(read(path), path)).answers(keys, shares, work)
    assert found == list(answers(0, 9).values())
    assert asked == list(range(9))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Three lines with two answers each."""
    path = tmp_path / "answers"
    for first in (0, 2, 4):
        AnswerLog(path=path).add(answers(first, first + 2))
    assert read(path) == answers(0, 6)
    return path


def test_of_a_torn_line_nothing_is_taken(path: Path) -> None:
    whole = path.read_bytes()
    last = whole.rindex(b"\n")
    for end in range(last, len(whole)):
        path.write_bytes(whole[:end])
        assert read(path) == answers(0, 4)
    AnswerLog(path=path).add(answers(20, 22))
    assert read(path) == answers(0, 4) | answers(20, 22)


def test_of_a_line_with_a_changed_byte_nothing_is_taken(path: Path) -> None:
    whole = path.read_bytes()
    for place in range(len(whole)):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 1 << place % 8]) + whole[place + 1 :])
        found = read(path)
        assert found.items() <= answers(0, 6).items()
        assert len(found) >= 2
        assert len(found) < 6 or place == 0, "only the empty line before the first may change"


def test_what_is_not_there_is_no_answer(tmp_path: Path) -> None:
    assert read(tmp_path / "answers") == {}


def test_the_key_tells_all_that_was_asked() -> None:
    asked = [([1, 2], [3], ()), ([1], [2, 3], ()), ([1, 2], [3], (4,)), ([1, 2], [], (3,)), ([258], [3], ())]
    queries = [TokenQuery(np.array(a, np.uint16), np.array(b, np.uint16), c) for a, b, c in asked]
    assert len({query_key(query) for query in queries}) == len(asked)
    (context, continuation, _) = asked[0]
    assert query_key(TokenQuery(np.array(context, np.int64), np.array(continuation, np.uint32))) == query_key(
        queries[0]
    )
    assert key_of(b"a", b"bc") != key_of(b"ab", b"c") != key_of(b"abc")


def test_a_line_is_readable(path: Path) -> None:
    line = path.read_text().splitlines()[2]
    assert json.loads(line[64:]) == answers(2, 4)

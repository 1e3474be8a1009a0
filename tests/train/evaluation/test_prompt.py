"""Worked examples and the cut between context and continuation."""

import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.pipeline.core.errors import ConfigError
from headrace.train.evaluation.prompt import encode, shot_numbers
from headrace.train.inference.queries import Text, TokenQuery

QUERIES = [f"Q{number}" for number in range(8)] + ["Q3"]


@given(shots=st.integers(0, 7), seed=st.text(max_size=5))
@settings(max_examples=40)
def test_shots_never_include_the_item_or_its_twin(shots, seed):
    for item, numbers in enumerate(shot_numbers(QUERIES, shots, seed)):
        assert len(set(numbers)) == shots
        assert all(QUERIES[number] != QUERIES[item] for number in numbers)


def test_shots_depend_on_the_seed_and_the_item_only():
    assert shot_numbers(QUERIES, 5, "0:piqa") == shot_numbers(QUERIES, 5, "0:piqa")
    assert shot_numbers(QUERIES, 5, "0:piqa") != shot_numbers(QUERIES, 5, "1:piqa")
    assert len({tuple(numbers) for numbers in shot_numbers(QUERIES, 5, "0:piqa")}) > 1


def test_shots_are_the_draws_of_the_harness():
    """One generator for all items, one example more than is needed, the item taken out (ContextSampler.sample)."""
    generator, queries = random.Random(1234), [str(number) for number in range(20)]
    expected = [
        [number for number in generator.sample(range(20), 4) if number != item][:3] for item in range(len(queries))
    ]
    assert shot_numbers(queries, 3, 1234) == expected


def test_too_many_shots():
    with pytest.raises(ConfigError) as caught:
        shot_numbers(["a", "b", "b"], 2, "")
    assert str(caught.value) == "evaluation.benchmarks: 2 shots of 3 records; ask for fewer shots"


def test_all_shots_that_there_are():
    assert [sorted(numbers) for numbers in shot_numbers(["a", "b", "c"], 2, "")] == [[1, 2], [0, 2], [0, 1]]


def decoded(tokens: TokenQuery, encoder) -> tuple[str, str]:
    return encoder.decode(tokens.context), encoder.decode(tokens.continuation)


def test_white_space_moves_to_the_continuation(encoder):
    encoded = encode([Text("the old miller", " turns"), Text("the old miller \n", "turns")], encoder)
    assert [decoded(tokens, encoder) for tokens in encoded] == [
        ("the old miller", " turns"),
        ("the old miller", " \nturns"),
    ]


def test_an_empty_context_is_the_end_of_text(encoder):
    for context in ("", "  "):
        (tokens,) = encode([Text(context, "The miller.")], encoder)
        assert tokens.context.tolist() == [encoder.end_of_text]
        assert encoder.decode(tokens.continuation) == context + "The miller."


def test_only_the_last_token_is_asked_for(encoder):
    (whole,) = encode([Text("the old", " millwheelers")], encoder)
    (last,) = encode([Text("the old", " millwheelers", last_token=True)], encoder)
    assert len(whole.continuation) > 1
    assert last.continuation.tolist() == whole.continuation[-1:].tolist()
    assert last.context.tolist() == [*whole.context.tolist(), *whole.continuation[:-1].tolist()]


def test_the_cut_counts_tokens_of_the_context_alone(encoder):
    """If the two merge across the cut, the rest of the whole is scored, as in the harness."""
    (whole,) = encoder.encode(["the old miller"])
    (context,) = encoder.encode(["the old mill"])
    (tokens,) = encode([Text("the old mill", "er")], encoder)
    assert tokens.context.tolist() == context.tolist()
    assert tokens.continuation.tolist() == (whole[len(context) :].tolist() or encoder.encode(["er"])[0].tolist())
    assert len(tokens.continuation)


def test_tokens_pass_through_in_their_place(encoder):
    given_tokens = TokenQuery(np.array([1]), np.array([2, 3]))
    encoded = encode([Text("a b", " c"), given_tokens, Text("d e", " f")], encoder)
    assert encoded[1] is given_tokens
    assert [decoded(encoded[i], encoder) for i in (0, 2)] == [("a b", " c"), ("d e", " f")]


@given(context=st.text(max_size=30), continuation=st.text(min_size=1, max_size=30))
@settings(max_examples=200)
def test_nothing_is_lost_between_words(encoder, context, continuation):
    (tokens,) = encode([Text(context, " " + continuation)], encoder)
    assert len(tokens.context) >= 1
    assert len(tokens.continuation) >= 1

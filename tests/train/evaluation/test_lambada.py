"""LAMBADA with stop words excluded from the predictions."""

import json

import numpy as np
import pytest
import torch

from headrace.train.context import LEFT_TO_RIGHT
from headrace.train.evaluation.benchmarks.base import Item, Sources
from headrace.train.evaluation.benchmarks.lambada import STOP_WORDS, Lambada
from headrace.train.evaluation.prompt import encode
from headrace.train.inference.causal_likelihood import is_greedy_of_rest, windows
from headrace.train.inference.queries import Answer, Text, TokenQuery
from tests.train.small_models import OfHuggingFace, likelihood_of, story


class Known:
    """A model that predicts the same tokens everywhere."""

    def __init__(self, logits: list[float]) -> None:
        self.logits = torch.tensor(logits)

    def __call__(self, tokens_BT, positions_BT, documents_BT):
        return self.logits.expand(*tokens_BT.shape, -1)


def tokens(*continuation: int, passed_over: tuple[int, ...] = ()) -> TokenQuery:
    return TokenQuery(np.array([0]), np.array(continuation), passed_over)


def test_tokens_passed_over_by_hand():
    """Token 3 is the likeliest, then 1, 2, 0: without 3 token 1 is, at the beginning only."""
    asked = {
        (1,): [((), False), ((3,), True), ((1, 3), True), ((2,), False)],
        (3,): [((), True), ((3,), True)],
        (2,): [((3,), False), ((1, 3), True)],
        (1, 1): [((3,), False)],
        (1, 3): [((3,), True), ((), False)],
    }
    for continuation, cases in asked.items():
        queries = [tokens(*continuation, passed_over=passed_over) for passed_over, _ in cases]
        answers = likelihood_of(Known([0.0, 2.0, 1.0, 3.0])).answers(queries)
        assert [answer.greedy for answer in answers] == [expected for _, expected in cases]
        assert len({answer.log_likelihood for answer in answers}) == 1


def test_only_the_first_part_of_a_long_continuation_is_filtered():
    first, second = windows(tokens(*range(6), passed_over=(7,)), LEFT_TO_RIGHT.capacity(4, two_stacks=False))
    assert (first.passed_over, second.passed_over) == ((7,), ())
    assert is_greedy_of_rest(torch.tensor([1.0, 0, 0, 0, 0, 0, 0, 2.0]), first)


def test_stop_words_that_are_one_token(encoder, write_lines):
    path = write_lines("l.jsonl", json.dumps({"text": "On the day the old miller"}))
    (item,) = Lambada(paths=(str(path),), reading="stop_word_filtered").items(Sources(path.parent, None, "0"))
    (query,) = item.queries
    assert (query.context, query.continuation) == ("On the day the old", " miller")
    (asked,) = encode([query], encoder)
    texts = {encoder.decode([token]) for token in asked.passed_over}
    assert " the" in texts
    assert {text.strip().lower() for text in texts} <= STOP_WORDS
    assert all(text.startswith(" ") for text in texts)
    (plain,) = encode([Text("On the day the old", " miller")], encoder)
    assert plain.passed_over == ()


def test_the_filter_can_only_help_words_that_are_no_stop_words(encoder, gpt2, write_lines):
    rows = [json.dumps({"text": " ".join(story(number).split()[: 5 + number % 9])}) for number in range(120)]
    path = write_lines("l.jsonl", *rows)
    likelihood, found = likelihood_of(OfHuggingFace(gpt2)), {}
    for reading in ("last_word", "stop_word_filtered"):
        benchmark = Lambada(paths=(str(path),), reading=reading)
        items = benchmark.items(Sources(path.parent, None, "0"))
        answers = likelihood.answers(encode([query for item in items for query in item.queries], encoder))
        found[reading] = [benchmark.outcome(item, [answer]) for item, answer in zip(items, answers, strict=True)]
    pairs = list(zip(items, found["last_word"], found["stop_word_filtered"], strict=True))
    stops = [item.choices[0].lower() in STOP_WORDS for item in items]
    assert 5 < sum(stops) < 115
    for is_stop, (_, plain, filtered) in zip(stops, pairs, strict=True):
        assert filtered["log_likelihood"] == plain["log_likelihood"]
        assert filtered["acc"] == 0 if is_stop else filtered["acc"] >= plain["acc"]


@pytest.mark.parametrize(("word", "acc"), [("signs", 1.0), ("The", 0.0), ("him", 0.0)])
def test_a_stop_word_is_never_predicted(word, acc):
    benchmark = Lambada(paths=(), reading="stop_word_filtered")
    assert benchmark.outcome(Item("1", (), (word,)), [Answer(-1.0, True, 1)])["acc"] == acc


def test_gpt2_s_tokenizer_knows_nearly_all_stop_words_as_one_token(data_folder):
    vocabulary = json.loads((data_folder("tokenizer") / "gpt2_encoder.json").read_text())
    assert {word for word in STOP_WORDS if f"Ġ{word}" not in vocabulary} <= {"yourselves"}

"""Exact completions, and the rewriting of questions.

LAMBADA with stop words excluded from the predictions.
"""

import json
import math
import re

import numpy as np
import pytest
import torch

from headrace.pipeline.core.errors import ConfigError
from headrace.pipeline.core.settings import decode
from headrace.train.context import LEFT_TO_RIGHT
from headrace.train.evaluation.benchmarks.base import Item, Sources
from headrace.train.evaluation.benchmarks.choices import MultipleChoice
from headrace.train.evaluation.benchmarks.completions import STOP_WORDS, Completion, Lambada
from headrace.train.evaluation.prompt import encode
from headrace.train.evaluation.settings import Evaluation
from headrace.train.inference.causal_likelihood import is_greedy_of_rest, windows
from headrace.train.inference.queries import Answer, Text, TokenQuery
from tests.train.evaluation.test_benchmarks import answer, questions, sources
from tests.train.evaluation.test_question_files import error_of
from tests.train.small_models import OfHuggingFace, likelihood_of, story

ROWS = [
    {"set": kind, "context": f"\n\nQ: What is {n} {word} 1?\n\nA:", "completion": f" {value}"}
    for n in range(4) for kind, word, value in (("addition", "plus", n + 1), ("subtraction", "minus", n - 1))
]  # fmt: skip
REWRITES = ((r"\A\s+|\s+\Z", ""), ("\n\n", "\n"), ("Q:", "Question:"), ("A:", "Answer:"))


def test_a_completion_is_one_query(write_lines):
    path = str(questions(write_lines, *ROWS))
    items = Completion(paths=(path,), group_field="set", delimiter="").items(sources())
    assert items[0] == Item(
        "questions.jsonl:1", (Text("\n\nQ: What is 0 plus 1?\n\nA:", " 1"),), (" 1",), group="addition"
    )
    assert [item.group for item in items] == ["addition"] * 4 + ["subtraction"] * 4


def test_rewrites_make_the_prompt_of_the_harness(write_lines):
    """arithmetic/utils.py: strip, one line break for two, Q: and A: in full; few-shot examples after a blank line."""
    path = str(questions(write_lines, *ROWS))
    settings = {"paths": [path], "type": "completion", "group_field": "set", "delimiter": "", "rewrites": REWRITES}
    benchmark = decode(Evaluation, {"benchmarks": {"x": settings | {"shots": 2}}}).benchmarks["x"]
    for item in benchmark.items(sources()):
        *worked, question = item.queries[0].context.split("\n\n")
        sign = {"addition": "plus", "subtraction": "minus"}[item.group]
        assert re.fullmatch(rf"Question: What is \d {sign} 1\?\nAnswer:", question)
        assert len(set(worked)) == 2
        for example in worked:
            n, result = re.fullmatch(rf"Question: What is (\d) {sign} 1\?\nAnswer: (-?\d)", example).groups()
            assert int(result) == int(n) + (1 if sign == "plus" else -1)
            assert f"is {n} " not in question


def test_limits(write_lines):
    path = str(questions(write_lines, *ROWS))
    whole = Completion(paths=(path,), group_field="set", shots=1).items(sources())
    some = Completion(paths=(path,), group_field="set", shots=1, limit_per_group=2).items(sources())
    assert some == whole[:2] + whole[4:6]
    assert (
        Completion(paths=(path,), group_field="set", shots=1, limit=3, limit_per_group=2).items(sources()) == some[:3]
    )
    in_turn = Completion(paths=(path,), group_field="set", shots=1, limit=3).items(sources())
    assert in_turn == whole[:2] + whole[4:5]


def test_right_is_what_greedy_decoding_writes():
    benchmark = Completion(paths=())
    items = [Item("1", (), ("x",), group=group) for group in "aab"]
    outcomes = [benchmark.outcome(items[0], [answer(-1.5, greedy)]) for greedy in (True, False, False)]
    assert outcomes[0] == {"acc": 1.0, "log_likelihood": -1.5, "nats": 1.5, "bytes": 1.0}
    whole, bits, a, b = benchmark.metrics(items, outcomes, 10)
    assert (whole.value, a.value, b.value, whole.random) == (0.25, 0.5, 0, 0)
    assert (bits.name, bits.value) == ("bits_per_byte", pytest.approx(1.5 / math.log(2)))


def test_texts_are_exercises_with_their_answers(write_lines):
    settings = {"type": "completion", "paths": [str(questions(write_lines, ROWS[0]))], "rewrites": REWRITES}
    evaluation = decode(Evaluation, {"benchmarks": {"x": settings}})
    assert list(evaluation.texts()["x"].texts()) == [("questions.jsonl:1", ("\n\nQ: What is 0 plus 1?\n\nA: 1",))]


def test_a_missing_field_is_named(write_lines):
    path = write_lines("bad.jsonl", json.dumps({"context": "1 + 1 =", "continuation": " 2"}))
    assert error_of(Completion, path) == ":1: has no field 'completion'; its fields are: context, continuation"


def test_rewrites_act_one_after_the_other(write_lines):
    path = str(questions(write_lines, {"query": "Passage: abc", "choices": ["no", "yes"], "gold": 0}))
    rewrites = (("Passage: ", ""), ("a(b)", r"\1\1"), ("bbc", "x"))
    (item,) = MultipleChoice(paths=(path,), rewrites=rewrites, query_suffix="?").items(sources())
    assert item.queries[0].context == "x?"


@pytest.mark.parametrize(
    ("rewrite", "message"),
    [
        (["(", ""], "'(' → '' of rewrites is no regular expression (missing ), unterminated subpattern at position 0)"),
        (["a", r"\1"], r"'a' → '\\1' of rewrites is no regular expression (invalid group reference 1 at position 1)"),
    ],
)
def test_a_bad_rewrite(rewrite, message):
    with pytest.raises(ConfigError) as caught:
        decode(Evaluation, {"benchmarks": {"x": {"type": "completion", "paths": ["a"], "rewrites": [rewrite]}}})
    assert str(caught.value) == f"evaluation.benchmarks: {message}; correct it"


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


def test_lambada_reads_both_forms_alike(write_lines):
    path = questions(write_lines, {"text": "I don't care about signs"}, {"context": "I don't care about",
                                                                         "continuation": "signs"})  # fmt: skip
    first, second = Lambada(paths=(str(path),)).items(sources())
    assert first.queries == second.queries == (Text("I don't care about", " signs"),)


def test_lambada_by_the_last_token(write_lines):
    path = questions(write_lines, {"text": "I don't care about signs"})
    (item,) = Lambada(paths=(str(path),), reading="last_token").items(sources())
    assert item.queries == (Text("I don't care about", " signs", last_token=True),)


def test_lambada_metrics():
    lambada = Lambada(paths=())
    item = Item("x", (), ("signs",))
    outcomes = [lambada.outcome(item, [answer(-math.log(4), True, 1)]), lambada.outcome(item, [answer(0.0, False, 3)])]
    accuracy, perplexity, bits = lambada.metrics([item] * 2, outcomes, 10)
    assert (accuracy.value, accuracy.random) == (0.5, 0)
    assert (perplexity.value, perplexity.random) == (pytest.approx(2), pytest.approx(100))
    assert bits.value == pytest.approx(2 / (2 * len("signs")))
    last = Lambada(paths=(), reading="last_token")
    outcome = last.outcome(item, [answer(-1.0, True, 1)])
    assert [metric.name for metric in last.metrics([item], [outcome], 10)] == ["acc", "perplexity"]

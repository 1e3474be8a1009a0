"""Schemas: the same end after two beginnings."""

import json
import math

import pytest

from headrace.pipeline.core.settings import decode
from headrace.train.evaluation.benchmarks.base import Item
from headrace.train.evaluation.benchmarks.schema import Schema
from headrace.train.evaluation.settings import Evaluation
from headrace.train.inference.queries import Text
from tests.train.evaluation.test_benchmarks import answer, questions, sources
from tests.train.evaluation.test_question_files import error_of

ROWS = [
    {"context_options": [f"The key {n} did not fit as the key {n}", f"The key {n} did not fit as the lock"],
     "continuation": end, "gold": gold}
    for n in range(3) for end, gold in (("was too big.", 0), (".", 1))
]  # fmt: skip


def test_one_end_after_each_beginning(write_lines):
    item, stop, *_ = Schema(paths=(str(questions(write_lines, *ROWS)),)).items(sources())
    options = ("The key 0 did not fit as the key 0", "The key 0 did not fit as the lock")
    queries = tuple(Text(option, " was too big.") for option in options)
    assert item == Item("questions.jsonl:1", queries, options, 0, sizes={"bytes": 12.0})
    assert [query.continuation for query in stop.queries] == [" ."] * 2


def test_a_space_of_its_own_stands_before_a_word_only(write_lines):
    path = questions(write_lines, *ROWS)
    item, stop, *_ = Schema(paths=(str(path),), own_space=True).items(sources())
    assert [query.continuation for query in (*item.queries, *stop.queries)] == ["  was too big."] * 2 + [" ."] * 2


def test_worked_examples_are_whole_right_sentences_and_never_the_item(write_lines):
    path = questions(write_lines, *ROWS)
    items = Schema(paths=(str(path),), shots=5).items(sources())
    sentences = [f"{row['context_options'][row['gold']]} {row['continuation']}" for row in ROWS]
    for number, item in enumerate(items):
        for query, option in zip(item.queries, ROWS[number]["context_options"], strict=True):
            *worked, last = query.context.split("\n\n")
            assert last == option
            assert sorted(worked) == sorted(sentences[:number] + sentences[number + 1 :])
    assert Schema(paths=(str(path),), shots=5, limit=2).items(sources()) == items[:2]


def test_the_likelier_beginning_is_chosen():
    schema = Schema(paths=())
    item = Item("x", (Text("a", " end"), Text("b", " end")), ("a", "b"), gold=1, sizes={"bytes": 3.0})
    outcomes = [schema.outcome(item, [answer(-3.0), answer(value)]) for value in (-2.0, -4.0, -3.0)]
    assert [outcome["acc"] for outcome in outcomes] == [1.0, 0.0, 0.0]
    assert [(outcome["nats"], outcome["bytes"]) for outcome in outcomes] == [(2.0, 3.0), (4.0, 3.0), (3.0, 3.0)]
    metric, bits = schema.metrics([item] * 3, outcomes, 10)
    assert (metric.name, metric.value, metric.random, metric.items) == ("acc", pytest.approx(1 / 3), 0.5, 3)
    assert (bits.name, bits.value) == ("bits_per_byte", pytest.approx(9 / 9 / math.log(2)))


def test_texts_are_right_sentences(write_lines):
    path = str(questions(write_lines, ROWS[1]))
    evaluation = decode(Evaluation, {"benchmarks": {"x": {"type": "schema", "paths": [path], "own_space": True}}})
    assert list(evaluation.texts()["x"].texts()) == [("questions.jsonl:1", ("The key 0 did not fit as the lock .",))]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"context_options": ["a"]},
         ":2: field 'context_options' holds ['a']; give it a list of two or more texts, none blank"),
        ({"continuation": ""}, ":2: field 'continuation' holds ''; give it a text that is not blank"),
        ({"gold": 2}, ":2: field 'gold' holds 2; give it a number from 0 to 1"),
    ],
)  # fmt: skip
def test_broken_lines_are_named(write_lines, change, message):
    assert error_of(Schema, write_lines("bad.jsonl", json.dumps(ROWS[0]), json.dumps(ROWS[0] | change))) == message

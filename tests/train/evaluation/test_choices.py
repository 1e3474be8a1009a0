"""Choices: prompts, judgement and metrics of multiple choice, schemas and minimal pairs."""

import math
from collections import Counter

import pytest

from headrace.pipeline.core.settings import decode
from headrace.train.evaluation.benchmarks.base import Item
from headrace.train.evaluation.benchmarks.choices import MultipleChoice, Schema
from headrace.train.evaluation.benchmarks.minimal_pairs import MinimalPairs
from headrace.train.evaluation.prompt import encode
from headrace.train.evaluation.settings import Evaluation
from headrace.train.inference.queries import Text
from tests.train.evaluation.test_benchmarks import answer, questions, sources

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


def test_choices_are_judged_by_sum_by_character_and_by_byte():
    item = Item("x", (), ("aaaa", "éé", "a" * 10), gold=1)
    outcome = MultipleChoice(paths=()).outcome(item, [answer(-4.0), answer(-3.0), answer(-8.0)])
    assert outcome == {"acc": 1.0, "acc_norm": 0.0, "acc_bytes": 1.0, "nats": 3.0, "bytes": 4.0}
    outcome = MultipleChoice(paths=()).outcome(item, [answer(-4.0), answer(-3.3), answer(-8.0)])
    assert outcome == {"acc": 1.0, "acc_norm": 0.0, "acc_bytes": 0.0, "nats": 3.3, "bytes": 4.0}


def test_random_baseline_is_the_mean_over_items():
    items = [Item("x", (), ("a", "b")), Item("y", (), ("a", "b", "c", "d"))]
    accuracies = {"acc": 1.0, "acc_norm": 0.0, "acc_bytes": 0.0}
    outcomes = [accuracies | {"nats": 3 * math.log(2), "bytes": 1.0}, accuracies | {"nats": 0.0, "bytes": 5.0}]
    metrics = MultipleChoice(paths=()).metrics(items, outcomes, 10)
    assert [metric.name for metric in metrics] == ["acc", "acc_norm", "acc_bytes", "bits_per_byte"]
    assert metrics[0].random == pytest.approx(0.375)
    assert metrics[3].value == pytest.approx(3 / 6)


def test_pairs_are_whole_sentences_after_the_end_of_text(write_lines, encoder):
    rows = [{"sentence_good": f"Cats sleep {n}.", "sentence_bad": f"Cats sleeps {n}.", "UID": "ab"[n % 2]}
            for n in range(6)]  # fmt: skip
    path = questions(write_lines, *rows)
    items = MinimalPairs(paths=(str(path),), limit_per_group=2).items(sources())
    assert Counter(item.group for item in items) == {"a": 2, "b": 2}
    assert MinimalPairs(paths=(str(path),), limit=3).items(sources()) == items[:3]
    assert items[0].queries == (Text("", " Cats sleep 0."), Text("", " Cats sleeps 0."))
    good, _ = encode(items[0].queries, encoder)
    assert good.context.tolist() == [encoder.end_of_text]
    assert encoder.decode(good.continuation) == " Cats sleep 0."


def test_pairs_by_paradigm():
    pairs = MinimalPairs(paths=())
    items = [Item("1", (), ("x", "y"), group="a"), Item("2", (), ("x", "y"), group="a"), Item("3", (), (), group="b")]
    answers = [[answer(-1), answer(-2)], [answer(-2), answer(-1)], [answer(-1), answer(-1)]]
    outcomes = [pairs.outcome(item, found) for item, found in zip(items, answers, strict=True)]
    assert [outcome["acc"] for outcome in outcomes] == [1, 0, 0.5]
    whole, a, b = pairs.metrics(items, outcomes, 10)
    assert (whole.value, a.value, b.value) == (0.5, 0.5, 0.5)
    assert (whole.random, whole.items, a.group, b.group) == (0.5, 3, "a", "b")

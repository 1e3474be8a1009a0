"""Exact completions, the rewriting of questions, and LAMBADA."""

import math

import pytest

from headrace.pipeline.core.errors import ConfigError
from headrace.pipeline.core.settings import decode
from headrace.train.evaluation.benchmarks.base import Item
from headrace.train.evaluation.benchmarks.choices import Completion, Lambada, MultipleChoice
from headrace.train.evaluation.settings import Evaluation
from headrace.train.inference.queries import Text
from tests.train.evaluation.test_benchmarks import answer, questions, sources

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


def test_lambada_reads_both_forms_alike(write_lines):
    path = questions(write_lines, {"text": "I don't care about signs"}, {"context": "I don't care about",
                                                                         "continuation": "signs"})  # fmt: skip
    first, second = Lambada(paths=(str(path),)).items(sources())
    assert first.queries == second.queries == (Text("I don't care about", " signs"),)


def test_lambada_metrics():
    lambada = Lambada(paths=())
    item = Item("x", (), ("signs",))
    outcomes = [lambada.outcome(item, [answer(-math.log(4), True, 1)]), lambada.outcome(item, [answer(0.0, False, 3)])]
    accuracy, perplexity, bits = lambada.metrics([item] * 2, outcomes, 10)
    assert (accuracy.value, accuracy.random) == (0.5, 0)
    assert (perplexity.value, perplexity.random) == (pytest.approx(2), pytest.approx(100))
    assert bits.value == pytest.approx(2 / (2 * len("signs")))

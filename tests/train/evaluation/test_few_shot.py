"""``evaluation.shots`` and ``evaluation.limit``: settings for all benchmarks at once."""

import pytest

from headrace.pipeline.core.errors import ConfigError
from headrace.pipeline.core.settings import canonical, decode
from headrace.train.evaluation.benchmarks.agreement import Agreement
from headrace.train.evaluation.benchmarks.multiple_choice import MultipleChoice
from headrace.train.evaluation.settings import Evaluation

PIQA = {"type": "multiple_choice", "paths": ["piqa.jsonl"], "query_suffix": "Answer:"}


def test_each_number_of_examples_is_a_benchmark():
    given = {"piqa": PIQA, "agreement": {"type": "agreement"}}
    short = decode(Evaluation, {"benchmarks": given, "shots": [0, 1, 8]})
    assert (list(short.benchmarks), short.shots) == (list(given), (0, 1, 8)), "the settings stay as they are given"
    assert short.expanded().benchmarks == {
        f"piqa_{shots}shot": MultipleChoice(paths=("piqa.jsonl",), query_suffix="Answer:", shots=shots)
        for shots in (0, 1, 8)
    } | {"agreement": Agreement()}
    assert short.expanded().expanded() == short.expanded()


def test_it_is_the_same_as_written_out():
    short = decode(Evaluation, {"benchmarks": {"piqa": PIQA}, "shots": [0, 4]}).expanded()
    written = {"piqa_0shot": PIQA, "piqa_4shot": {**PIQA, "shots": 4}}
    assert canonical(short) == canonical(decode(Evaluation, {"benchmarks": written}))
    assert canonical(short) != canonical(decode(Evaluation, {"benchmarks": {"piqa": PIQA}}))


def test_two_benchmarks_of_one_name_are_refused():
    evaluation = decode(Evaluation, {"benchmarks": {"piqa": PIQA, "piqa_0shot": {"type": "agreement"}}, "shots": [0]})
    with pytest.raises(ConfigError, match=r"two benchmarks are named 'piqa_0shot' with evaluation.shots=\[0\]"):
        evaluation.expanded()


def test_a_limit_without_tasks_is_the_same_as_written_out():
    short = decode(Evaluation, {"benchmarks": {"piqa": PIQA}, "limit": 5}).expanded()
    assert canonical(short) == canonical(decode(Evaluation, {"benchmarks": {"piqa": {**PIQA, "limit": 5}}}))


def test_the_texts_are_called_as_without_it():
    """Worked examples therefore change neither the texts that training documents must not hold nor their address."""
    benchmarks = {"piqa": PIQA, "quiz": {**PIQA, "paths": ["quiz.jsonl"]}}
    asked = [decode(Evaluation, {"benchmarks": benchmarks, "shots": shots}) for shots in ((), (0, 2))]
    plain, curves = (one.expanded() for one in asked)
    assert curves.same_texts() == {f"{name}_{shots}shot": name for name in benchmarks for shots in (0, 2)}
    assert canonical(curves.texts()) == canonical(plain.texts())
    assert [one.benchmark.paths for one in curves.texts().values()] == [("piqa.jsonl",), ("quiz.jsonl",)]


def test_other_texts_of_the_same_name_keep_their_number():
    benchmarks = {f"quiz_{shots}shot": {**PIQA, "paths": [f"{shots}.jsonl"], "shots": shots} for shots in (1, 2)}
    evaluation = decode(Evaluation, {"benchmarks": benchmarks})
    assert evaluation.same_texts() == {"quiz_1shot": "quiz", "quiz_2shot": "quiz_2shot"}
    assert {name: one.benchmark.paths for name, one in evaluation.texts().items()} == {
        "quiz": ("1.jsonl",),
        "quiz_2shot": ("2.jsonl",),
    }


def test_without_it_each_keeps_its_own_number():
    evaluation = decode(Evaluation, {"benchmarks": {"piqa": {**PIQA, "shots": 3}}})
    assert evaluation.benchmarks["piqa"].shots == 3


def test_negative_shots_are_an_error():
    with pytest.raises(ConfigError) as caught:
        decode(Evaluation, {"benchmarks": {"piqa": PIQA}, "shots": [0, -1]})
    assert str(caught.value) == "shots.1: must be at least 0 (got -1); correct the value"


def test_a_limit_of_all_is_the_limit_of_each():
    benchmarks = {"piqa": PIQA, "few": {**PIQA, "limit": 2}, "agreement": {"type": "agreement"}}
    evaluation = decode(Evaluation, {"benchmarks": benchmarks, "tasks": ["boolq"], "limit": 5}).expanded()
    assert {name: one.limit for name, one in evaluation.benchmarks.items()} == {"piqa": 5, "few": 2, "agreement": 5}
    assert evaluation.task_limit == 5
    written = {
        "piqa": {**PIQA, "limit": 5},
        "few": {**PIQA, "limit": 2},
        "agreement": {"type": "agreement", "limit": 5},
    }
    assert evaluation == decode(Evaluation, {"benchmarks": written, "tasks": ["boolq"], "task_limit": 5})


@pytest.mark.parametrize(
    ("where", "values"),
    [("limit", {"limit": 0}), ("benchmarks.piqa.limit", {"benchmarks": {"piqa": {**PIQA, "limit": 0}}})],
)
def test_a_limit_of_nothing_is_an_error(where, values):
    with pytest.raises(ConfigError) as caught:
        decode(Evaluation, {"benchmarks": {"piqa": PIQA}, **values})
    assert str(caught.value) == f"{where}: must be at least 1 (got 0); correct the value"

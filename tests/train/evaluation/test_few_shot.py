"""``evaluation.shots`` and ``evaluation.limit``: settings for all benchmarks at once."""

import json
import re

import pytest

from headrace.pipeline.core.errors import ConfigError
from headrace.pipeline.core.settings import canonical, decode
from headrace.train.evaluation.benchmarks.base import FewShotBenchmark, Sources
from headrace.train.evaluation.benchmarks.choices import MultipleChoice
from headrace.train.evaluation.benchmarks.minimal_pairs import Agreement
from headrace.train.evaluation.prompt import PromptForm
from headrace.train.evaluation.settings import Evaluation
from headrace.train.inference.chat_template import ChatTemplate

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


def _twice(*rows):
    """Records 0 to 4, each also as it is written in its other form."""
    return [row for pair in rows for row in pair]


def _rows(first, other=None):
    return _twice(*((first(n), (other or first)(n)) for n in range(5)))


def _choice(marker, **fields):
    return {"query": f"Question: q{marker}x\n", "choices": ["a", "b"], "gold": 0, **fields}


OWN_QUESTIONS = {
    "multiple_choice": ({}, _rows(_choice, lambda n: _choice(n, choices=["b", "a"], gold=1))),
    "completion": (
        {"answer_field": "completion"},
        _rows(
            lambda n: {"context": f"q{n}x =", "completion": f" {n}"},
            lambda n: {"context": f"q{n}x =", "completion": " 7"},
        ),
    ),
    "lambada": (
        {},
        _rows(lambda n: {"text": f"The q{n}x of the mill"}, lambda n: {"text": f"The q{n}x of the river"}),
    ),
    "schema": (
        {},
        _rows(
            lambda n: {"context_options": [f"q{n}x it", f"q{n}x he"], "continuation": "turns.", "gold": 0},
            lambda n: {"context_options": [f"q{n}x he", f"q{n}x it"], "continuation": "turns.", "gold": 1},
        ),
    ),
    "short_answer": (
        {},
        _rows(
            lambda n: {"context": f"Who q{n}x?", "aliases": ["A"]},
            lambda n: {"context": f"Who q{n}x?", "aliases": ["B"]},
        ),
    ),
    "word_problem": (
        {},
        _rows(
            lambda n: {"context": f"Who q{n}x?", "chain_of_thought": "So", "answer": "1"},
            lambda n: {"context": f"Who q{n}x?", "chain_of_thought": "And so", "answer": "2"},
        ),
    ),
    "written_answers": (
        {"prompt": "{en} =", "answer": "{de}"},
        _rows(lambda n: {"en": f"Who q{n}x?", "de": "a"}, lambda n: {"en": f"Who q{n}x?", "de": "b"}),
    ),
    "field_choice": (
        {"prompt": "{query}{A} or {B}?", "options": ["{choices}"], "choices": ["A", "B"], "gold": "gold"},
        _rows(_choice, lambda n: _choice(n, choices=["b", "a"], gold=1)),
    ),
}
"""Type → settings, and ten records: each of five questions (marked q0x …) twice, with another answer or order."""


def test_each_type_with_examples_has_records_here():
    def kinds(cls):
        return {cls} | {inner for one in cls.__subclasses__() for inner in kinds(one)}

    types = {getattr(cls, "type", None) for cls in kinds(FewShotBenchmark)}
    assert {name for name in types if isinstance(name, str)} == OWN_QUESTIONS.keys()


@pytest.mark.parametrize("examples", ["text", "turns", "worked_paths"])
@pytest.mark.parametrize("name", OWN_QUESTIONS)
def test_a_question_is_never_among_its_own_worked_examples(tmp_path, name, examples):
    own, rows = OWN_QUESTIONS[name]
    if examples == "worked_paths" and name != "field_choice":
        return
    for file in ("rows.jsonl", "worked.jsonl"):
        (tmp_path / file).write_text("".join(json.dumps(row) + "\n" for row in rows))
    worked = {"worked_paths": ["worked.jsonl"]} if examples == "worked_paths" else {}
    template = ChatTemplate("{% for m in messages %}{{ m.content }}|{% endfor %}", {})
    form = PromptForm(template, "turns", "", True) if examples == "turns" else PromptForm()
    for shots in (1, 4, 8):
        settings = {"type": name, "paths": ["rows.jsonl"], "shots": shots, **own, **worked}
        benchmark = decode(Evaluation, {"benchmarks": {"it": settings}}).benchmarks["it"]
        items = benchmark.items(Sources(tmp_path, None, "0", form=form))
        assert len(items) == 10
        for item in items:
            *before, last = re.findall("q[0-9]x", item.queries[0].context)
            assert len(before) == shots
            assert last not in before

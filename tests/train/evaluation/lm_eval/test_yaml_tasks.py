"""Tasks read from YAML, without lm-evaluation-harness: the prompts of a small task, and what is refused."""

import json
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from headrace.pipeline.core.errors import ArtifactError, ConfigError
from headrace.pipeline.core.settings import decode
from headrace.train.evaluation.benchmarks.base import Sources
from headrace.train.evaluation.benchmarks.harness_task import HarnessTask
from headrace.train.evaluation.lm_eval.task_scores import TABLES
from headrace.train.evaluation.settings import Evaluation
from headrace.train.inference.queries import Text

ROWS = [
    {"ask": "Which turns?", "choices": ["wheel", "stone"], "right": 0},
    {"ask": "Which lies?", "choices": ["wheel", "stone"], "right": 1},
    {"ask": "Which flows?", "choices": ["river", "mill"], "right": 0},
]
TASK: dict[str, Any] = {
    "task": "quiz",
    "output_type": "multiple_choice",
    "dataset_path": "json",
    "dataset_kwargs": {"data_files": {"test": "quiz.jsonl"}},
    "test_split": "test",
    "description": "Choose.\n\n",
    "doc_to_text": "Question: {{ask}}\nAnswer:",
    "doc_to_choice": "choices",
    "doc_to_target": "right",
    "metric_list": [{"metric": "acc"}],
}


def task(folder: Path, **own: Any) -> HarnessTask:
    """The task with other keys; a key that is None is left out."""
    (folder / "quiz.jsonl").write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    keys = {key: value for key, value in {**TASK, **own}.items() if value is not None}
    text = json.dumps(keys).replace('"!function utils.f"', "!function utils.f")
    (folder / "quiz.yaml").write_text(text)  # JSON is YAML
    return HarnessTask(paths=(str(folder / "quiz.yaml"),))


def test_prompts_of_a_small_task(tmp_path: Path) -> None:
    items = task(tmp_path, num_fewshot=1, fewshot_config={"sampler": "first_n"}, fewshot_split="test").items(
        Sources(Path(), None, "")
    )
    first = "Choose.\n\nQuestion: Which lies?\nAnswer: stone\n\nQuestion: Which turns?\nAnswer:"
    second = "Choose.\n\nQuestion: Which turns?\nAnswer: wheel\n\nQuestion: Which lies?\nAnswer:"
    assert items[0].queries == (Text(first, " wheel"), Text(first, " stone"))
    assert items[1].queries == (Text(second, " wheel"), Text(second, " stone"))
    assert [item.gold for item in items] == [0, 1, 0]


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "function": (
        {"process_docs": "!function utils.f"},
        r"process_docs is the Python function utils.f \(.*quiz.yaml:1\)",
    ),
    "function in text": ({"doc_to_text": "!function utils.f"}, "doc_to_text is the Python function utils.f"),
    "hub": ({"dataset_path": "super_glue"}, "dataset_path 'super_glue' needs a hub; write dataset_path: json or csv"),
    "metric": ({"metric_list": [{"metric": "sari"}]}, "sari"),
    "key": ({"doc_to_txt": "a"}, "no key is named 'doc_to_txt'; did you mean 'doc_to_text'"),
    "kind": ({"output_type": "poem"}, "output_type is 'poem'; take multiple_choice, loglikelihood"),
    "choices": ({"doc_to_choice": None}, "has no doc_to_choice"),
    "split": ({"test_split": None}, "has neither test_split nor validation_split"),
    "no files": ({"test_split": "dev"}, "test_split is 'dev', and data_files has test"),
    "repeats": ({"repeats": 4}, "repeats is 4"),
    "filter": ({"filter_list": [{"name": "a", "filter": [{"function": "vote"}, {"function": "take_first"}]}]}, "vote"),
    "random": (
        {
            "output_type": "generate_until",
            "metric_list": [{"metric": "exact_match"}],
            "generation_kwargs": {"do_sample": True},
        },
        "do_sample is True: texts drawn at random",
    ),
    "sampler": ({"fewshot_config": {"sampler": "balanced"}}, "sampler is 'balanced'; take default, first_n"),
    "template": ({"doc_to_text": "{{nothing}}"}, "the template '{{nothing}}' does not fit quiz.jsonl:1"),
    "syntax": ({"doc_to_text": "{{ask"}, "the template '{{ask' does not fit"),
    "sandbox": ({"doc_to_text": "{{ask.__class__.__mro__}}"}, "does not fit quiz.jsonl:1"),
    "file": ({"dataset_kwargs": {"data_files": {"test": "none.jsonl"}}}, "no file 'none.jsonl'"),
    "group": ({"task": ["a", "b"]}, "is a group of tasks"),
    "target": ({"doc_to_target": "ask"}, "the right answer is 'Which turns"),
}


@pytest.mark.parametrize(("own", "message"), REFUSED.values(), ids=REFUSED)
def test_what_would_not_be_the_same_is_refused(own: dict[str, Any], message: str, tmp_path: Path) -> None:
    with pytest.raises((ConfigError, ArtifactError), match=message):
        task(tmp_path, **own).raw_files(Path())


def test_files_are_benchmarks_with_their_names(tmp_path: Path) -> None:
    task(tmp_path)
    evaluation = decode(Evaluation, {"yaml": [str(tmp_path / "quiz.yaml")], "shots": [0, 2], "limit": 2}).expanded()
    assert [*evaluation.benchmarks] == ["quiz_0shot", "quiz_2shot"]
    assert not evaluation.yaml
    with pytest.raises(ConfigError, match="have one name; rename one"):
        decode(Evaluation, {"yaml": [str(tmp_path / "quiz.yaml"), "other/quiz.yaml"]})


def test_worked_examples_that_a_task_forbids_are_refused(tmp_path: Path) -> None:
    own = task(tmp_path, num_fewshot=0)
    with pytest.raises(ConfigError, match="2 worked examples, and the task has num_fewshot: 0"):
        HarnessTask(paths=own.paths, shots=2).task(Path())


def test_f1_and_mcc_are_those_of_their_definitions() -> None:
    """The harmonic mean of precision and recall; the correlation of two binary variables."""
    chance = random.Random(3)
    for _ in range(200):
        pairs = [(chance.randrange(2), chance.randrange(2)) for _ in range(chance.randrange(1, 12))]
        gold, predicted = ([pair[side] for pair in pairs] for side in (0, 1))
        table = (pairs.count((1, 1)), pairs.count((0, 1)), pairs.count((1, 0)), pairs.count((0, 0)))
        hits = sum(a and b for a, b in pairs)
        precision, recall = hits / max(sum(predicted), 1), hits / max(sum(gold), 1)
        harmonic = 2 * precision * recall / (precision + recall) if hits else 0.0
        is_defined = len({*gold}) == len({*predicted}) == 2
        assert TABLES["f1"](*table) == pytest.approx(harmonic)
        correlation = float(np.corrcoef(gold, predicted)[0, 1]) if is_defined else 0.0
        assert TABLES["mcc"](*table) == pytest.approx(correlation)

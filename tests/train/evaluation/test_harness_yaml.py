"""Tasks in YAML on a tiny random model: scores of the harness's own backend, files, errors."""

import dataclasses
import gzip
import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import GPT2Config, GPT2LMHeadModel

from headrace.data_prep.tokenization.encode import Encoder
from headrace.pipeline.config import decoded
from headrace.pipeline.configuration.composition import compose
from headrace.pipeline.core.errors import ConfigError
from headrace.pipeline.core.settings import decode
from headrace.train.evaluation.score_rows import split_filter
from headrace.train.evaluation.settings import Evaluation
from headrace.train.scores import FolderScores
from tests.train.evaluation.harness_tasks import ASK, MADE, ROWS, SHIPPED_FILES, local_yaml, made_yaml, quiz

lm_eval = pytest.importorskip("lm_eval", reason="the optional extra 'evaluation' is not installed")
from lm_eval.models.huggingface import HFLM  # noqa: E402
from lm_eval.tasks import TaskManager  # noqa: E402

from headrace.train.evaluation import harness  # noqa: E402

SHIPPED = Path(lm_eval.__file__).parent / "tasks"
BOOTSTRAPS = 20


@pytest.fixture(scope="module")
def folder(line, tmp_path_factory):
    """A random GPT-2 that reads whole records: the harness has no likelihood of a choice longer than the window."""
    root, exported = tmp_path_factory.mktemp("gpt2"), line["weights"].path("hf/config.json").parent
    for file in exported.glob("*token*"):
        shutil.copyfile(file, root / file.name)
    vocabulary = Encoder.load(line["tokenizer"].path("tokenizer.json")).vocabulary_size
    torch.manual_seed(5)
    sizes = {"n_positions": 256, "n_embd": 32, "n_layer": 2, "n_head": 2}
    GPT2LMHeadModel(GPT2Config(vocab_size=vocabulary, initializer_range=0.3, **sizes)).save_pretrained(root)
    return root


@pytest.fixture
def scored(folder, run_stage, tmp_path, monkeypatch):
    """``scored(tasks)``: the artifact of our scores of YAML files."""
    monkeypatch.setattr(harness, "BOOTSTRAPS", BOOTSTRAPS)

    def run(*paths: Path, **settings: Any):
        evaluation = decode(Evaluation, {"yaml": list(map(str, paths)), "device": "cpu", **settings}).expanded()
        return run_stage(FolderScores(evaluation=evaluation, folder=str(folder)), {}, tmp_path / "scores")

    return run


def rows_of(artifact) -> dict[str, dict[str, Any]]:
    return {row["name"]: row for row in json.loads(artifact.path("scores.json").read_text())["benchmarks"]}


def of_harness(folder: Path, paths: list[Path], **settings: Any) -> dict[str, dict[str, Any]]:
    """The results of the harness's own backend, started where the files are."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(paths[0].parent)
        results = lm_eval.simple_evaluate(
            model=HFLM(pretrained=str(folder), dtype="float32", batch_size=4, device="cpu"),
            tasks=["all_quizzes" if path.stem == "all_quizzes" else str(path) for path in paths],
            task_manager=TaskManager(include_path=[paths[0].parent], include_defaults=False),
            bootstrap_iters=BOOTSTRAPS,
            **settings,
        )
    return results["results"]


def check_equal(rows: dict[str, dict[str, Any]], theirs: dict[str, dict[str, Any]]) -> None:
    """All metrics with all filters, and their standard errors."""
    assert rows.keys() == theirs.keys()
    for name, row in rows.items():
        values = {key: value for key, value in theirs[name].items() if "," in key and not isinstance(value, str)}
        ours = {}
        for metric in row["metrics"]:
            bare, filtered = split_filter(metric["name"])
            ours[f"{bare},{filtered}"] = metric["value"]
            if metric["standard_error"] is not None:
                ours[f"{bare}_stderr,{filtered}"] = metric["standard_error"]
        assert ours == pytest.approx(values, rel=1e-5, abs=1e-9), name
        assert len(ours) > 0
        assert row["type"] == "lm_eval"


@pytest.mark.slow
@pytest.mark.parametrize("shots", [None, 2])
def test_scores_are_those_of_the_harness(folder, scored, tmp_path, shots):
    """Output types, forms of choices and targets, functions, filters, repeats, formats, groups, tags; see MADE."""
    shipped = [local_yaml(tmp_path, SHIPPED, name, name.split("/")[0], **own) for name, own in SHIPPED_FILES.items()]
    paths = [*(made_yaml(tmp_path, name) for name in MADE), *shipped]
    settings = {} if shots is None else {"task_shots": shots}
    rows = rows_of(scored(*paths, **settings))
    theirs = of_harness(folder, paths, **({} if shots is None else {"num_fewshot": shots}))
    check_equal(rows, theirs)
    assert {"all_quizzes", "quiz_one", "quiz_two", *(path.stem for path in shipped)} < rows.keys()
    assert {row["shots"] for row in rows.values()} >= ({0, 1} if shots is None else {0, 2})


def test_a_file_by_both_doors_is_one_artifact(tmp_path):
    """Neither the door nor the folder decides the address, but the content of every file does."""
    path = quiz(tmp_path / "here", include="base.yaml", doc_to_text=None)
    (path.parent / "base.yaml").write_text("doc_to_text: !function own.texts.ask\nunused: 1\nunused: 2\n")
    (path.parent / "own").mkdir()
    (path.parent / "own" / "texts.py").write_text("import sys\n\ndef ask(doc):\n    return doc['ask']\n")
    (path.parent / "own" / "helpers.py").write_text("raise RuntimeError('is not run')\n")
    moved = Path(shutil.copytree(path.parent, tmp_path / "there")) / path.name
    doors = [{"yaml": [str(path)]}, {"tasks": [str(path)]}, {"yaml": [path.name], "data": str(path.parent)},
             {"tasks": [str(moved)], "limit": 3}, {"yaml": [str(moved)], "task_limit": 3}]  # fmt: skip
    stages = [FolderScores(evaluation=decode(Evaluation, door).expanded(), folder=str(tmp_path)) for door in doors]
    files = [stage.evaluation.raw_files() for stage in stages]
    assert files[0] == files[1] == files[2] == files[3]
    assert [file.name for file in files[0]] == [
        "lm-eval==0.4.13", "tasks/quiz.yaml", "tasks/base.yaml", "tasks/own/helpers.py", "tasks/own/texts.py",
        "tasks/quiz.jsonl",
    ]  # fmt: skip
    hashed = [stage.without_raw_files({})["hashed"] for stage in stages]
    assert hashed[0] == hashed[1]
    assert hashed[3] == hashed[4] != hashed[0]
    for file in files[0][1:]:
        changed = moved.parent / file.name.removeprefix("tasks/")
        before = changed.read_bytes()
        changed.write_bytes(before + b"\n")
        assert Evaluation(yaml=(str(moved),)).raw_files() != files[0], file.name
        changed.write_bytes(before)


@pytest.mark.slow
def test_data_lies_beside_the_yaml_or_below_data_or_in_the_current_folder(scored, tmp_path, monkeypatch):
    """As it is named, or compressed; the first of the three places counts."""
    paths = [
        quiz(tmp_path / "tasks", f"{place}_{form}") for place in ("tasks", "data", "here") for form in ("bare", "gz")
    ]
    text = (tmp_path / "tasks" / "quiz.jsonl").read_bytes()
    for path in paths:
        place, _, form = path.stem.partition("_")
        path.write_text(path.read_text().replace('"quiz.jsonl"', f'"{path.stem}.jsonl"'))
        (tmp_path / place).mkdir(exist_ok=True)
        data = tmp_path / place / f"{path.stem}.jsonl"
        (data if form == "bare" else data.with_name(f"{data.name}.gz")).write_bytes(
            text if form == "bare" else gzip.compress(text)
        )
    (tmp_path / "here" / "tasks_bare.jsonl").write_text("not JSON")
    monkeypatch.chdir(tmp_path / "here")
    rows = rows_of(scored(*paths, data=str(tmp_path / "data")))
    assert {name: row["items"] for name, row in rows.items()} == {path.stem: len(ROWS) for path in paths}


def test_groups_are_made_of_the_files_below_their_folder(tmp_path):
    path = made_yaml(tmp_path, "all_quizzes")
    (tmp_path / "broken.yaml").write_text("a: [")
    (tmp_path / "other.yaml").write_text("task: other\ndataset_path: json\ndataset_kwargs: {data_files: none.jsonl}")
    names = {file.name for file in Evaluation(yaml=(str(path),)).raw_files()}
    assert {"tasks/all_quizzes.yaml", "tasks/quiz_one.yaml", "tasks/quiz_two.yaml", "tasks/quiz.jsonl"} < names
    assert not {"tasks/broken.yaml", "tasks/other.yaml"} & names


FAULTS: dict[str, tuple[dict[str, Any], str]] = {
    "template": ({"doc_to_text": "{{nothing}}"}, r"cannot run .*quiz.yaml \(UndefinedError: 'nothing' is undefined\)"),
    "syntax": ({"doc_to_text": "{{ask"}, "TemplateSyntaxError: "),
    "function": ({"doc_to_text": "!function utils.fail"}, "ZeroDivisionError: division by zero"),
    "no function": ({"doc_to_text": "!function utils.none"}, "AttributeError: Module '.*' has no function 'none'"),
    "key": ({"doc_to_txt": "a"}, "TypeError: .*doc_to_txt"),
    "kind": ({"output_type": "poem"}, "ValueError: Got invalid output_type 'poem'"),
    "split": ({"test_split": "dev"}, "KeyError: 'dev'"),
    "shots": ({"num_fewshot": 9}, "ValueError: Sample larger than population"),
    "random": (
        {"output_type": "generate_until", "doc_to_choice": None, "metric_list": [{"metric": "exact_match"}],
         "generation_kwargs": {"until": ["."], "do_sample": True, "temperature": 0.5}},
        "quiz has texts drawn at random; take tasks with greedy texts",
    ),
    "beams": (
        {"output_type": "generate_until", "doc_to_choice": None, "metric_list": [{"metric": "exact_match"}],
         "generation_kwargs": {"until": ["."], "num_beams": 4}},
        "quiz has generation_kwargs num_beams: 4",
    ),
    "unsafe": ({"unsafe_code": True}, "marked as unsafe"),
    "name": ({"task": "a/b"}, "the name 'a/b' has a slash"),
    "hub": ({"dataset_path": "nobody/nothing", "dataset_kwargs": None}, "offline, give data in local files"),
}  # fmt: skip


@pytest.mark.parametrize(("keys", "message"), FAULTS.values(), ids=FAULTS)
def test_what_the_harness_cannot_run_is_an_error_of_the_task(scored, tmp_path, keys, message):
    (tmp_path / "utils.py").write_text("def fail(doc):\n    return 1 / 0\n")
    with pytest.raises(ConfigError, match=message):
        scored(quiz(tmp_path, **keys))


BEFORE: dict[str, tuple[dict[str, Any], dict[str, Any], str]] = {
    "file": ({"dataset_kwargs": {"data_files": {"test": "no.jsonl"}}}, {}, r"quiz.yaml: no file 'no.jsonl'; give a"),
    "include": ({"include": "base.yaml"}, {}, "no file '.*base.yaml'"),
    "itself": ({"include": "quiz.yaml"}, {}, "quiz.yaml' includes itself"),
    "one name": ({}, {"tasks": ["quiz"]}, "two tasks or benchmarks are named 'quiz'"),
    "suite": ({"task": "test"}, {"suites": {"s": ["quiz"]}}, "suite has 'quiz', and .*quiz.yaml holds the task 'test'"),
}  # fmt: skip


@pytest.mark.parametrize(("keys", "settings", "message"), BEFORE.values(), ids=BEFORE)
def test_what_is_refused_before_anything_runs(tmp_path, keys, settings, message):
    with pytest.raises(ConfigError, match=message):
        decode(Evaluation, {"yaml": [str(quiz(tmp_path, **keys))], **settings}).expanded().raw_files()


def test_settings_that_are_gone_name_their_replacement():
    with pytest.raises(ConfigError, match=r"unknown type 'harness'; it is gone: evaluation.yaml=\[FILE\] scores"):
        decoded(compose(["experiment=smoke", "+evaluation.benchmarks.quiz={type: harness, paths: [quiz.yaml]}"]))
    with pytest.raises(ConfigError, match=r"take one number; give evaluation.task_shots=N"):
        decode(Evaluation, {"yaml": ["quiz.yaml"], "shots": [0, 2]}).expanded()


def test_tasks_are_chosen_by_the_names_of_their_files(tmp_path):
    evaluation = Evaluation(yaml=("a/one.yaml", "two.yml"), tasks=("piqa", "three.yaml"), task_shots=2)
    assert evaluation.task_names == ["piqa", "three", "one", "two"]
    chosen = evaluation.expanded().only({"two", "three"})
    assert (chosen.tasks, chosen.yaml, chosen.task_shots) == ((), ("three.yaml", "two.yml"), 2)
    assert evaluation.without_run().task_names == evaluation.task_names
    inside = dataclasses.replace(evaluation, data=str(tmp_path)).expanded()
    assert inside.yaml[0] == os.path.abspath("three.yaml")


@pytest.mark.slow
def test_guessing_has_a_value_in_table_and_suites(scored, tmp_path):
    row, suite = rows_of(scored(quiz(tmp_path, **ASK), suites={"s": ["quiz"]})).values()
    chances = {metric["name"]: metric["random"] for metric in row["metrics"]}
    assert chances == {"acc": 0.5, "acc_norm": 0.5, "exact_match": None}
    assert [metric["name"] for metric in suite["metrics"]] == ["acc", "centered_acc"]
    assert suite["metrics"][1]["value"] == pytest.approx(2 * row["metrics"][0]["value"] - 1)


@pytest.mark.slow
def test_a_metric_without_a_value_is_named(scored, tmp_path):
    metrics = [{"metric": name, "aggregation": "mean", "higher_is_better": True} for name in ("acc", "sari")]
    row = rows_of(scored(quiz(tmp_path, metric_list=metrics)))["quiz"]
    assert row["notes"] == ["The harness has no value of sari here."]

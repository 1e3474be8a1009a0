"""Tasks read from YAML against lm-evaluation-harness: prompts byte for byte, metrics of the same answers."""

import dataclasses
import json
import shutil
from pathlib import Path

import pytest
import torch
from transformers import GPT2Config, GPT2LMHeadModel

from headrace.data_prep.tokenization.encode import Encoder
from headrace.pipeline.core.errors import ConfigError
from headrace.train.evaluation.benchmarks.base import Sources
from headrace.train.evaluation.benchmarks.harness_task import HarnessTask
from headrace.train.evaluation.score_rows import split_filter
from headrace.train.evaluation.settings import Evaluation
from headrace.train.inference.queries import Generate, Text
from headrace.train.scores import FolderScores
from tests.train.evaluation.lm_eval.harness_files import MADE, TASKS, local_yaml, made_yaml

lm_eval = pytest.importorskip("lm_eval", reason="the optional extra 'evaluation' is not installed")
from lm_eval.models.huggingface import HFLM  # noqa: E402
from lm_eval.tasks import TaskManager  # noqa: E402

from tests.train.evaluation.test_harness_prompts import FORMS, asked_by_form  # noqa: E402

SHIPPED = Path(lm_eval.__file__).parent / "tasks"
ROLLING = "pile/pile_enron"
LONGEST = 5
WRITTEN = ("triviaqa/default", "nq_open/nq_open", "gsm8k/gsm8k")
UNSHOT = ("blimp", "pile", "whole_lines")
"""Tasks that take no worked examples."""
OWN_EXAMPLES = "bbh/fewshot/boolean_expressions"
"""A task with three worked examples in its YAML."""
SOURCES = Sources(Path(), None, "")


def task_of_harness(path: Path, shots: int):
    """The harness's own task of ``path`` as its evaluator prepares it (evaluator.py)."""
    (task,) = TaskManager(include_defaults=False).load([str(path)])["tasks"].values()
    if task.config.num_fewshot != 0:
        task.set_config("num_fewshot", shots)
    task.set_fewshot_seed(1234)
    return task


def requests(task, **form) -> list[list[tuple]]:
    """The arguments of the requests of each record."""
    task.build_all_requests(**form)
    by_record: dict[int, list[tuple]] = {}
    for instance in task.instances:
        by_record.setdefault(instance.doc_id, []).append(instance.args)
    return list(by_record.values())


def asked(query) -> tuple:
    if isinstance(query, Generate):
        return query.context, list(query.sampling.stops), query.sampling.max_tokens
    assert isinstance(query, Text)
    return query.context, query.continuation


def normalized(arguments: tuple) -> tuple:
    if isinstance(arguments[-1], dict):
        return arguments[0], arguments[1]["until"], arguments[1].get("max_gen_toks", 256)
    return arguments


def check_forms(task, ours: HarnessTask) -> None:
    """Plain text, and conversations: examples as turns or as text, with and without a system."""
    for form in FORMS:
        task.set_fewshot_seed(1234)
        theirs = [[normalized(arguments) for arguments in own] for own in requests(task, **asked_by_form(form))]
        items = ours.items(dataclasses.replace(SOURCES, form=form))
        assert [[asked(query) for query in item.queries] for item in items] == theirs
        assert len({*map(str, theirs)}) > 10


@pytest.mark.parametrize("shots", [0, 1, LONGEST])
@pytest.mark.parametrize("name", sorted({*TASKS} - {ROLLING}))
def test_prompts_are_those_of_the_harness(tmp_path, name, shots):
    path = local_yaml(tmp_path, SHIPPED, name)
    task = task_of_harness(path, shots)
    ours = HarnessTask(paths=(str(path),), shots=shots if task.config.num_fewshot == shots else None)
    if name == OWN_EXAMPLES and shots == LONGEST:
        for draw, error in ((task.build_all_requests, AssertionError), (lambda: ours.items(SOURCES), ConfigError)):
            with pytest.raises(error):
                draw()
        return
    check_forms(task, ours)


@pytest.mark.parametrize("shots", [0, 1, LONGEST])
@pytest.mark.parametrize("name", sorted({*MADE} - {"whole_lines"}))
def test_prompts_of_made_tasks_are_those_of_the_harness(tmp_path, name, shots):
    """Multiple inputs, several right answers, beginnings of answers, other templates of examples, other formats."""
    path = made_yaml(tmp_path, name)
    check_forms(task_of_harness(path, shots), HarnessTask(paths=(str(path),), shots=shots))


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


def test_scores_are_those_of_the_harness(folder, run_stage, tmp_path):
    """All metrics of all output types, of its own backend on a tiny model."""
    shipped = ["arc/arc_easy", "triviaqa/default", "nq_open/nq_open", "gsm8k/gsm8k", "lambada/lambada_openai"]
    paths = {name: made_yaml(tmp_path, name) for name in MADE}
    for name in (*shipped, "blimp/adjunct_island", ROLLING):
        own = tmp_path / name.split("/")[0]
        own.mkdir()
        brief = {"generation_kwargs": {"until": ["\n"], "max_gen_toks": 12}} if name in WRITTEN else {}
        paths[own.name] = local_yaml(own, SHIPPED, name, own.name, **brief)
    evaluation = Evaluation(yaml=tuple(map(str, paths.values())), task_shots=1, device="cpu").expanded()
    no_examples = {name: dataclasses.replace(evaluation.benchmarks[name], shots=None) for name in UNSHOT}
    evaluation = dataclasses.replace(evaluation, benchmarks={**evaluation.benchmarks, **no_examples})
    artifact = run_stage(FolderScores(evaluation=evaluation, folder=str(folder)), {}, tmp_path / "scores")
    rows = {row["name"]: row for row in json.loads(artifact.path("scores.json").read_text())["benchmarks"]}
    theirs = lm_eval.simple_evaluate(
        model=HFLM(pretrained=str(folder), dtype="float32", batch_size=4, device="cpu"),
        tasks=list(map(str, paths.values())),
        task_manager=TaskManager(include_defaults=False),
        num_fewshot=1,
        bootstrap_iters=0,
    )["results"]
    assert rows.keys() == theirs.keys() == paths.keys()
    for name, row in rows.items():
        keys = {key: value for key, value in theirs[name].items() if "," in key and "_stderr" not in key}
        own = {",".join(split_filter(metric["name"])): metric["value"] for metric in row["metrics"]}
        assert own == pytest.approx(keys, rel=1e-5, abs=1e-9), name
        assert row["type"] == "harness"
        assert row["shots"] == (0 if name in UNSHOT else 1)

"""``headrace evaluate FOLDER``, as a person calls it."""

import dataclasses
import json
import re
import shlex
import shutil
import textwrap
from pathlib import Path

import pytest
import torch
import yaml
from transformers import GPT2Config, GPT2LMHeadModel

from headrace.data_prep.tokenization.made_tokenizers import Trained
from headrace.data_prep.tokenizer import Tokenizer
from headrace.pipeline.commands import evaluate
from headrace.pipeline.core.settings import decode
from headrace.train.evaluation.benchmarks.base import Sources
from headrace.train.evaluation.settings import Evaluation
from tests.command_line import headrace, headrace_here
from tests.train.small_models import story
from tests.unique_documents import unique_documents


@pytest.fixture(scope="module")
def folder(tmp_path_factory, run_stage):
    """A tiny GPT-2 as ``save_pretrained`` leaves it, with a tokenizer."""
    root = tmp_path_factory.mktemp("gpt2")
    unique = unique_documents(root / "unique", [[story(number) for number in range(20)]])
    tokenizer = run_stage(Tokenizer(settings=Trained(vocabulary_size=300)), {"unique": unique}, root / "tokenizer")
    torch.manual_seed(0)
    config = GPT2Config(vocab_size=300, n_positions=64, n_embd=16, n_layer=1, n_head=2)
    GPT2LMHeadModel(config).save_pretrained(root / "model")
    (root / "model" / "tokenizer.json").write_text(tokenizer.path("tokenizer.json").read_text())
    ends = '"eos_token": "<|endoftext|>", "bos_token": "<|endoftext|>"'
    (root / "model" / "tokenizer_config.json").write_text(f'{{"tokenizer_class": "PreTrainedTokenizerFast", {ends}}}')
    return root / "model"


def documented() -> tuple[str, list[str], str]:
    """Returns the worked example of docs/evaluation.md: questions, command-line arguments, settings in YAML."""
    page = (Path(__file__).parents[3] / "docs/evaluation.md").read_text()
    section = page.partition("## A new benchmark\n")[2].partition("\n## ")[0]
    questions, command, settings, *_ = map(textwrap.dedent, re.findall(r"(?:^    .*\n)+", section, re.M))
    return questions, shlex.split(command), settings


@pytest.mark.slow
def test_a_folder_is_scored_once_on_a_benchmark_of_ones_own(folder, tmp_path):
    """The worked example of the documentation, as written, and the built-in pairs."""
    questions, (name, command, _, benchmark), _ = documented()
    assert (name, command) == ("headrace", "evaluate")
    (tmp_path / "quiz.jsonl").write_text(questions)
    words = (command, str(folder), "--limit", "8", benchmark, f"root={tmp_path}", "evaluation.device=cpu")
    first = headrace(*words, f"evaluation.data={tmp_path}")
    assert first.returncode == 0, first.stderr
    skipped = "held_out_order, held_out_sentences, held_out_words, validation"
    assert f"skipped: these need a run's held-out documents: {skipped}" in first.stderr
    rows = [line.split() for line in first.stdout.splitlines()]
    assert [(*row[:2], row[-1]) for row in rows if row[:1] in (["agreement"], ["quiz"])] == [
        ("agreement", "acc", "8"),
        *(("quiz", metric, "3") for metric in ("acc", "acc_norm", "acc_bytes", "bits_per_byte")),
    ]
    (scores,) = tmp_path.glob("folder_scores/*/scores.md")
    texts = [json.loads(line) for line in (scores.parent / "samples/continuations.jsonl").read_text().splitlines()]
    assert [text["prompts"] for text in texts] == [["The number of"], ["This is"]]
    shown = [line for line in first.stdout.splitlines() if line.startswith(("prompt", "  model"))]
    assert [line[:20].strip() for line in shown] == ["prompt 1", "model, greedy", "model, sampled"]
    assert first.stdout.endswith(f"scores: {scores}\n")
    page = tmp_path / "page.html"
    again = headrace_here(*words, f"evaluation.data={tmp_path}", "--page", str(page))
    assert again.stdout == first.stdout + f"page: {page}\n"
    assert "<h1>model</h1>" in page.read_text()
    assert f"done before: {scores.parent}" in again.stderr


@pytest.mark.slow
def test_models_side_by_side(folder, tmp_path):
    """Such as the last weights of a training and the average of its last checkpoints."""
    mean = tmp_path / "mean"
    shutil.copytree(folder, mean)
    model = GPT2LMHeadModel.from_pretrained(folder)
    model.transformer.wte.weight.data[:150] *= -1
    model.save_pretrained(mean)
    page = tmp_path / "page.html"
    words = ("--only", "agreement", "--limit", "8", f"root={tmp_path}", "evaluation.device=cpu", "--page", str(page))
    words = ("evaluation.suites={all: [agreement]}", *words)
    both = headrace_here("evaluate", str(folder), str(mean), *words)
    assert both.returncode == 0, both.stderr
    head, _, line, *of_suite = (row.strip("| ").split(" | ") for row in both.stdout.splitlines()[:5])
    assert head == ["benchmark", "shots", "metric", "items", "model", "mean", "mean − model", "p"]
    assert line[:4] == ["agreement", "0", "acc %", "8"]
    assert [row[:4] for row in of_suite] == [["all", "0", "acc %", "8"], ["all", "0", "centered_acc %", "8"]]
    assert [cell.split()[0] for cell in of_suite[0][4:]] == [cell.split()[0] for cell in line[4:]]
    assert "agreement" in page.read_text()
    shutil.copytree(mean, tmp_path / "equal")
    equal = headrace_here("evaluate", str(mean), str(tmp_path / "equal"), *words[:-2])
    assert "done before" in equal.stderr
    assert "| mean | equal | equal − mean |" in equal.stdout, "named as typed, though their files are the same"


@pytest.mark.parametrize(
    ("only", "wanted"),
    [
        ("quiz", {"quiz_0shot", "quiz_2shot"}),
        ("quiz_2shot, agreement", {"quiz_2shot", "agreement"}),
        ("arc_easy", set()),
    ],
)
def test_only_some_benchmarks(tmp_path, monkeypatch, only, wanted):
    """With any number of shots, and one's own alone. The files of the others need not be there."""
    planned = []
    monkeypatch.setattr(evaluate, "show", lambda config, folders, page: planned.append(config.evaluation))
    own = "+evaluation.benchmarks.quiz={type: multiple_choice, paths: [quiz.jsonl]}"
    command = ["evaluate", str(tmp_path), "--only", only, own, "evaluation.shots=[0,2]"]
    result = headrace_here(*command)
    if wanted:
        assert result.returncode == 0, result.stderr
        assert {*planned[0].benchmarks} == wanted
    else:
        assert result.returncode == 2
        assert "--only: no benchmark of evaluation is named 'arc_easy'; known: agreement, " in result.stderr
        assert result.stderr.endswith("(others with evaluation=…)\n")


@pytest.mark.parametrize("only", [",", "agreement,", " "])
def test_an_empty_name_is_refused(tmp_path, only):
    result = headrace_here("evaluate", str(tmp_path), "--only", only)
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr == "headrace: --only: has an empty name; give names of benchmarks, separated by commas\n"


def test_settings_of_tasks_that_are_left_out_change_no_address():
    plain = decode(Evaluation, {"benchmarks": {"agreement": {"type": "agreement"}}})
    with_tasks = dataclasses.replace(plain, tasks=("piqa",), task_shots=3, task_limit=7)
    assert with_tasks.only({"agreement"}) == plain.only({"agreement"})
    assert (with_tasks.only({"piqa"}).task_shots, with_tasks.only({"piqa"}).task_limit) == (3, 7)


def test_the_settings_of_the_documented_benchmark_make_its_prompts(tmp_path):
    questions, _, settings = documented()
    (tmp_path / "quiz.jsonl").write_text(questions)
    (benchmark,) = decode(Evaluation, yaml.safe_load(settings)).benchmarks.values()
    item, *_ = benchmark.items(Sources(tmp_path, None, ""))
    (worked, question), (first, second) = item.queries[0].context.split("\n\n"), item.queries
    assert re.fullmatch(r"Question: What is the capital of (Italy\?\nAnswer: Rome|Spain\?\nAnswer: Madrid)", worked)
    assert question == "Question: What is the capital of France?\nAnswer:"
    assert (first.continuation, second.continuation) == (" Lyon", " Paris")


def test_a_folder_without_a_model_is_found_before_any_is_scored(folder, tmp_path):
    done = headrace_here("evaluate", str(folder), str(tmp_path / "none"), "--only", "agreement", f"root={tmp_path}")
    assert done.returncode == 2
    assert f"evaluate: '{tmp_path}/none' has no config.json" in done.stderr
    assert not list(tmp_path.iterdir())

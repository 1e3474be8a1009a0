"""``headrace train-classifier`` on files of each kind and on a run, and the filter in a run with its model."""

import json
import re

import pyarrow
import pyarrow.feather
import pyarrow.parquet
import pytest

from headrace.data_prep.classifiers.linear_classifier import load
from headrace.data_prep.document import read_documents
from headrace.pipeline.run.planner import save
from tests.command_line import headrace_here
from tests.data_prep.small_classifier import MILL, OTHER
from tests.small_runs import build

SMALL = ("--bucket-bits", "12")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The current folder, with the same texts in every form."""
    monkeypatch.chdir(tmp_path)
    mill, other = ([f"{text} {n}" for n in range(8) for text in texts] for texts in (MILL, OTHER))
    jsonl("mill.jsonl", [{"text": text} for text in mill])
    pyarrow.parquet.write_table(pyarrow.table({"text": other}), "other.parquet")
    pyarrow.feather.write_feather(pyarrow.table({"text": other}), "other.feather")
    labelled = [(text, "mill") for text in mill] + [(text, "other") for text in other]
    jsonl("both.jsonl", [{"text": text, "meta": {"topic": label}} for text, label in labelled])
    jsonl("content.jsonl", [{"content": text} for text in mill])
    lines = "".join(f"__label__{label} {text}\n" for text, label in labelled)
    (tmp_path / "train.txt").write_text(lines, encoding="utf-8")
    (tmp_path / "other.txt").write_bytes("\n".join(other).encode() + b"\n\nthe mill \xff\n")
    return tmp_path


def jsonl(name, rows):
    with open(name, "w", encoding="utf-8") as file:
        file.writelines(json.dumps(row) + "\n" for row in rows)


@pytest.mark.parametrize(
    "arguments",
    [
        ("mill:mill.jsonl", "other:other.parquet"),
        ("both.jsonl", "--label-field", "meta.topic"),
        ("train.txt",),
        ("mill:mill.jsonl", "other:other.txt"),
        ("mill:mill.jsonl", "other:other.feather"),
        ("mill:content.jsonl", "other:both.jsonl", "source=jsonl", "source.text_field=content"),
    ],
    ids=" ".join,
)
def test_texts_come_from_files_of_each_kind(arguments, folder):
    if "content.jsonl" in arguments[0]:
        jsonl("both.jsonl", [{"content": text} for text in OTHER * 8])
    result = headrace_here("train-classifier", *arguments, *SMALL, "--held-out", "0")
    assert result.returncode == 0, result.stderr
    assert "trained on        mill 24, other 24\n" in result.stdout
    scores = load("classifier.model").scores(MILL[1])
    load.cache_clear()
    assert scores["mill"] > 0.6


def test_the_judgement_is_written(folder):
    arguments = ("train-classifier", "train.txt", "--out", "a.model", "--held-out", "0.4", "--json", "a.json", *SMALL)
    result = headrace_here(*arguments, "--characters", "2-3", "--workers", "3")
    assert result.returncode == 0, result.stderr
    values = json.loads((folder / "a.json").read_text())
    held, trained = values["held_out"], values["model"]["texts"]
    assert held["texts"] + sum(trained.values()) == 48
    assert held["accuracy"]["value"] > 0.9
    assert held["classes"][1]["auc"]["value"] == 1.0
    assert "AUC               1.0000  95 % interval" in result.stdout
    assert "mill" in [entry["ngram"] for entry in values["distinctive"]["mill"]]
    assert values["model"]["training"]["ngrams"]["characters"] == [2, 3]
    first = (folder / "a.model").read_bytes()
    assert headrace_here(*arguments, "--characters", "2-3", "--workers", "1").returncode == 0
    assert (folder / "a.model").read_bytes() == first


def test_a_class_without_held_out_texts_is_not_judged(folder):
    rows = [{"text": f"{text} {n}", "topic": label} for n in range(8) for label in ("a", "b") for text in MILL]
    jsonl("rare.jsonl", [*rows, {"text": OTHER[0], "topic": "rare"}])
    for seed in range(9):
        result = headrace_here("train-classifier", "rare.jsonl", "--label-field", "topic", *SMALL, "--seed", str(seed))
        if "rare 1\n" in result.stdout:
            break
    assert "AUC               none  rare: 0 of the " in result.stdout
    assert "nan" not in result.stdout
    assert "  –  " in result.stdout


def test_a_run_trains_on_what_another_one_kept_and_dropped(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    corpus = build(tmp_path, "c4")
    save(corpus.config, corpus.run.values, corpus.steps, corpus.overrides)
    name = corpus.config.id
    result = headrace_here(
        "train-classifier", f"keep:run:{name}:kept", f"drop:run:{name}:dropped", f"root={corpus.config.root}",
        "--held-out", "0", *SMALL,
    )  # fmt: skip
    assert result.returncode == 0, result.stderr
    clean = corpus.artifact("clean")
    dropped = [document.text for shard in clean.shards("dropped") for document in read_documents(shard)]
    assert f"drop {len(dropped)}, keep {clean.counts['kept']}" in result.stdout


def test_a_run_trains_a_classifier_and_uses_it(folder):
    sets = "[{type: files, path: mill.jsonl, label: mill}, {type: files, path: other.parquet, label: other}]"
    own = ["source=jsonl", "source.paths=both.jsonl", "root=runs", "cleaning=none", "workers=1"]
    own += [f"classifier.examples={sets}", "classifier.training.ngrams.bucket_bits=12"]
    own += ["cleaning.filters=[{type: linear_classifier, label: mill, min_score: 0.5}]", "until=clean"]
    done = headrace_here("run", *own)
    assert done.returncode == 0, done.stderr
    [model] = (folder / "runs/classifier").glob("*/classifier.model")
    assert headrace_here("train-classifier", "mill:mill.jsonl", "other:other.parquet", *SMALL).returncode == 0
    assert model.read_bytes() == (folder / "classifier.model").read_bytes()
    assert re.search(r"classifier +done .*\d+ trained, \d+ held out", headrace_here("status", *own).stdout)
    facts = headrace_here("why", "both.jsonl:47", *own).stdout
    assert re.search(r"\nrule +linear_classifier\.mill\n", facts)
    assert re.search(r"\nclassifier +mill 0\.\d+, other 0\.\d+\nfor other +'", facts)
    [report] = (folder / "runs/report").glob("*/report.html")
    assert '<section id="classifier">' in report.read_text()
    refused = headrace_here("run", *own[:-2], "cleaning.filters=[{type: linear_classifier, label: mil, min_score: 0}]")
    message = "linear_classifier.label: classifier.examples has no label 'mil'; did you mean 'mill'?"
    assert (refused.returncode, refused.stderr.splitlines()[-1]) == (2, f"headrace: {message}")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("both.jsonl",), "EXAMPLES: 'both.jsonl' has no label; give LABEL:FILE, or --label-field NAME"),
        (("mill:none.jsonl", "train.txt"), "EXAMPLES: 'none.jsonl' matches no file; correct the path or pattern"),
        (("mill:", "train.txt"), "EXAMPLES: 'mill:' has no label or no file; give LABEL:FILE"),
        (
            ("other.txt",),
            "EXAMPLES: other.txt:0 has no label; give label, or label_field; lines of text may begin with __label__",
        ),
        (
            ("both.jsonl", "--label-field", "topic"),
            "--label-field: both.jsonl:0 has None in 'topic' (its fields: meta)",
        ),
        (("mill:mill.jsonl",), "EXAMPLES: "),
        (
            ("mill:run:x:lost",),
            "EXAMPLES: 'run:x:lost' names no texts of a run; give run:NAME:kept or run:NAME:dropped",
        ),
        (("train.txt", "--workers", "0"), "--workers: is 0; give at least 1"),
        (("train.txt", "--characters", "5-3"), "n-grams: n-grams of up to 2 words and of 5 to 3 characters"),
        (("train.txt", "--held-out", "2"), "held_out"),
        (("train.txt", "--cost", "1e6"), "cost: must be at most 1024 (got '1e6')"),
    ],
    ids=str,
)
def test_wrong_arguments_are_refused(arguments, message, folder):
    result = headrace_here("train-classifier", *arguments, *SMALL)
    assert result.returncode == 2
    assert message in result.stderr
    assert "Traceback" not in result.stderr
    assert not (folder / "classifier.model").exists()

"""Small files for lm-evaluation-harness's own tasks, and YAML that reads them without a hub."""

import csv
import json
import random
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow
from pyarrow import parquet

WORDS = (
    "river", "Mill", "naïve", "wheel", "42", "of", "the", "größer", "U.S.", "水車", "stone,", "grain", "“turns”",
    "it's", "3.5", "under", "An", "a", "bridge", "- old",
)  # fmt: skip
LETTERS = "ABCDE"
Row = Mapping[str, Any]


def phrase(generator: random.Random, least: int = 2, most: int = 9) -> str:
    return " ".join(generator.choice(WORDS) for _ in range(generator.randrange(least, most)))


def row_of(task: str, generator: random.Random) -> Row:
    """One record with the fields of ``task``'s own data set."""
    short = [f"{phrase(generator)} {number}" for number in range(5)]
    number, text = generator.randrange(4), f"{phrase(generator, 5, 20)} {generator.randrange(1000)}"
    rows: Mapping[str, Row] = {
        "arc/arc_easy": {
            "question": text,
            "choices": {"text": short[:4], "label": list(LETTERS[:4])},
            "answerKey": LETTERS[number],
        },
        "piqa/piqa": {"goal": text, "sol1": short[0], "sol2": short[1], "label": number % 2},
        "swag/swag": {"startphrase": text, "label": number, **{f"ending{n}": short[n] for n in range(4)}},
        "blimp/adjunct_island": {"sentence_good": text, "sentence_bad": short[0]},
        "lambada/lambada_openai": {"text": text},
        "gsm8k/gsm8k": {"question": text, "answer": f"{short[0]} = {number}\n#### {number},000"},
        "pile/pile_enron": {"text": text},
    }
    return rows[task]


SPLITS = ("train", "dev", "valid", "validation", "test")
"""The names of the splits of these tasks."""


def rows_of(task: str, seed: int, number: int = 12) -> list[Row]:
    """``number`` records, two of them equal."""
    generator = random.Random(f"{task} {seed}")
    rows = [row_of(task, generator) for _ in range(number - 1)]
    return [*rows, rows[2]]


def write_json(path: Path, rows: Sequence[Row]) -> Path:
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")
    return path


def local_yaml(folder: Path, shipped: Path, task: str, name: str = "local", **own: Any) -> Path:
    """The YAML of ``task`` as the harness ships it, over made files in ``folder``, under another ``name``."""
    files = {
        split: write_json(folder / f"{name}_{split}.jsonl", rows_of(task, n)).name for n, split in enumerate(SPLITS)
    }
    keys = {
        "include": str(shipped / f"{task}.yaml"),
        "task": name,
        "dataset_path": "json",
        "dataset_name": None,
        "dataset_kwargs": {"data_files": files},
        **own,
    }
    path = folder / f"{name}.yaml"
    path.write_text(json.dumps(keys))  # JSON is YAML
    return path


def write_csv(path: Path, rows: Sequence[Row]) -> Path:
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    return path


def write_parquet(path: Path, rows: Sequence[Row]) -> Path:
    parquet.write_table(pyarrow.Table.from_pylist(list(rows)), path)
    return path


def write_text(path: Path, rows: Sequence[Row]) -> Path:
    path.write_text("".join(f"{row['text']}\n" for row in rows), encoding="utf-8")
    return path


WRITERS: Mapping[str, Callable[[Path, Sequence[Row]], Path]] = {
    "json": write_json,
    "csv": write_csv,
    "parquet": write_parquet,
    "text": write_text,
}
CHOOSE = {"output_type": "multiple_choice", "test_split": "test", "doc_to_target": "label"}
WRITE = {
    "output_type": "generate_until",
    "test_split": "test",
    "generation_kwargs": {"until": ["\n"], "max_gen_toks": 9},
}
ALL_CHOICE = ("acc", "acc_norm", "acc_bytes", "acc_mutual_info", "exact_match", "brier_score")
MADE: Mapping[str, tuple[str, str, Mapping[str, Any]]] = {
    "all_metrics": (
        "piqa/piqa",
        "csv",
        CHOOSE
        | {
            "doc_to_text": "goal",
            "doc_to_choice": "{{[sol1, sol2]}}",
            "description": "About {{goal | length}} {{label}}.\n",
            "metric_list": [{"metric": name} for name in ALL_CHOICE],
        },
    ),
    "several_right": (
        "swag/swag",
        "parquet",
        CHOOSE
        | {
            "validation_split": "validation",
            "test_split": None,
            "doc_to_text": "{{startphrase | regex_replace('[0-9]+', '#')}}",
            "doc_to_choice": "{{[ending0, ending1, ending2]}}",
            "doc_to_target": "{{[label % 3, 0]}}",
            "metric_list": [{"metric": "acc"}, {"metric": "acc_norm"}, {"metric": "exact_match"}],
            "description": "Go on.",
            "fewshot_config": {
                "doc_to_target": "{{ending1}}",
                "target_delimiter": " => ",
                "fewshot_delimiter": "\n~~\n",
                "split": "validation",
            },
        },
    ),
    "whole_lines": (
        "pile/pile_enron",
        "text",
        {"output_type": "loglikelihood_rolling", "test_split": "test", "doc_to_text": "", "doc_to_target": "{{text}}"},
    ),
    "functions": (
        "gsm8k/gsm8k",
        "json",
        {
            "output_type": "generate_until",
            "test_split": "test",
            "fewshot_split": "train",
            "process_docs": "!function made_functions.longer",
            "doc_to_text": "!function made_functions.ask",
            "doc_to_target": "!function made_functions.answer",
            "process_results": "!function made_functions.judge",
            "metric_list": [
                {"metric": "letters", "aggregation": "!function made_functions.longest", "higher_is_better": True}
            ],
            "generation_kwargs": {"until": ["\n"], "max_gen_toks": 9},
        },
    ),
    "votes": (
        "gsm8k/gsm8k",
        "csv",
        WRITE
        | {
            "doc_to_text": "question",
            "doc_to_target": "answer",
            "repeats": 3,
            "num_fewshot": 1,
            "fewshot_config": {"split": "train", "sampler": "first_n"},
            "metric_list": [{"metric": "exact_match", "aggregation": "mean", "higher_is_better": True}],
            "filter_list": [
                {"name": "first", "filter": [{"function": "take_first"}]},
                {"name": "votes", "filter": [
                    {"function": "regex", "regex_pattern": "([a-z])"},
                    {"function": "majority_vote"},
                    {"function": "take_first"},
                ]},
            ],
        },
    ),
    "all_quizzes": ("", "", {}),
}  # fmt: skip
"""Tasks made here, of what the harness's own do not use: (task whose records it has, format, keys)."""
FUNCTIONS = """
def longer(dataset):
    return dataset.filter(lambda doc: len(doc["question"]) > 30)

def ask(doc):
    return f"Q: {doc['question']} A:"

def answer(doc):
    return doc["answer"].split("####")[-1].strip()

def judge(doc, results):
    return {"letters": len(results[0]) + len(doc["answer"])}

def longest(values):
    return max(values)
"""


SHORT = {"generation_kwargs": {"until": ["\n"], "max_gen_toks": 12, "do_sample": False}}
SHIPPED_FILES: Mapping[str, Mapping[str, Any]] = {
    **{name: {} for name in ("arc/arc_easy", "lambada/lambada_openai", "blimp/adjunct_island", "pile/pile_enron")},
    "gsm8k/gsm8k": SHORT,
}
"""Tasks that the harness ships, of all output types, with other keys."""
ROWS = [
    {"ask": "Which turns?", "choices": ["wheel", "stone"], "right": 0, "number": 1},
    {"ask": "Which lies?", "choices": ["wheel", "stone"], "right": 1, "number": 2},
    {"ask": "Which flows?", "choices": ["river", "mill"], "right": 0, "number": 1},
    {"ask": "Which grinds?", "choices": ["river", "mill"], "right": 1, "number": 2},
]
ASK: Mapping[str, Any] = {"metric_list": [{"metric": name} for name in ("acc", "acc_norm", "exact_match")]}


def quiz(folder: Path, name: str = "quiz", **keys: Any) -> Path:
    """The YAML of a task with two choices over ``ROWS``, with other keys; a key that is None is left out."""
    folder.mkdir(exist_ok=True)
    write_json(folder / "quiz.jsonl", ROWS)
    write_json(folder / "train.jsonl", [{**row, "ask": f"{row['ask']} And why?"} for row in ROWS])
    write_json(folder / "numbered.jsonl", [{**row, "number": 7} for row in ROWS])
    files = {"test": "quiz.jsonl", "train": "train.jsonl", "same": "quiz.jsonl", "numbered": "numbered.jsonl"}
    task: dict[str, Any] = {
        "task": name,
        "output_type": "multiple_choice",
        "dataset_path": "json",
        "dataset_kwargs": {"data_files": files if "fewshot_split" in keys else {"test": "quiz.jsonl"}},
        "test_split": "test",
        "doc_to_text": "Question: {{ask}}\nAnswer:",
        "doc_to_choice": "choices",
        "doc_to_target": "right",
        "metric_list": [{"metric": "acc"}],
        **keys,
    }
    text = json.dumps({key: value for key, value in task.items() if value is not None})
    path = folder / f"{name}.yaml"
    path.write_text(re.sub('"(!function [^"]*)"', r"\1", text))  # JSON is YAML
    return path


def group_yaml(folder: Path) -> Path:
    """A group of a task by its name, and of one by its tag with another description."""
    quiz(folder, "quiz_one")
    quiz(folder, "quiz_two", tag=["second"], description="Choose.\n")
    means = [{"metric": "acc", "weight_by_size": False}]
    path = folder / "all_quizzes.yaml"
    path.write_text(
        json.dumps({"group": "all_quizzes", "task": ["quiz_one", "second"], "aggregate_metric_list": means})
    )
    return path


def made_yaml(folder: Path, name: str) -> Path:
    """The YAML of a task of ``MADE``, over made files in ``folder``."""
    if name == "all_quizzes":
        return group_yaml(folder)
    task, kind, keys = MADE[name]
    if name == "functions":
        (folder / "made_functions.py").write_text(FUNCTIONS)
    files = {
        split: WRITERS[kind](folder / f"{name}_{split}.{kind}", rows_of(task, seed)).name
        for seed, split in enumerate(("train", "validation", "test"))
    }
    path = folder / f"{name}.yaml"
    text = json.dumps({"task": name, "dataset_path": kind, "dataset_kwargs": {"data_files": files}, **keys})
    path.write_text(re.sub('"(!function [^"]*)"', r"\1", text))
    return path

"""Published files of choices: prompts are those that lm-evaluation-harness's tasks make of the same records.

The expected prompts are written here as the harness's YAML and Python have them (version 0.4.13), not by templates.
"""

import csv
import json
import random
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from headrace.pipeline.configuration.composition import compose
from headrace.pipeline.core.errors import ArtifactError, ConfigError
from headrace.pipeline.core.settings import decode
from headrace.train.evaluation.benchmarks import AnyBenchmark
from headrace.train.evaluation.benchmarks.base import Item, Sources
from headrace.train.evaluation.benchmarks.field_choice import FieldChoice, words
from headrace.train.evaluation.settings import Evaluation
from headrace.train.inference.queries import Answer, Text


def preset(option: str, name: str, **changes: Any) -> Any:
    """The benchmark ``name`` of conf/evaluation/<option>.yaml, with some settings changed."""
    values = compose(["source=jsonl", "source.paths=[x]", f"evaluation={option}"])["evaluation"]
    benchmark = {**values["benchmarks"][name], **changes}
    return decode(Evaluation, {**values, "benchmarks": {name: benchmark}}).benchmarks[name]


def asked(benchmark: AnyBenchmark, data: Path) -> list[tuple[str, list[str], int]]:
    """The context, the continuations and the right one of each item."""
    items = benchmark.items(Sources(data=data, held_out=None, seed="0"))
    return [(_texts(item)[0].context, [query.continuation for query in _texts(item)], item.gold) for item in items]


def _texts(item: Item) -> list[Text]:
    return [query for query in item.queries if isinstance(query, Text)]


def write_csv(path: Path, rows: Sequence[Sequence[str]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="") as file:
        csv.writer(file).writerows(rows)


def write_jsonl(path: Path, records: Sequence[dict[str, Any]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{json.dumps(record)}\n" for record in records))


def mmlu_files(folder: Path) -> dict[str, dict[str, list[list[str]]]]:
    rows = {
        subject: {
            split: [
                [f" Question {n} of {subject},\nin two lines? ", *(f"{split} {n} {c}" for c in "pqrs"), "ABCD"[n % 4]]
                for n in range(count)
            ]
            for split, count in (("dev", 6), ("test", 3))
        }
        for subject in ("abstract_algebra", "world_religions")
    }
    for subject, splits in rows.items():
        for split, records in splits.items():
            write_csv(folder / split / f"{subject}_{split}.csv", records)
    return rows


@pytest.mark.parametrize("shots", [0, 5])
def test_mmlu(tmp_path: Path, shots: int) -> None:
    rows = mmlu_files(tmp_path)

    def question(row: list[str]) -> str:
        return f"{row[0].strip()}\nA. {row[1]}\nB. {row[2]}\nC. {row[3]}\nD. {row[4]}\nAnswer:"

    expected = []
    for subject, splits in rows.items():
        name = subject.replace("_", " ")
        context = f"The following are multiple choice questions (with answers) about {name}.\n\n"
        context += "".join(f"{question(row)} {row[5]}\n\n" for row in splits["dev"][:shots])
        expected += [
            (context + question(row), [" A", " B", " C", " D"], "ABCD".index(row[5])) for row in splits["test"]
        ]
    benchmark = preset("mmlu", "mmlu", shots=shots)
    assert asked(benchmark, tmp_path) == expected
    assert {file.name for file in benchmark.raw_files(tmp_path)} == {
        f"{subject}_{split}.csv" for subject in rows for split in ("dev", "test")
    }


def test_the_accuracy_of_mmlu_counts_questions_and_each_subject_has_its_own(tmp_path: Path) -> None:
    mmlu_files(tmp_path)
    write_csv(tmp_path / "test/abstract_algebra_test.csv", [["Q?", "1", "2", "3", "4", "A"]])
    benchmark = preset("mmlu", "mmlu")
    items = benchmark.items(Sources(data=tmp_path, held_out=None, seed="0"))
    right = [item.group == "world religions" for item in items]
    answers = [
        [
            Answer(log_likelihood=-1.0 if (number == item.gold) == is_right else -9.0, greedy=False, tokens=1)
            for number in range(4)
        ]
        for item, is_right in zip(items, right, strict=True)
    ]
    outcomes = [benchmark.outcome(item, answer) for item, answer in zip(items, answers, strict=True)]
    metrics = {(metric.name, metric.group): metric for metric in benchmark.metrics(items, outcomes, 0)}
    assert [(metric.value, metric.items, metric.random) for metric in (metrics["acc", ""],)] == [(0.75, 4, 0.25)]
    assert metrics["acc", "abstract algebra"].value == 0.0
    assert metrics["acc", "world religions"].value == 1.0


def test_hellaswag(tmp_path: Path) -> None:
    records = [
        {
            "activity_label": "Making  tea",
            "ctx_a": " [header] How to make tea [title] Boil water. [step] Fill it.",
            "ctx_b": "then SHE",
            "endings": ["pours [substeps] it.", " [title] drinks  it.", "sings.", "sits  [x] down."],
            "label": label,
        }
        for label in (1, "3")
    ] + [{"activity_label": "Chess", "ctx_a": "Two men sit.", "ctx_b": "", "endings": ["a", "b"], "label": 0}]
    write_jsonl(tmp_path / "hellaswag_val.jsonl", records)

    def preprocess(text: str) -> str:
        text = text.strip().replace(" [title]", ". ")
        return re.sub("\\[.*?\\]", "", text).replace("  ", " ")

    expected = [
        (
            preprocess(f"{one['activity_label']}: {one['ctx_a']} {one['ctx_b'].capitalize()}"),
            [" " + preprocess(ending) for ending in one["endings"]],
            int(one["label"]),
        )
        for one in records
    ]
    assert asked(preset("scenes", "hellaswag"), tmp_path) == expected


def test_swag(tmp_path: Path) -> None:
    fields = ["video-id", "startphrase", "ending0", "ending1", "ending2", "ending3", "label"]
    write_csv(tmp_path / "val.csv", [fields, ["v1", "He sits. He", "sings.", "reads, too.", "eats.", "stands.", "2"]])
    expected = ("He sits. He", [" sings.", " reads, too.", " eats.", " stands."], 2)
    assert asked(preset("scenes", "swag"), tmp_path) == [expected]


def test_gpqa_shows_the_right_answer_at_any_place(tmp_path: Path) -> None:
    fields = ["Question", "Correct Answer", "Incorrect Answer 1", "Incorrect Answer 2", "Incorrect Answer 3"]
    rows = [[f"Why {n}?", f"right {n} ", *(f"wrong {n} {k}" for k in range(3))] for n in range(40)]
    write_csv(tmp_path / "gpqa_main.csv", [fields, *rows])
    golds = []
    for (context, choices, gold), row in zip(asked(preset("gpqa", "gpqa"), tmp_path), rows, strict=True):
        begin, *shown = re.split(r"\n\([A-D]\) ", context.removesuffix("\nAnswer:"))
        assert begin == f"What is the correct answer to this question:{row[0]}\nChoices:"
        assert sorted(shown) == sorted(text.strip() for text in row[1:])
        assert shown[gold] == row[1].strip()
        assert choices == [" (A)", " (B)", " (C)", " (D)"]
        golds.append(gold)
    assert {*golds} == {0, 1, 2, 3}
    shuffled = random.Random(0).sample(rows, len(rows))
    write_csv(tmp_path / "gpqa_main.csv", [fields, *shuffled])
    again = dict(zip([row[0] for row in shuffled], asked(preset("gpqa", "gpqa"), tmp_path), strict=True))
    assert [again[row[0]][2] for row in rows] == golds, "the content of a record decides, not its place"


SUPERGLUE = {
    "boolq": (
        {"passage": "P.", "question": "is it so", "label": True},
        ("P.\nQuestion: is it so?\nAnswer:", [" no", " yes"], 1),
    ),
    "cb": (
        {"premise": "P.", "hypothesis": "h", "label": "neutral"},
        ("P.\nQuestion: h. True, False, or Neither?\nAnswer:", [" True", " False", " Neither"], 2),
    ),
    "rte": (
        {"premise": "P.", "hypothesis": "H.", "label": "not_entailment"},
        ("P.\nQuestion: H. True or False?\nAnswer:", [" True", " False"], 1),
    ),
    "wic": (
        {"sentence1": "A bank.", "sentence2": "The bank.", "word": "bank", "label": False},
        (
            "Sentence 1: A bank.\nSentence 2: The bank.\nQuestion: Is the word 'bank' used in the same way in the two "
            "sentences above?\nAnswer:",
            [" no", " yes"],
            0,
        ),
    ),
}


@pytest.mark.parametrize("task", SUPERGLUE)
def test_superglue(tmp_path: Path, task: str) -> None:
    record, expected = SUPERGLUE[task]
    benchmark = preset("superglue", task)
    write_jsonl(tmp_path / benchmark.paths[0], [record])
    assert asked(benchmark, tmp_path) == [expected]


def test_a_description_comes_before_the_worked_examples(tmp_path: Path) -> None:
    records = [{"query": f"Q{n}?", "choices": ["a", "b"], "gold": 0} for n in range(4)]
    write_jsonl(tmp_path / "quiz.jsonl", records)
    settings = {"type": "multiple_choice", "paths": ["quiz.jsonl"], "shots": 2, "limit": 1}
    without, described = (
        decode(Evaluation, {"benchmarks": {"quiz": {**settings, "description": text}}}).benchmarks["quiz"]
        for text in ("", "Choose the letter.\n\n")
    )
    ((context, _, _),), ((before, _, _),) = asked(described, tmp_path), asked(without, tmp_path)
    assert context == "Choose the letter.\n\n" + before


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"choices": ["{a}", "{b"]}, "is no template"),
        ({"prompt": "{q:upper}"}, "has a format other than capitalize and strip"),
        ({"shuffle": True}, "shuffles, and has no options"),
    ],
)
def test_settings_that_contradict_each_other(changes: dict[str, Any], problem: str) -> None:
    given = {"type": "field_choice", "paths": ["x.csv"], "prompt": "{q}", "choices": ["{a}", "{b}"], **changes}
    with pytest.raises(ConfigError, match=problem):
        decode(Evaluation, {"benchmarks": {"x": given}})


@pytest.mark.parametrize(
    ("record", "problem"),
    [
        ({"q": "Q?", "a": "x", "b": "y"}, "no_field g"),
        ({"q": "Q?", "a": "x", "b": "y", "g": "2"}, "no_choice"),
        ({"q": "Q?", "a": "x", "b": "y", "g": "first"}, "no_number g"),
        ({"q": "Q?", "a": " ", "b": "y", "g": 0}, "blank_text"),
        ({"q": "Q?", "a": ["x"], "b": ["y"], "g": None}, "no_number g"),
    ],
)
def test_a_broken_record_is_named_with_its_line(tmp_path: Path, record: dict[str, Any], problem: str) -> None:
    write_jsonl(tmp_path / "x.jsonl", [{"q": "Q?", "a": "x", "b": "y", "g": 1}, record])
    benchmark = FieldChoice(paths=("x.jsonl",), prompt="{q}", choices=("{a}", "{b}"), gold="g")
    with pytest.raises(ArtifactError, match=rf"x\.jsonl:2: is no record \({problem}\)"):
        benchmark.raw_files(tmp_path)


def test_letters_that_are_not_as_many_as_the_options_are_refused(tmp_path: Path) -> None:
    write_jsonl(tmp_path / "x.jsonl", [{"q": "Q?", "all": ["x", "y", "z"], "g": 0}])
    benchmark = FieldChoice(paths=("x.jsonl",), prompt="{q}", options=("{all}",), choices=("A", "B"), gold="g")
    with pytest.raises(ArtifactError, match=r"x\.jsonl:1: is no record \(no_choice\)"):
        benchmark.raw_files(tmp_path)


def test_worked_examples_in_a_file_of_the_same_name_are_refused(tmp_path: Path) -> None:
    for folder in ("dev", "test"):
        write_csv(tmp_path / folder / "history.csv", [["Q?", "1", "2", "3", "4", "A"]])
    with pytest.raises(ConfigError, match="a file of paths and one of worked_paths have one name; rename one"):
        preset("mmlu", "mmlu", shots=1).raw_files(tmp_path)


def test_too_few_worked_examples_of_a_group(tmp_path: Path) -> None:
    mmlu_files(tmp_path)
    with pytest.raises(ConfigError, match="7 shots of 6 records"):
        asked(preset("mmlu", "mmlu", shots=7), tmp_path)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("abstract_algebra_test.csv", "abstract algebra"),
        ("world_religions_dev.csv.zst", "world religions"),
        ("test.csv", "test"),
    ],
)
def test_the_name_of_a_file_in_words(name: str, expected: str) -> None:
    assert words(name) == expected

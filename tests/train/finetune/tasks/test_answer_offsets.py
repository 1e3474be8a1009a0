"""Answers of SQuAD whose offset is wrong or missing: validation compares texts, training needs a place."""

import json
from pathlib import Path
from typing import Any

import pytest

from headrace.pipeline.core.json_files import read_json
from headrace.pipeline.core.settings import decode
from headrace.train.evaluation.metrics import normalized_answer
from headrace.train.finetune.files.examples import AnswerSpan
from headrace.train.finetune.settings import Finetune
from headrace.train.finetune.tasks.span import SpanTask, located, offset_in
from headrace.train.finetune.tuning import Splits
from tests.stage_run import RunStage
from tests.train.finetune.small_tasks import ENCODER, FILLERS, GOOD, of_kind, stage, tokenizer_artifact

CONTEXT = " The mill of Dale was built in 1857 by Ann Reed, and Ann Reed of Dale left it in 1901."
FAR = f"Dale. {'It turned. ' * 8}Dale."


@pytest.mark.parametrize(
    ("context", "text", "start", "expected"),
    [
        (CONTEXT, "1857", 31, 31),
        (CONTEXT, "1857", 30, 31),
        (CONTEXT, "1857", 33, 31),
        (CONTEXT, "1857", 0, 31),
        (CONTEXT, "1857", 10**9, 31),
        (CONTEXT, "1857", None, 31),
        (CONTEXT, " Ann Reed", 38, 38),
        (CONTEXT, "Ann Reed", 38, 39),
        (CONTEXT, "Ann Reed", 52, 53),
        (CONTEXT, "Ann Reed", None, 39),
        (CONTEXT, "1858", 31, None),
        (CONTEXT, "1858", None, None),
        (FAR, "Dale", 0, 0),
        (FAR, "Dale", 3, 0),
        (FAR, "Dale", 91, 94),
        (FAR, "Dale", 50, None),
        ("aaaa", "aa", 1, 1),
        ("aaaa", "aa", 3, 2),
        ("é" * 30 + "Ann", "Ann", 60, 30),
        ("", "Ann", 0, None),
    ],
)
def test_the_place_of_an_answer(context: str, text: str, start: int | None, expected: int | None) -> None:
    assert offset_in(context, AnswerSpan(text, start)) == expected
    if expected is not None:
        assert context[expected:].startswith(text)


def answer(text: Any, start: Any = None) -> dict[str, Any]:
    return {"text": text} if start is None else {"text": text, "answer_start": start}


QUESTIONS: dict[str, tuple[dict[str, Any], list[str], bool]] = {
    "right": ({"answers": [answer("1857", 31)]}, ["1857"], True),
    "one too low": ({"answers": [answer("1857", 30)], "is_impossible": False}, ["1857"], True),
    "space": ({"answers": [answer(" Ann Reed", 38)]}, [" Ann Reed"], True),
    "no offset": ({"answers": [answer("1857")]}, ["1857"], True),
    "negative offset": ({"answers": [answer("1857", -1)]}, ["1857"], True),
    "offset as text": ({"answers": [answer("1857", "x")]}, ["1857"], True),
    "not in the context": ({"answers": [answer("18 57", 31)]}, ["18 57"], False),
    "one of two": ({"answers": [answer("in 1 857", 28), answer("1857", 31)]}, ["in 1 857", "1857"], True),
    "several": ({"answers": [answer("Ann Reed", 39), answer("Reed", 42)]}, ["Ann Reed", "Reed"], True),
    "empty": ({"answers": [answer("", 0)], "is_impossible": False}, [""], True),
    "impossible": ({"answers": [], "is_impossible": True}, [""], True),
}
"""Kind → the question, the texts that the official evaluation compares with, and whether training can learn it."""


def write(path: Path, questions: dict[str, dict[str, Any]], context: str = CONTEXT) -> str:
    qas = [{"id": name, "question": f"What, {name}?"} | values for name, values in questions.items()]
    path.write_text(json.dumps({"version": "v2.0", "data": [{"paragraphs": [{"context": context, "qas": qas}]}]}))
    return str(path)


def splits_of(tmp_path: Path, task: dict[str, Any]) -> Splits:
    questions = {name: values for name, (values, _, _) in QUESTIONS.items()}
    train = write(tmp_path / "train.json", {f"t {name}": values for name, values in questions.items()})
    validation = write(tmp_path / "validation.json", questions)
    return Splits.read(decode(Finetune, {"task": task, "train": [train], "validation": [validation], "context": 64}))


def test_each_question_of_validation_is_scored_with_its_texts(tmp_path: Path) -> None:
    found = splits_of(tmp_path, {"type": "span", "format": {"type": "squad"}})
    assert [example.id for example in found.validation] == list(QUESTIONS)
    for example in found.validation:
        texts = [one.text for one in example.answers or ()] or [""]
        assert [normalized_answer(text) for text in texts] == [
            normalized_answer(text) for text in QUESTIONS[example.id][1]
        ]


def test_training_leaves_out_what_has_no_place_and_counts_it(tmp_path: Path) -> None:
    found = splits_of(tmp_path, {"type": "span"})
    learned = [name for name, (_, _, is_learned) in QUESTIONS.items() if is_learned]
    assert [example.id for example in found.training] == [f"t {name}" for name in learned]
    assert found.dropped == {"train": {"answer_elsewhere": 1}}
    assert list(found.left_out()) == [
        f"finetune.train: 1 examples are left out (answer_elsewhere 1), {len(learned)} are not"
    ]
    for example in found.training:
        places = [one for one in example.answers or () if one.start is not None]
        assert all(CONTEXT.startswith(one.text, one.start) for one in places)
        assert bool(places) == bool(QUESTIONS[example.id[2:]][1] != [""])


def test_questions_of_one_id_are_all_scored(tmp_path: Path) -> None:
    qas = [{"id": "1", "question": "What?", "answers": [answer("1857", 31)]}] * 3
    path = tmp_path / "twice.json"
    path.write_text(json.dumps({"data": [{"paragraphs": [{"context": CONTEXT, "qas": qas}]}]}))
    examples, dropped = SpanTask().read([str(path)])
    assert (len(examples), dropped) == (3, {})


def test_an_answer_elsewhere_counts_for_the_score(tmp_path: Path) -> None:
    """The best prediction is compared with the text; a wrong one lowers the mean."""
    examples, _ = SpanTask().read([write(tmp_path / "v.json", {"a": {"answers": [answer("the 18-57", 2)]}})])
    assert located(examples[0], CONTEXT) == examples[0]
    assert examples[0].answers == (AnswerSpan("the 18-57"),)


def test_a_fine_tuning_scores_a_question_with_a_wrong_offset(
    tmp_path: Path, run_stage: RunStage, capsys: pytest.CaptureFixture[str]
) -> None:
    task, files = of_kind("span", tmp_path)
    for split in files:
        content = read_json(Path(files[split]))
        first, second, third = (each["qas"][0] for each in content["data"][0]["paragraphs"][:3])
        first["answers"][0]["answer_start"] += 1
        second["answers"] = [{"text": f"{GOOD[0]} {FILLERS[0]} {GOOD[0]}", "answer_start": 0}]
        third["answers"] = []
        Path(files[split]).write_text(json.dumps(content))
    tuning = stage(ENCODER, files, task, epochs=1, evaluate_every=100)
    tuning.check_start()
    said = capsys.readouterr().err.splitlines()
    assert said == [
        "headrace: finetune.train: 2 examples are left out (no_answer 1, answer_elsewhere 1), 30 are not",
        "headrace: finetune.validation: 1 examples are left out (no_answer 1), 15 are not",
    ]
    artifact = run_stage(tuning, {"tokenizer": tokenizer_artifact(tmp_path / "tokenizer")}, tmp_path / "tuned")
    scores = read_json(artifact.path("scores.json"))
    assert scores["dropped"] == {
        "train": {"no_answer": 1, "answer_elsewhere": 1},
        "validation": {"no_answer": 1},
    }
    assert scores["examples"] == {"train": 30, "validation": 15, "test": 0}
    lines = artifact.path("seed_1/predictions.jsonl").read_text().splitlines()
    assert [json.loads(line)["id"] for line in lines] == ["32", "33", *(str(number) for number in range(35, 48))]

"""The JSON lines of SuperGLUE, and its tasks as classes."""

import pytest

from headrace.pipeline.core.settings import decode
from headrace.train.finetune.files.examples import AnswerSpan, Example
from headrace_courses.superglue import SuperGlue
from tests.train.finetune.files.test_files import Holder, lines, write
from tests.train.finetune.small_tasks import ENCODER, stage
from tests.train.finetune.small_tasks import lines as lines_file
from tests.train.finetune.test_finetuned import said

__all__ = ["write"]

PASSAGE = "The mill by the river was old. Ann and Bob saw it.\n@highlight\nAnn slept"
SUPERGLUE_FILES = {
    "boolq": (
        {"question": "is it", "passage": "It is.", "idx": 0, "label": True},
        Example(id="val.jsonl:1", texts={"question": "is it", "passage": "It is."}, label="True"),
    ),
    "cb": (
        {"premise": "A.", "hypothesis": "B", "label": "neutral", "idx": 1},
        Example(id="val.jsonl:1", texts={"premise": "A.", "hypothesis": "B"}, label="neutral"),
    ),
    "copa": (
        {"premise": "A.", "choice1": "B.", "choice2": "C.", "question": "cause", "label": 1, "idx": 2},
        Example(id="val.jsonl:1", texts={"premise": "A.", "question": "cause"}, choices=("B.", "C."), gold=1),
    ),
    "rte": (
        {"premise": "A.", "hypothesis": "B", "label": "not_entailment", "idx": 1},
        Example(id="val.jsonl:1", texts={"premise": "A.", "hypothesis": "B"}, label="not_entailment"),
    ),
    "wic": (
        {"word": "place", "sentence1": "Do you want to come over to my place?", "sentence2": "A place.", "idx": 0,
         "label": False, "start1": 31, "start2": 2, "end1": 36, "end2": 7, "version": 1.1},
        Example(
            id="val.jsonl:1",
            texts={"sentence1": "Do you want to come over to my place?", "sentence2": "A place.", "word": "place"},
            label="False",
            numbers={"start1": 31, "end1": 36, "start2": 2, "end2": 7},
        ),
    ),
    "wsc": (
        {"text": "Mark told Pete lies.", "idx": 0, "label": False,
         "target": {"span1_index": 0, "span1_text": "Mark", "span2_index": 2, "span2_text": "Pete"}},
        Example(
            id="val.jsonl:1",
            texts={"text": "Mark told Pete lies.", "span1": "Mark", "span2": "Pete"},
            label="False",
            numbers={"span1": 0, "span2": 2},
        ),
    ),
    "multirc": (
        {"idx": 3, "version": 1.1, "passage": {"text": "<b>Sent 1: </b>A.", "questions": [
            {"question": "Who?", "idx": 9, "answers": [{"text": "Ann", "idx": 1, "label": 0},
                                                       {"text": "Bob", "idx": 2, "label": 1}]}]}},
        *(
            Example(
                id=f"val.jsonl:1:0:{index}",
                texts={"question": "Who?", "answer": answer, "paragraph": "<b>Sent 1: </b>A."},
                label=label,
                group="val.jsonl:1:0",
            )
            for index, (answer, label) in enumerate([("Ann", "False"), ("Bob", "True")])
        ),
    ),
    "record": (
        {"source": "x", "idx": 0, "passage": {"text": PASSAGE, "entities": [
            {"start": 39, "end": 41}, {"start": 31, "end": 33}, {"start": 62, "end": 64}]},
         "qas": [{"query": "@placeholder slept.", "idx": 5, "answers": [{"start": 31, "end": 33, "text": "Ann"},
                                                                       {"start": 62, "end": 64, "text": "Ann"}]}]},
        Example(
            id="val.jsonl:1:0",
            texts={"query": "@placeholder slept.", "passage": PASSAGE},
            choices=("Ann", "Bob"),
            answers=(AnswerSpan("Ann", 31), AnswerSpan("Ann", 62)),
        ),
    ),
}  # fmt: skip


@pytest.mark.parametrize("task", SUPERGLUE_FILES)
def test_superglue(task, write):
    line, *wanted = SUPERGLUE_FILES[task]
    reader = decode(Holder, {"format": {"type": "superglue", "task": task}}).format
    found = reader.read(write("val.jsonl", lines(line, {"idx": 1, "passage": {"text": "A."}})))
    assert list(found.examples) == wanted
    assert sum(found.dropped.values()) == 1
    without_results = [one.label is None and one.answers is None for one in
                       reader.read(write("test.jsonl", lines(line)), labelled=False).examples]  # fmt: skip
    assert all(without_results)


def test_superglue_knows_its_classes():
    assert SuperGlue(task="cb").classes == ("entailment", "contradiction", "neutral")
    assert SuperGlue(task="wic").classes == ("False", "True")
    assert SuperGlue(task="record").classes == SuperGlue(task="copa").classes == ()


def test_a_split_without_an_example_is_refused_before_any_stage(tmp_path) -> None:
    """A format finds examples, of which the task can use none."""
    line = {"text": "Mark is here.", "idx": 0, "label": False}
    words = {"span1_index": 0, "span1_text": "Mark", "span2_index": 1}
    without = lines_file(tmp_path / "without.jsonl", [{**line, "target": {**words, "span2_text": "he"}}] * 2)
    false = lines_file(tmp_path / "false.jsonl", [{**line, "target": {**words, "span2_text": "is"}}])
    other = {**line, "text": "Ann is here.", "target": {**words, "span2_text": "is"}}
    task = {"type": "text_to_text", "format": {"type": "superglue", "task": "wsc"}}
    files = {"train": false, "validation": lines_file(tmp_path / "other.jsonl", [other])}
    for split in ("train", "validation", "test"):
        message = said(stage(ENCODER, {**files, split: without}, task))
        assert message == f"finetune.{split}: holds no example (no_pronoun: 2); check format and task"
    assert said(stage(ENCODER, files, task)) == (
        "finetune.train: none of 1 examples has a text that is trained on; give some"
    )

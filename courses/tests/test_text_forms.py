"""T5's conversions, on the examples of its paper and code."""

from pathlib import Path
from typing import get_args

import numpy as np
import pytest

from headrace.train.evaluation.file_records import RecordError
from headrace.train.finetune.files.examples import AnswerSpan, Example
from headrace.train.finetune.files.published import GlueTask
from headrace.train.finetune.tasks.text_forms import TEXT_FORMS
from headrace_courses.text_forms import OfSquad, OfSuperGlue, fifths, is_referent
from tests.train.finetune.tasks.test_written_texts import published


def example(texts: dict[str, str], **more: object) -> Example:
    return Example(id="1", texts=texts, **more)


PASSAGE = 'It ended."\n@highlight\nAnn slept\n@highlight\nBob ran'
PAIRS = {
    "cola": (
        example({"sentence": "John made Bill master of himself."}, label="acceptable"),
        "cola sentence: John made Bill master of himself.",
        ("acceptable",),
    ),
    "qqp": (
        example({"question1": "Why?", "question2": "How?"}, label="not_duplicate"),
        "qqp question1: Why? question2: How?",
        ("not_duplicate",),
    ),
    "mnli": (
        example({"premise": "yeah well", "hypothesis": "They won."}, label="contradiction"),
        "mnli hypothesis: They won. premise: yeah well",
        ("contradiction",),
    ),
    "stsb": (
        example({"sentence1": "A.", "sentence2": "B."}, value=3.25),
        "stsb sentence1: A. sentence2: B.",
        ("3.2",),
    ),
    "boolq": (
        example({"question": "is it", "passage": "It is."}, label="True"),
        "boolq passage: It is. question: is it",
        ("True",),
    ),
    "copa": (
        example({"premise": "P.", "question": "effect"}, choices=("C.", "D."), gold=1),
        "copa choice1: C. choice2: D. premise: P. question: effect",
        ("choice2",),
    ),
    "multirc": (
        example(
            {"question": "Who?", "answer": "Ann", "paragraph": "<b>Sent 1: </b>A.<br><b>Sent 2: </b>B."}, label="False"
        ),
        "multirc question: Who? answer: Ann paragraph: Sent 1: A. Sent 2: B.",
        ("False",),
    ),
    "wic": (
        example({"sentence1": "S.", "sentence2": "T.", "word": "place"}, label="True"),
        "wic sentence1: S. sentence2: T. word: place",
        ("True",),
    ),
    "record": (
        example(
            {"query": "@placeholder slept.", "passage": PASSAGE},
            choices=("Ann", "Bob"),
            answers=(AnswerSpan("Ann", 22), AnswerSpan("Anne", 1), AnswerSpan("Ann", 30)),
        ),
        'record query: @placeholder slept. entities: Ann, Bob passage: It ended." Ann slept. Bob ran',
        ("Ann", "Anne"),
    ),
    "squad": (
        example({"question": "Who's it?", "context": "It's  the U.S.\nArmy."}, answers=(AnswerSpan("U.S.", 10),)),
        "question: Who ' s it ? context: It ' s the U . S . Army .",
        ("U . S .",),
    ),
    "wsc": (
        example(
            {"text": "Mark told Pete many lies about himself , which Pete included in his book .", "span1": "Mark",
             "span2": "himself"},
            label="True",
            numbers={"span1": 0, "span2": 6},
        ),
        "wsc: Mark told Pete many lies about *himself* , which Pete included in his book .",
        ("Mark",),
    ),
}  # fmt: skip


@pytest.mark.parametrize("task", PAIRS)
def test_conversions_are_those_of_t5(task):
    one, inputs, targets = PAIRS[task]
    kind = task if task == "squad" else "glue" if task in get_args(GlueTask) else "superglue"
    form = TEXT_FORMS[kind](task)
    assert form.inputs(one, form.prefix) == inputs
    assert form.targets(one) == targets


def test_a_question_without_an_answer_has_a_text() -> None:
    assert OfSquad().targets(example({"question": "Q", "context": "C"}, answers=())) == ("no answer",)


@pytest.mark.parametrize(
    ("text", "pronoun", "index", "wanted"),
    [
        ('"Good for him," he said. ', "him", 2, 'wsc: "Good for *him* ," he said.'),
        ("they might want to use it , but", "it", 4, "wsc: they might want to use *it* , but"),
    ],
)
def test_pronouns_of_wsc_that_are_not_at_their_index(text, pronoun, index, wanted):
    one = example({"text": text, "span1": "x", "span2": pronoun}, numbers={"span1": 0, "span2": index})
    assert OfSuperGlue("wsc").inputs(one, "wsc") == wanted


def test_a_text_without_its_pronoun_is_no_example():
    one = example({"text": "No word.", "span1": "x", "span2": "he"}, numbers={"span1": 0, "span2": 0})
    with pytest.raises(RecordError, match="no_pronoun"):
        OfSuperGlue("wsc").inputs(one, "wsc")


def test_scores_of_stsb_are_rounded_to_fifths():
    values = np.linspace(0, 5, 501)
    for value in values:
        nearest = min((abs(np.float32(value) - number / 5), number) for number in range(26))[0]
        assert abs(float(fifths(value)) - value) <= nearest + 1e-6
    assert len({fifths(value) for value in values}) == 26
    assert [fifths(value) for value in (0, 0.1, 2.5, 5)] == ["0.0", "0.0", "2.4", "5.0"]


@pytest.mark.parametrize(
    ("found", "referent", "wanted"),
    [
        ("Mark", "Mark", True),
        ("the fuzzy bunny", "bunny", True),
        ("The city councilmen", "the demonstrators", False),
        ("Bob", "Bob's hat", False),
        ("the", "Mark", None),
    ],
)
def test_the_referent_of_a_pronoun(found, referent, wanted):
    assert is_referent(found, referent) is wanted


PRESETS = {
    "t5_translation": ({"en": "That is good.", "de": "Das ist gut."}, "translate English to German: That is good."),
    "t5_cnn_dm": ({"article": "state authorities met", "highlights": "six people"}, "summarize: state authorities met"),
}
"""Preset → a record, and the text that the model reads, as in the figure of T5's paper."""


@pytest.mark.parametrize("preset", PRESETS)
def test_presets_read_published_records(preset: str, tmp_path: Path) -> None:
    published(preset, PRESETS[preset], tmp_path)

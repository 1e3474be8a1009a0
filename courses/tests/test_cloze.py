"""Cloze questions: the choices that a row has, what is right, and an encoder that learns them."""

import dataclasses
import json
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from headrace.data_prep.tokenization.encode import Encoder
from headrace.pipeline.core.artifact import Artifact
from headrace.pipeline.core.errors import ConfigError
from headrace.pipeline.core.settings import decode
from headrace.train.finetune.files.examples import AnswerSpan, Example
from headrace.train.finetune.tasks.sequences import Form
from headrace_courses.cloze import Cloze
from tests.stage_run import run_here
from tests.train.finetune.small_tasks import (
    BAD,
    ENCODER,
    FILLERS,
    GOOD,
    lines,
    stage,
    tokenizer_artifact,
    words_tokenizer,
)

TASK: dict[str, Any] = {"type": "cloze", "format": {"type": "superglue", "task": "record"}}
EXAMPLE = Example(
    id="a:1:0",
    texts={"query": "a @placeholder b", "passage": "c good d fine e poor"},
    choices=("good", "fine", "poor"),
    answers=(AnswerSpan("fine"), AnswerSpan("good"), AnswerSpan("fine")),
)


def rows_of(example: Example, is_training: bool) -> tuple[list[str], int]:
    """The sequences of the row of ``example`` as text, and its label."""
    tokenizer = words_tokenizer()
    form = Form(Encoder(tokenizer), ENCODER, 32)
    (row,) = decode(Cloze, TASK).fitted([example], form).rows([example], is_training)
    return [tokenizer.decode(sequence.tokens.tolist()) for sequence in row.sequences], int(row.targets["labels"])


def test_a_row_of_training_has_one_right_text_and_a_prediction_all() -> None:
    assert rows_of(EXAMPLE, True) == (["c good d fine e poor a good b", "c good d fine e poor a poor b"], 0)
    texts, label = rows_of(EXAMPLE, False)
    assert texts == [f"c good d fine e poor a {word} b" for word in EXAMPLE.choices]
    assert label == 0


def test_any_right_text_is_right_and_f1_counts_words() -> None:
    fitted = decode(Cloze, TASK).fitted([EXAMPLE], Form(Encoder(words_tokenizer()), ENCODER, 32))
    for logits, word, score in (([0, 2, 1], "fine", 1.0), ([3, 2, 1], "good", 1.0), ([0, 2, 3], "poor", 0.0)):
        (prediction,) = fitted.predictions([EXAMPLE], [], [np.array(logits, np.float32)])
        assert prediction["prediction"] == word
        assert prediction["label"] == ["fine", "good"]
        assert list(prediction["probabilities"]) == ["good", "fine", "poor"]
        assert fitted.scores([EXAMPLE], [prediction]) == {"word_f1": score, "exact_match": score}


def test_other_formats_are_refused() -> None:
    other = dataclasses.replace(EXAMPLE, texts={"question": "a", "context": "b"})
    with pytest.raises(ConfigError, match="has no text 'query' with a gap"):
        decode(Cloze, TASK).check([other], [other])


def passages(path: Path, number: int, seed: int) -> str:
    """Passages with a good and a bad word as entities; the good one is right."""
    chosen, rows = random.Random(seed), []
    for _ in range(number):
        pair = [chosen.choice(GOOD), chosen.choice(BAD)]
        chosen.shuffle(pair)
        words = chosen.choices(FILLERS, k=3)
        text = f"{words[0]} {pair[0]} {words[1]} {pair[1]} {words[2]}"
        places = [(text.index(word), text.index(word) + len(word) - 1) for word in pair]
        right = next(word for word in pair if word in GOOD)
        rows.append(
            {
                "passage": {"text": text, "entities": [{"start": first, "end": last} for first, last in places]},
                "qas": [{"query": "a @placeholder b", "answers": [{"text": right, "start": text.index(right)}]}],
            }
        )
    return lines(path, rows)


@pytest.mark.slow
def test_an_encoder_learns_it(tmp_path: Path) -> None:
    files = {"train": passages(tmp_path / "t.jsonl", 200, 1), "validation": passages(tmp_path / "v.jsonl", 16, 2)}
    tokenizer = tokenizer_artifact(tmp_path / "tokenizer")
    tuned = run_here(stage(ENCODER, files, TASK, epochs=4, context=24), {"tokenizer": tokenizer}, tmp_path / "tuned")
    scores = json.loads(Artifact(tuned.folder).path("scores.json").read_text())["scores"]
    assert scores["exact_match"]["values"][0] > 0.9, "chance is a half"
    assert scores["word_f1"]["values"] == pytest.approx(scores["exact_match"]["values"])

"""Frames and cuts of texts, windows of contexts, rates of layers: each against a slow rule or an example by hand."""

import dataclasses
import json
import random
import re
import time
from pathlib import Path

import numpy as np
import pytest
from tokenizers.processors import TemplateProcessing

from headrace.data_prep.tokenization.encode import Encoder
from headrace.pipeline.core.errors import ConfigError
from headrace.pipeline.core.settings import decode
from headrace.train.config import ModelConfig
from headrace.train.finetune.files.examples import AnswerSpan, Example
from headrace.train.finetune.network import layers_above
from headrace.train.finetune.tasks.sequences import Form, cut_lengths
from headrace.train.finetune.tasks.span import Spans, SpanTask, answer_tokens, widest_window, windows_of
from tests.train.finetune.small_tasks import ENCODER, words_tokenizer

CLS, SEP = 2, 3


def form(model: ModelConfig = ENCODER, context: int = 12) -> Form:
    return Form(Encoder(words_tokenizer()), model, context)


def test_a_pair_loses_tokens_as_in_bert() -> None:
    """The loop of run_classifier.py pops one token at a time."""
    chosen = random.Random(0)
    for _ in range(300):
        first, second, most = (chosen.randrange(20) for _ in range(3))
        a, b = list(range(first)), list(range(second))
        while len(a) + len(b) > most:
            (a if len(a) > len(b) else b).pop()
        assert cut_lengths([first, second], most) == [len(a), len(b)]


@pytest.mark.parametrize(
    ("stack", "one", "pair"),
    [
        ("encoder", [CLS, "a", "b", SEP], [CLS, "a", "b", SEP, "c", SEP]),
        ("decoder", [SEP, "a", "b", SEP], [SEP, "a", "b", SEP, "c", SEP]),
        ("encoder_decoder", ["a", "b", SEP], ["a", "b", SEP, "c", SEP]),
    ],
)
def test_each_stack_reads_texts_in_its_frame(stack, one, pair) -> None:
    """The document ends with [SEP] in this tokenizer."""
    made = form(dataclasses.replace(ENCODER, stack=stack))
    ids = {letter: int(made.ids([letter])[0][0]) for letter in "abc"}
    for texts, expected in ((["a b"], one), (["a b", "c"], pair)):
        found = made.framed(made.ids(texts))
        assert found.tokens.tolist() == [ids.get(token, token) for token in expected]
    assert found.segments.tolist() == [0] * (len(pair) - 2) + [1, 1]


def test_the_template_of_the_tokenizer_comes_first() -> None:
    tokenizer = words_tokenizer()
    tokenizer.post_processor = TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] [SEP] $B [SEP]", special_tokens=[("[CLS]", CLS), ("[SEP]", SEP)]
    )
    made = Form(Encoder(tokenizer), dataclasses.replace(ENCODER, segments=1), 12)
    found = made.framed(made.ids(["a", "b"]))
    assert found.tokens[[0, 2, 3, 5]].tolist() == [CLS, SEP, SEP, SEP]
    assert not found.segments.any()


def test_windows_cover_a_context_and_a_token_counts_where_it_has_most_context() -> None:
    windows = windows_of(10, capacity=5, stride=3)
    assert windows == [(0, 5), (3, 5), (6, 4)]
    assert [widest_window(windows, token) for token in range(10)] == [0, 0, 0, 0, 1, 1, 1, 2, 2, 2]
    assert windows_of(4, capacity=5, stride=3) == [(0, 4)]


def test_the_widest_window_is_found_among_those_that_hold_the_token() -> None:
    """As by a look at all windows; for 20,000 windows that would take minutes."""

    def plain(windows, token):
        held = [(n, first, size) for n, (first, size) in enumerate(windows) if first <= token < first + size]
        return max(held, key=lambda one: (min(token - one[1], one[1] + one[2] - 1 - token) + 0.01 * one[2], -one[0]))[0]

    for tokens, room, stride in ((30, 7, 1), (30, 7, 3), (31, 8, 7), (29, 7, 9)):
        windows = windows_of(tokens, room, stride)
        found = [widest_window(windows, token) for token in range(tokens)]
        assert found == [plain(windows, token) for token in range(tokens)]
    windows, start = windows_of(200_000, capacity=20, stride=10), time.process_time()
    for token in range(0, 200_000, 10):
        widest_window(windows, token)
    assert time.process_time() - start < 10


def test_an_answer_is_found_in_the_tokens_and_given_back_from_them() -> None:
    made = form(context=12)
    context, question = "a b good c d e f g h", "a b"
    example = Example(id="1", texts={"question": question, "context": context}, answers=(AnswerSpan("good c", 4),))
    _, offsets = made.encoder.encode_with_offsets(context)
    assert answer_tokens(example, offsets) == (2, 3)
    task = Spans(form=made, task=SpanTask(stride=3), may_be_empty=True)
    rows = task.rows([example], is_training=True)
    assert [row.targets["answers"].tolist() for row in rows] == [[6, 7], [0, 0]]  # 4 tokens before the context
    outputs = [np.zeros((12, 2)), np.zeros((12, 2))]
    outputs[0][6, 0] = outputs[0][7, 1] = 5.0
    (found,) = task.predictions([example], rows, outputs)
    assert (found["prediction"], found["score"]) == ("good c", 10.0)
    assert task.scores([example], [found]) == {"f1": 1.0, "exact_match": 1.0}
    for logits in outputs:
        logits[0] = 6.0
    assert task.predictions([example], rows, outputs)[0]["prediction"] == ""


def test_an_answer_in_a_field_is_looked_for_in_the_text(tmp_path: Path) -> None:
    rows = [{"q": "Who?", "t": "He saw Ann.", "a": answer} for answer in ("Ann", "Bob", "")]
    (tmp_path / "own.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    span = decode(SpanTask, {"type": "span", "format": {"type": "fields", "texts": ["q", "t"], "answer": "a"}})
    found, dropped = span.read([str(tmp_path / "own.jsonl")])
    assert [example.answers for example in found] == [(AnswerSpan("Ann", 7),), (AnswerSpan("Bob"),), ()]
    assert dropped == {}
    assert span.trainable(found) == ([found[0], found[2]], {"answer_elsewhere": 1})
    wrong = "finetune.task.texts: the question needs a second text to find its answer in, and the format has one text"
    with pytest.raises(ConfigError, match=re.escape(wrong)):
        dataclasses.replace(span, texts=("q",)).read([str(tmp_path / "own.jsonl")])


def test_a_layer_counts_those_above_it() -> None:
    """ELECTRA: the task has rate 1, the last layer decay, the embeddings decay to the power of layers + 1."""
    found = {
        name: layers_above(name, ENCODER)
        for name in ("head.output.weight", "backbone.blocks.1.mlp.up.bias", "backbone.blocks.0.mlp.up.bias")
    }
    assert list(found.values()) == [0, 1, 2]
    assert layers_above("backbone.embedding.weight", ENCODER) == layers_above("backbone.positions.weight", ENCODER) == 3
    two = dataclasses.replace(ENCODER, stack="encoder_decoder", encoder_layers=3)
    assert layers_above("backbone.encoder.blocks.2.mlp.up.bias", two) == 3
    assert layers_above("backbone.embedding.weight", two) == 6

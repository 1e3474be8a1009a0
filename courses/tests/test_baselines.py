"""Baselines on a real run: n-gram models and an LSTM, their training rows, their losses, the difference to a model."""

import dataclasses
import math
from pathlib import Path

import numpy as np
import pytest
import torch

from headrace.pipeline.core.errors import ConfigError
from headrace.train.data.rows import Rows
from headrace.train.evaluation.benchmarks.base import Sources
from headrace.train.evaluation.held_out_documents import HeldOut
from headrace.train.evaluation.scoring import score
from headrace_courses.baselines import LstmBaseline, Ngram, training_pieces
from headrace_courses.kneser_ney import KneserNey
from headrace_courses.lstm import Lstm, nats_of
from tests.train.small_models import WINDOW_TOKENS, Uniform, model_of


def test_it_counts_training_rows_and_predicts_held_out_documents(line, encoder):
    held_out, size = HeldOut(line["tokens"], line["packed"], encoder), encoder.vocabulary_size
    sources = Sources(Path(), held_out, "", size, encoder.end_of_text, tokenizer=encoder)
    entry = score("ngram", Ngram(orders=(1, 3)), sources, None, model_of(Uniform(size), encoder)).scores
    found = {(metric.name, metric.group): metric for metric in entry.metrics}
    rows = Rows(line["packed"], line["tokens"], "train")
    model = KneserNey([piece for row in range(len(rows)) for piece in rows.pieces(row)], size, 3)
    losses = [-model.log_probs(document.spans, 3) for document in held_out.documents]
    expected = sum(map(np.sum, losses)) / sum(map(len, losses))
    assert found["loss", ""].value == found["loss", "order_3"].value == pytest.approx(expected, abs=1e-9)
    assert expected < found["loss", "order_1"].value < math.log(size)
    assert found["model_minus_baseline", ""].value == pytest.approx(math.log(size) - expected, abs=1e-5)
    assert found["perplexity", ""].value == pytest.approx(math.exp(expected))
    assert entry.items == len(held_out.documents)


def test_a_part_of_the_rows(line, encoder):
    held_out = HeldOut(line["tokens"], line["packed"], encoder)
    whole = training_pieces(held_out, None)
    part = training_pieces(held_out, 3 * WINDOW_TOKENS - 1)
    assert sum(map(len, part)) <= 4 * WINDOW_TOKENS < sum(map(len, whole))
    assert all((one == other).all() for one, other in zip(part, whole, strict=False))


def test_an_lstm_learns_the_training_rows(line, encoder):
    held_out, size = HeldOut(line["tokens"], line["packed"], encoder), encoder.vocabulary_size
    sources = Sources(Path(), held_out, "", size, encoder.end_of_text, tokenizer=encoder)
    small = LstmBaseline(layers=1, width=32, train_tokens=16_000, batch_tokens=256, learning_rate=0.02)
    losses = []
    for benchmark in (dataclasses.replace(small, train_tokens=256), small):
        (loss, perplexity, *_) = score(
            "lstm", benchmark, sources, None, model_of(Uniform(size), encoder)
        ).scores.metrics
        assert (loss.name, loss.group, perplexity.value) == ("loss", "", pytest.approx(math.exp(loss.value)))
        losses.append(loss.value)
    assert losses[0] == pytest.approx(math.log(size), abs=0.3)
    assert losses[1] < losses[0] - 1.5


@torch.inference_mode()
def test_an_lstm_predicts_as_token_by_token():
    """Padding and batches change nothing; each piece begins with an empty state."""
    torch.manual_seed(0)
    model, draws = Lstm(20, 16, 2).eval(), np.random.default_rng(0)
    pieces = [draws.integers(0, 20, length) for length in (5, 9, 2)]
    expected = []
    for piece in pieces:
        state, nats = None, 0.0
        for token, following in zip(piece[:-1].tolist(), piece[1:].tolist(), strict=True):
            x_1TM, state = model.layers(model.embedding(torch.tensor([[token]])) * 4.0, state)
            nats -= float((x_1TM[0, 0] @ model.embedding.weight.T).log_softmax(0)[following])
        expected.append(nats)
    assert nats_of(model, pieces, batch_pieces=2) == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize("orders", [(5, 3), (3, 3)])
def test_orders_rise(orders):
    with pytest.raises(ConfigError) as caught:
        Ngram(orders=orders)
    assert str(caught.value) == (
        f"evaluation.benchmarks: orders is {list(orders)}; give rising numbers, such as [3,4,5]"
    )

"""The n-gram baseline on a real run: its training rows, its losses, and the difference to a model."""

import math
from pathlib import Path

import numpy as np
import pytest

from headrace.pipeline.core.errors import ConfigError
from headrace.train.data.rows import Rows
from headrace.train.evaluation.benchmarks.base import Sources
from headrace.train.evaluation.benchmarks.ngram import Ngram
from headrace.train.evaluation.held_out import HeldOut
from headrace.train.evaluation.kneser_ney import KneserNey
from headrace.train.evaluation.scoring import score
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
    assert found["model_loss_minus", ""].value == pytest.approx(math.log(size) - expected, abs=1e-5)
    assert found["perplexity", ""].value == pytest.approx(math.exp(expected))
    assert entry.items == len(held_out.documents)


def test_a_part_of_the_rows(line, encoder):
    held_out = HeldOut(line["tokens"], line["packed"], encoder)
    whole = held_out.training_pieces(None)
    part = held_out.training_pieces(3 * WINDOW_TOKENS - 1)
    assert sum(map(len, part)) <= 4 * WINDOW_TOKENS < sum(map(len, whole))
    assert all((one == other).all() for one, other in zip(part, whole, strict=False))


@pytest.mark.parametrize("orders", [(), (5, 3), (3, 3)])
def test_orders_rise(orders):
    with pytest.raises(ConfigError) as caught:
        Ngram(orders=orders)
    assert str(caught.value) == (
        f"evaluation.benchmarks: orders is {list(orders)}; give rising numbers, such as [3,4,5]"
    )

"""Another objective, with two terms of different counts, through the engine and the whole loop."""

import dataclasses
import itertools
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from torch.nn import functional

from headrace.pipeline.core.errors import ConfigError
from headrace.pipeline.core.metrics_file import read_metrics
from headrace.train.data.order import Order, row_generator
from headrace.train.data.rows import Rows
from headrace.train.model.transformer import Transformer, initialize
from headrace.train.objectives.base import Reader, Vocabulary, combined
from headrace.train.objectives.causal import Causal
from tests.train import updates
from tests.train.objectives import two_terms
from tests.train.objectives.two_terms import LEARNING_RATE, STAGES, WORLDS, TwoTerms
from tests.train.test_weights import MODEL, stage

ROOT = Path(__file__).parents[3]


def means(model: Transformer, whole) -> dict[str, torch.Tensor]:
    """The mean of each term in plain PyTorch."""
    logits = model(*(torch.as_tensor(whole[name]) for name in ("inputs", "positions", "documents"))).flatten(0, 1)
    targets = {"nll": "targets", "copy": "copies"}
    return {
        term: functional.cross_entropy(logits, torch.as_tensor(whole[name]).flatten()) for term, name in targets.items()
    }


def test_gradient_and_losses_are_plain_pytorchs_on_one_and_two_ranks(tmp_path):
    command = [sys.executable, "-m", "tests.train.objectives.two_terms", str(tmp_path)]
    environment = os.environ | {"DS_ACCELERATOR": "cpu", "SLURM_CPUS_PER_TASK": "1"}
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, env=environment)
    assert done.returncode == 0, done.stderr
    model, whole = updates.first_model("gpt2-tied"), two_terms.batch()
    counts = updates.counts(TwoTerms(), whole)
    assert 0 < counts["copy"] < counts["nll"]
    expected = means(model, whole)
    (expected["nll"] + 0.25 * expected["copy"]).backward()
    gradients = [parameter.grad for parameter in model.parameters()]
    norm = torch.nn.utils.get_total_norm(gradients).item()
    for world, zero_stage in itertools.product(WORLDS, STAGES):
        found = torch.load(tmp_path / f"{world}-{zero_stage}.pt")
        assert found["norm"] == pytest.approx(norm, rel=1e-6)
        for term, mean in expected.items():
            assert found["sums"][term] / counts[term] == pytest.approx(mean.item(), rel=1e-6)
        for (name, parameter), gradient in zip(model.named_parameters(), gradients, strict=True):
            after = parameter.detach() - LEARNING_RATE * gradient
            torch.testing.assert_close(found["weights"][name], after, rtol=0, atol=1e-6)


def test_the_loop_trains_and_logs_both_terms(tmp_path, inputs, run_stage):
    weights = dataclasses.replace(stage(steps=4, validate_every=4), objective=TwoTerms())
    rows = read_metrics(run_stage(weights, inputs, tmp_path / "weights").path("metrics.jsonl"))
    for row in rows:
        assert row["loss"] == pytest.approx(row["loss:nll"] + 0.25 * row["loss:copy"], rel=1e-9)
    last = rows[-1]
    assert last["validation_loss"] == pytest.approx(
        last["validation_loss:nll"] + 0.25 * last["validation_loss:copy"], rel=1e-9
    )
    assert last["bits_per_byte"] == pytest.approx(last["validation_loss:nll"] * 1.4427 * 1.01, rel=0.02)
    model, train_rows = Transformer(MODEL, 257), Rows(inputs["packed"], inputs["tokens"], "train")
    initialize(model, 0)
    reader = Reader(TwoTerms(), Vocabulary(257, {}), 0, "training")
    first = reader.read(train_rows, Order(0, len(train_rows)).batch(0, 8).tolist(), 0)
    with torch.no_grad():
        expected = means(model, first.arrays)
    assert rows[0]["loss:nll"] == pytest.approx(expected["nll"].item(), rel=1e-5)
    assert rows[0]["loss:copy"] == pytest.approx(expected["copy"].item(), rel=1e-5)
    assert rows[0]["tokens_seen"] == first.counts["nll"] == first.tokens


def test_random_numbers_of_a_row_depend_on_seed_purpose_and_position_alone(inputs):
    rows = Rows(inputs["packed"], inputs["tokens"], "train")
    reader = Reader(TwoTerms(), Vocabulary(257, {}), 3, "training")
    together = reader.read(rows, [0, 1, 2], 40).arrays["copies"]
    alone = [reader.read(rows, [row], 40 + row).arrays["copies"][0] for row in range(3)]
    assert np.array_equal(together, np.stack(alone))
    draws = [
        row_generator(seed, purpose, position).integers(2**60)
        for seed, purpose, position in itertools.product((0, 1), ("training", "validation"), (0, 1, 2**60))
    ]
    assert len(set(draws)) == len(draws)
    assert row_generator(1, "training", 5).random() == 0.9726201208388638


def test_without_rows_there_is_padding_with_nothing_to_predict(inputs):
    rows = Rows(inputs["packed"], inputs["tokens"], "train")
    read = Reader(TwoTerms(), Vocabulary(257, {}), 3, "training").read(rows, [], 0)
    assert (read.counts, read.tokens) == ({"nll": 0, "copy": 0}, 0)
    assert {name: array.shape for name, array in read.arrays.items()} == dict.fromkeys(read.arrays, (1, 64))


def test_a_term_without_a_value_adds_nothing():
    assert combined({"a": 1.0, "b": 9.0}, {"a": 6.0, "b": 0.0}, {"a": 3, "b": 0}) == 2.0


def test_a_token_that_the_tokenizer_lacks_is_named():
    class Masked(Causal):
        def special_tokens(self) -> tuple[str, ...]:
            return ("<mask>",)

    assert Vocabulary.of(Masked(), {"<mask>": 4}, 9) == Vocabulary(9, {"<mask>": 4})
    with pytest.raises(ConfigError) as error:
        Vocabulary.of(Masked(), {"a": 0}, 9)
    wrong = "objective: needs the token '<mask>', which the tokenizer lacks; train or give a tokenizer that has it"
    assert str(error.value) == wrong

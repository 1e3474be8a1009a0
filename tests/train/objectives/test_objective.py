"""Objectives with terms of different counts, through the engine and the whole loop."""

import dataclasses
import functools
import itertools
import math
from pathlib import Path

import numpy as np
import pytest
import torch
from torch.nn import functional

from headrace.pipeline.core.errors import ConfigError
from headrace.pipeline.core.metrics_file import read_metrics
from headrace.train.data.batches import IGNORED, EncoderTokens
from headrace.train.data.order import Order, row_generator
from headrace.train.data.rows import Rows
from headrace.train.model.initialization import initialize
from headrace.train.model.transformer import Transformer
from headrace.train.objectives.base import Vocabulary, bits_per_byte, combined
from headrace.train.objectives.causal import Causal
from headrace.train.objectives.row_reader import Reader
from tests.train import fork_server, updates
from tests.train.objectives import two_terms
from tests.train.objectives.two_terms import LEARNING_RATE, WORLDS, TwoTerms
from tests.train.test_weights import MODEL, stage


def means(model: Transformer, whole) -> dict[str, torch.Tensor]:
    """The mean of each term in plain PyTorch."""
    logits = model(*(torch.as_tensor(whole[name]) for name in ("inputs", "positions", "documents"))).flatten(0, 1)
    targets = {"nll": "targets", "copy": "copies"}
    return {
        term: functional.cross_entropy(logits, torch.as_tensor(whole[name]).flatten()) for term, name in targets.items()
    }


def masked_mean(model: Transformer, whole) -> dict[str, torch.Tensor]:
    """The mean over the masked positions in plain PyTorch, from all logits."""
    rows = [whole[name] for name in ("inputs", "positions", "documents")]
    logits_BTV = model(*rows, segments_BT=whole.get("segments"))
    labels_BT = torch.full(whole["inputs"].shape, -100)
    rows, columns = (whole["targets"] != -100).nonzero(as_tuple=True)
    labels_BT[rows, whole["masked"][rows, columns]] = whole["targets"][rows, columns]
    return {"mlm": functional.cross_entropy(logits_BTV.flatten(0, 1), labels_BT.flatten())}


def pair_means(model: Transformer, whole) -> dict[str, torch.Tensor]:
    """The means over the masked positions and over the pairs in plain PyTorch."""
    places = [whole[name] for name in ("positions", "documents")]
    x_BTM = model.attended(model.embedding(whole["inputs"]), *places, segments_BT=whole["segments"])
    rows, slots = (whole["labels"] != -100).nonzero(as_tuple=True)
    pooled_NM = model.pair_head.pooler(x_BTM[rows, whole["firsts"][rows, slots]]).tanh()
    logits_N2, labels_N = model.pair_head.output(pooled_NM), whole["labels"][rows, slots]
    errors = (logits_N2.detach()[:, 1] > logits_N2.detach()[:, 0]) != labels_N.bool()
    pairs = functional.cross_entropy(logits_N2, labels_N)
    return masked_mean(model, whole) | {"next_sentence": pairs, "errors": errors.float().mean()}


def target_mean(model: Transformer, whole, term: str = "denoising") -> dict[str, torch.Tensor]:
    """The mean over the decoder's targets in plain PyTorch."""
    source = EncoderTokens(*(whole[f"encoder_{name}"] for name in ("inputs", "positions", "documents")))
    logits_BTV = model(*(whole[name] for name in ("inputs", "positions", "documents")), source=source)
    return {term: functional.cross_entropy(logits_BTV.flatten(0, 1), whole["targets"].flatten())}


def one_stack_mean(model: Transformer, whole, term: str = "denoising") -> dict[str, torch.Tensor]:
    """The mean over the targets after the prefixes in plain PyTorch."""
    rows = [whole[name] for name in ("inputs", "positions", "documents")]
    logits_BTV = model(*rows, prefix_BT=whole["prefix"].bool())
    return {term: functional.cross_entropy(logits_BTV.flatten(0, 1), whole["targets"].flatten())}


prefix_mean = functools.partial(one_stack_mean, term="nll")
bart_mean = functools.partial(target_mean, term="reconstruction")


PLAIN = (
    means, masked_mean, pair_means, target_mean, target_mean, bart_mean, target_mean,
    prefix_mean, one_stack_mean,
)  # fmt: skip


@pytest.fixture(scope="module")
def updated(tmp_path_factory) -> Path:
    """The folder of all updates on real ranks."""
    folder = tmp_path_factory.mktemp("updated")
    done = fork_server.run("tests.train.objectives.two_terms", str(folder))
    assert done.returncode == 0, done.stderr
    return folder


@pytest.mark.slow
@pytest.mark.parametrize(
    ("case", "plain"),
    list(zip(two_terms.CASES, PLAIN, strict=True)),
    ids=[case.name for case in two_terms.CASES],
)
def test_gradient_and_losses_are_plain_pytorchs_on_one_and_two_ranks(updated, case, plain):
    model, whole = case.model(), case.batch()
    counts = updates.counts(case.objective, whole)
    trained = [counts[term] for term, weight in case.objective.weights.items() if weight]
    assert len({*trained} - {0}) == len(trained)
    expected = plain(model, whole)
    sum(case.objective.weights[term] * mean for term, mean in expected.items()).backward()
    gradients = [parameter.grad for parameter in model.parameters()]
    norm = torch.nn.utils.get_total_norm(gradients).item()
    for world, zero_stage in itertools.product(WORLDS, case.stages):
        found = torch.load(updated / f"{case.name}-{world}-{zero_stage}.pt")
        assert found["norm"] == pytest.approx(norm, rel=1e-6)
        for term, mean in expected.items():
            assert found["sums"][term] / counts[term] == pytest.approx(mean.item(), rel=1e-6)
        for (name, parameter), gradient in zip(model.named_parameters(), gradients, strict=True):
            after = parameter.detach() - LEARNING_RATE * gradient
            torch.testing.assert_close(found["weights"][name], after, rtol=0, atol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("world", WORLDS)
@pytest.mark.parametrize("name", ["albert", "encoder-decoder", "shared-stacks"])
def test_stage_3_partitions_the_feed_forward_matrices(updated, name, world):
    """DeepSpeed keeps parameters of less than 100,000 values whole: a test without larger ones partitions nothing."""
    partitioned = torch.load(updated / f"{name}-{world}-3.pt")["partitioned"]
    assert {part.split(".mlp.")[1] for part in partitioned} == {"up.weight", "down.weight"}


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


def test_rows_of_padding_fill_a_batch_and_count_for_nothing(inputs):
    rows = Rows(inputs["packed"], inputs["tokens"], "train")
    reader = Reader(TwoTerms(), Vocabulary(257, {}), 3, "training")
    two, four = reader.read(rows, [0, 1], 7), reader.read(rows, [0, 1], 7, least_rows=4)
    assert (four.counts, four.tokens) == (two.counts, two.tokens)
    for name, array in four.arrays.items():
        assert len(array) == 4
        assert np.array_equal(array[:2], two.arrays[name])
    assert (four.arrays["documents"][2:] == -1).all()
    assert rows.target_bytes([0, 1], np.ones(257, np.int64), 4)[2:].sum() == 0


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


def test_a_byte_costs_eight_bits_when_nothing_is_known():
    assert bits_per_byte(10 * math.log(256), 10) == pytest.approx(8)


def test_bytes_of_targets_count_where_there_is_a_target():
    targets = np.array([[3, 4, IGNORED], [5, IGNORED, 6]])
    assert Causal().text_bytes({"targets": targets}, np.array([[1, 2, 4], [8, 16, 32]])) == {"nll": 43}

"""The memory plan: by hand, as a whole, and compared with real updates."""

import dataclasses
import json

import pytest

from headrace.train.config import ModelConfig
from headrace.train.cost.memory import Footprint, advice
from headrace.train.engine.optimizers.adafactor import Adafactor
from headrace.train.engine.optimizers.adamw import AdamW
from headrace.train.engine.optimizers.muon import Muon
from headrace.train.engine.optimizers.stable_adamw import StableAdamW
from headrace.train.training_config import Recompute, TrainingConfig, ZeroConfig
from tests.train import fork_server

MODEL = ModelConfig(layers=2, width=32, heads=4, kv_heads=4, context=64, mlp_width=64)

ADAMW = AdamW(learning_rate=1e-3)


def footprint(stage: int, ranks: int, precision: str = "bf16", **changes) -> Footprint:
    training = TrainingConfig(steps=1, batch_rows=64, precision=precision)
    zero = ZeroConfig(stage=stage)
    return Footprint(dataclasses.replace(MODEL, **changes), 1000, 64, training, ADAMW, zero, ranks, "cpu")


@pytest.mark.parametrize(
    ("stage", "precision", "bytes_per_parameter"),
    [(0, "fp32", (4, 0, 8, 4)), (1, "bf16", (2, 4 / 8, 8 / 8, 2)), (2, "bf16", (2, 4 / 8, 8 / 8, 2 / 8)),
     (3, "bf16", (2 / 8 + 2, 4 / 8, 8 / 8, 2 / 8)), (2, "fp32", (4, 4 / 8, 8 / 8, 4 / 8))],
)  # fmt: skip
def test_the_states_by_the_table_of_zero(stage, precision, bytes_per_parameter):
    """Rajbhandari et al. 2020, figure 1, with 8 ranks."""
    memory = footprint(stage, 8, precision).memory(1)
    states = (memory.weights, memory.master_weights, memory.optimizer_states, memory.gradients)
    assert states == pytest.approx([MODEL.parameters(1000) * n for n in bytes_per_parameter], rel=0.001)


def test_the_states_of_other_optimizers_by_hand():
    """On 8 ranks at stage 1, per layer: 2 · 64² hidden values in attention and feed-forward layer. Muon has one moment
    of them; Adafactor has none of any matrix, but the sums of all rows and columns on every rank."""
    parameters, hidden = MODEL.parameters(1000), 2 * (4 * 32 * 32 + 2 * 32 * 64)
    vectors = parameters - hidden - 1064 * 32
    sums = (1000 + 32) + (64 + 32) + 2 * (4 * (32 + 32) + 2 * (32 + 64))
    expected = {
        StableAdamW: parameters,
        Muon: parameters - hidden / 2,
        Adafactor: vectors / 2 + 4 * sums,
    }
    for optimizer, values in expected.items():
        case = dataclasses.replace(footprint(1, 8), optimizer=optimizer(learning_rate=1e-3))
        assert case.memory(1).optimizer_states == pytest.approx(values, abs=1)


@pytest.mark.parametrize(
    ("stage", "precision", "bytes_per_parameter"),
    [
        (1, "bf16", (6, 4)),
        (2, "bf16", (6 / 8, 0)),
        (3, "bf16", (4 / 8, 4 / 8)),
        (1, "fp16", (4, 4 / 8)),
        (1, "fp32", (4, 4 / 8)),
    ],
)
def test_sums_of_gradients_in_fp32(stage, precision, bytes_per_parameter):
    """Gradients, and their copies in the update, as DeepSpeed keeps them on 8 ranks."""
    case = footprint(stage, 8, precision)
    memory = dataclasses.replace(case, training=dataclasses.replace(case.training, gradient_sums="fp32")).memory(1)
    expected = [MODEL.parameters(1000) * n for n in bytes_per_parameter]
    assert (memory.gradients, memory.update) == pytest.approx(expected, rel=0.001)


@pytest.mark.parametrize(("device", "masks"), [("cuda", 0), ("cpu", 3)])
def test_ranks_that_compute_rows_together_have_parts_of_activations(device, masks):
    """Besides, they have what attention reads twice, and on a CPU each the mask of whole rows."""
    alone = dataclasses.replace(footprint(3, 8, "bf16"), device=device)
    together = dataclasses.replace(alone, training=dataclasses.replace(alone.training, sequence_ranks=4))
    for name in ("weights", "gradients"):
        assert getattr(together.memory(4), name) == getattr(alone.memory(4), name)
    more = 2 * 4 * 64 * MODEL.layers * (MODEL.width + masks * 64)
    assert together.memory(4).activations * 4 == alone.memory(4).activations + more
    share = alone.training.batch_rows // 8
    assert (alone.largest_micro_rows(1e15), together.largest_micro_rows(1e15)) == (share, 4 * share)


def offloaded(case: Footprint, **training) -> Footprint:
    training = dataclasses.replace(case.training, **training)
    return dataclasses.replace(case, training=training, zero=dataclasses.replace(case.zero, offload="optimizer"))


@pytest.mark.parametrize(
    ("stage", "sums", "on_the_gpu", "on_the_cpu"),
    [
        (1, "precision", (2, 2), (18 / 8, 2)),
        (2, "precision", (0, 2), (20 / 8, 2)),
        (3, "precision", (0, 0), (18 / 8, 0)),
        (1, "fp32", (4 + 4 / 8, 2), (18 / 8, 2)),
        (2, "fp32", (4 / 8, 2), (18 / 8, 2)),
        (3, "fp32", (0, 0), (20 / 8, 0)),
    ],
)
def test_states_in_cpu_memory(stage, sums, on_the_gpu, on_the_cpu):
    """bf16 on 8 ranks, several micro-batches: bytes of gradients on the GPU and of all in CPU memory, of a parameter
    and of a value of the largest matrix, the embedding."""
    case = offloaded(footprint(stage, 8), gradient_sums=sums)
    memory = case.memory(1)
    for found, (of_parameter, of_largest) in ((memory.gradients, on_the_gpu), (memory.cpu, on_the_cpu)):
        assert found == pytest.approx(MODEL.parameters(1000) * of_parameter + 32_000 * of_largest, rel=0.001)
    assert (memory.master_weights, memory.optimizer_states, memory.update) == (0, 0, 0)


def recomputed(case: Footprint, recompute: Recompute = "full") -> Footprint:
    return dataclasses.replace(case, training=dataclasses.replace(case.training, recompute=recompute))


def test_recomputation_keeps_the_inputs_of_layers():
    """After the last layer the norm's input and output; one layer's activations come back in its backward pass, and
    half of what its feed-forward layer kept is gone by then."""
    kept, again = footprint(1, 1, "fp32"), recomputed(footprint(1, 1, "fp32"))
    assert again.activation_bytes_per_token() == 2 * 4 * 32 + 4 * 2 * 32
    layer = 4 * (2 * (32 + 32) + 3 * 32 + 32 + 4 + 64 + 2 * 64)
    more = again._backward_bytes_per_row() - kept._backward_bytes_per_row()
    assert more == 64 * (layer - 4 * 64)


def test_an_encoder_keeps_its_last_vectors_at_targets_alone():
    """With norms after each part none follows the layers; a narrow embedding is normalized, and read by what widens it.
    Here and in a generator 16 of 64 positions are targets, in the encoder of two stacks all are read."""
    ends = {"norm_place": "post", "embedding_norm": True}
    narrow = footprint(1, 1, "fp32", stack="encoder", **ends, embedding_width=8, output_transform=True)
    case = recomputed(dataclasses.replace(narrow, row_targets=16))
    assert case.activation_bytes_per_token() == 2 * 4 * 32 + 2 * 4 * 8 + 4 * 32 // 4
    two = recomputed(dataclasses.replace(footprint(1, 1, "fp32", stack="encoder_decoder", **ends), row_targets=16))
    assert two._stacks[0].activation_bytes_per_token() == 2 * 4 * 32 + 4 * 32 + 4 * 32


@pytest.mark.parametrize(("dropout", "attention"), [(0.0, 4 * 32 + 4 * 4), (0.1, 0)])
def test_selective_recomputation_keeps_products(dropout, attention):
    """In addition to the input: q, k, v, both outputs and the inner values, and what attention read and its sum, unless
    dropout makes attention products of its own."""
    case = recomputed(footprint(1, 1, "fp32", dropout=dropout), "selective")
    products = 4 * (3 * 32 + 2 * 32 + 64) + attention
    assert case.activation_bytes_per_token() == 2 * (4 * 32 + products) + 4 * 2 * 32
    more = recomputed(case)._backward_bytes_per_row() - case._backward_bytes_per_row()
    assert more == 64 * products


def test_the_advice_names_what_makes_it_fit():
    case = footprint(1, 1, "fp32", layers=12)
    needed = case.memory(64).peak
    assert advice(case, 64, needed) == ""
    half = case.memory(32).peak
    for memory_bytes, recompute in ((0.8 * needed, "selective"), (half, "full")):
        assert advice(case, 64, memory_bytes) == (
            f"give training.micro_batch_rows=32, or training.recompute={recompute}, or more or larger GPUs"
        )
    assert "recompute=full" in advice(recomputed(case, "selective"), 64, half)
    shared = footprint(3, 1, "fp32", layers=12, shared_layers=True)
    assert "recompute=full" in advice(shared, 64, shared.memory(64).peak - 1), "selective is refused"
    for recompute, divides in (("none", True), ("selective", False)):
        shared = recomputed(footprint(1, 8, shared_layers=True), recompute)
        assert ("zero.stage=3" in advice(shared, 8, shared.memory(8).peak - 1)) == divides
    assert advice(case, 64, 1.0) == "give more or larger GPUs"
    alone = footprint(0, 1, "fp32", layers=12)
    alone = dataclasses.replace(alone, device="cuda")
    needed = offloaded(dataclasses.replace(recomputed(alone), zero=ZeroConfig(stage=1))).memory(1).peak
    assert advice(alone, 1, needed) == (
        "give zero.offload=optimizer zero.stage=1 training.recompute=full, or more or larger GPUs"
    )
    parted = footprint(1, 8, "bf16", layers=12)
    assert advice(parted, 8, parted.memory(1).peak - 1) == (
        "give training.recompute=selective training.micro_batch_rows=1, or zero.stage=3 training.micro_batch_rows=1, "
        "or more or larger GPUs"
    )


def test_the_activations_of_a_layer_by_hand():
    """fp32, per position: both norms' inputs and outputs, q, k, v, attention's output, its sum, the mask's row, and
    two values for each inner unit; after the last layer a norm."""
    layer = 4 * (2 * (32 + 32) + 3 * 32 + 32 + 4 + 64 + 2 * 64)
    assert footprint(1, 1, "fp32").activation_bytes_per_token() == 2 * layer + 4 * 2 * 32


def test_an_encoder_has_logits_of_its_masked_positions_alone():
    """At most 7 of 64 positions: their gradients of 32 values and the logits of 5,000 tokens, with a gradient each."""
    encoder = dataclasses.replace(footprint(1, 1, "fp32", stack="encoder"), vocabulary=5000, row_targets=7)
    assert encoder.memory(100).output_layer == 4 * (700 * 32 + 5000 * 32) + 700 * 5000 * 8


def test_a_padded_vocabulary_takes_a_copy_of_the_weight():
    """1,000 tokens become 1,024: a copy of all, and 24 more in the gradient and in the logits of 64 positions."""
    plain = footprint(1, 1, "fp32")
    padded = dataclasses.replace(plain, training=dataclasses.replace(plain.training, pad_vocabulary="on"))
    more = padded.memory(1).output_layer - plain.memory(1).output_layer
    assert more == 4 * 32 * (1024 + 24) + 64 * 24 * 8


def test_capped_logits_take_three_more_values_on_a_cpu():
    plain, capped = (
        dataclasses.replace(footprint(1, 1, "fp32", logit_cap=cap), vocabulary=5000).memory(100) for cap in (None, 30.0)
    )
    assert capped.output_layer - plain.output_layer == 6400 * 5000 * 12


def test_mixers_keep_states_or_windows_instead_of_what_attention_keeps():
    """fp32, per layer and position. An RNN keeps its outputs, an LSTM also gates and cells; a window of 3 keeps two
    more vectors, and two values for each inner unit of its feed-forward layer."""
    without = 4 * (2 * (32 + 32) + 2 * 64)
    for kept, mixer in (
        (32, {"mixer": "rnn"}),
        (8 * 32, {"mixer": "lstm"}),
        (2 * 32 + 2 * 64, {"mixer": "window_mlp", "window": 3}),
    ):
        case = footprint(1, 1, "fp32", positions="none", **mixer)
        assert case.activation_bytes_per_token() == 2 * (without + 4 * kept) + 4 * 2 * 32


@pytest.mark.parametrize(("activation", "inner_bytes"), [("gelu", 1), ("relu", 1 + 4)])
def test_further_places_of_dropout_keep_a_mask(activation, inner_bytes):
    """2 · 64 inner values and 32 after the last norm; the gradient of ReLU also needs its undropped output."""
    shape = {"dropout": 0.1, "activation": activation}
    plain, more = (
        footprint(1, 1, "fp32", **shape, dropout_places=places).activation_bytes_per_token()
        for places in ((), ("feed_forward", "last"))
    )
    assert more - plain == 2 * 64 * inner_bytes + 32


def test_only_what_a_micro_batch_holds_grows_with_it():
    one, four = (footprint(1, 2).memory(rows) for rows in (1, 4))
    assert four.activations == 4 * one.activations
    same = ("weights", "master_weights", "optimizer_states", "gradients", "update")
    assert [getattr(four, name) for name in same] == [getattr(one, name) for name in same]


def test_the_largest_micro_batch_fits_and_the_next_does_not():
    case = footprint(1, 2)
    share = [n for n in range(1, 33) if 32 % n == 0]
    peaks = {rows: case.memory(rows).peak for rows in share}
    for rows in share:
        assert case.largest_micro_rows(peaks[rows]) == rows
    assert case.largest_micro_rows(peaks[8] - 1) == 4
    assert case.largest_micro_rows(peaks[1] - 1) == 0


def ratio(module: str, *arguments: str) -> float:
    """Planned over measured, of one case of the benchmark."""
    done = fork_server.run(module, *arguments)
    assert done.returncode == 0, done.stderr
    return next(json.loads(line)["ratio"] for line in done.stdout.splitlines() if line.startswith("{"))


@pytest.mark.slow
@pytest.mark.parametrize(
    "case",
    [
        "states-0",
        "states-bf16-2",
        "offload-bf16-2",
        "llama",
        "modernbert",
        "muon-3",
        "gpt2-selective",
        "lstm",
    ],
)
def test_real_updates_take_what_was_counted(case):
    assert ratio("benchmarks.train.plan_memory", "--only", case) == pytest.approx(1, abs=0.1)


@pytest.mark.slow
def test_two_ranks_take_what_was_counted():
    assert ratio("tests.train.memory_ranks", "2", "states-3") == pytest.approx(1, abs=0.1)

"""Visibility and bias: the masks by hand, every way to compute attention against a naive loop, another visibility and
another bias through the whole model."""

import dataclasses
import itertools
import math

import pytest
import torch
from torch import Tensor

from headrace.pipeline.core.errors import ConfigError
from headrace.train.config import ModelConfig
from headrace.train.model import attention, execution
from headrace.train.model.attention import BlockAttention, CrossAttention, DenseAttention, EncoderOutput, WeightRecorder
from headrace.train.model.execution import prepare_blocks
from headrace.train.model.positions import POSITIONS, Positions
from headrace.train.model.transformer import Transformer
from headrace.train.model.visibility import (
    CAUSAL,
    Bias,
    Visibility,
    block_mask,
    in_layer,
    logit_mask,
    within_documents,
)
from headrace.train.training_config import TrainingConfig
from tests.train.model.test_transformer import GEMMA2, GPT1, LLAMA, VOCABULARY, random_model


def documents(positions: int, starts: list[list[int]], padding: int) -> Tensor:
    """Rows whose documents begin at ``starts``, the last ``padding`` positions of each left over."""
    rows = torch.zeros(len(starts), positions, dtype=torch.long)
    for row, places in zip(rows, starts, strict=True):
        for place in places:
            row[place:] += 1
    rows[:, positions - padding :] = -1
    return rows


def visible(visibility: Visibility, rows: int, positions: int) -> Tensor:
    return logit_mask(visibility, None, rows, 1, torch.arange(positions)[None], positions).visible_BNTS


def dense(
    visibility: Visibility, bias: Bias | None, rows: int, heads: int, positions: int, cap: float | None = None
) -> DenseAttention:
    return DenseAttention(logit_mask(visibility, bias, rows, heads, torch.arange(positions)[None], positions, cap))


def prefix(lengths_B: Tensor) -> Visibility:
    """All tokens of a row see its first ``lengths_B`` ones; the rest is causal."""
    return Visibility(lambda row, head, query, key: (key <= query) | (key < lengths_B[row]), looks_ahead=True)


def alibi(heads: int) -> Bias:
    """-(i - j) · 2^(-8 h / heads) for head h from 1 (Press et al. 2022)."""
    return lambda row, head, query, key: (key - query).abs() * -torch.exp2(-8 * (head + 1) / heads)


def windowed(window: int) -> ModelConfig:
    """A model whose layers all have a window."""
    return dataclasses.replace(LLAMA, attention_pattern=("window",), window=window)


def naive(q_BNTD: Tensor, k_BGTD: Tensor, v_BGTD: Tensor, sees, bias) -> Tensor:
    """One query at a time, in fp64."""
    output = torch.zeros_like(q_BNTD)
    rows, heads, positions, width = q_BNTD.shape
    for b in range(rows):
        for n in range(heads):
            g = n * k_BGTD.shape[1] // heads
            for i in range(positions):
                keys = [j for j in range(positions) if sees(b, i, j)]
                logits = [float(q_BNTD[b, n, i] @ k_BGTD[b, g, j]) / math.sqrt(width) + bias(n, i, j) for j in keys]
                weights = torch.tensor(logits, dtype=torch.float64).softmax(0)
                output[b, n, i] = (weights[:, None] * v_BGTD[b, g, keys].double()).sum(0)
    return output


def random_qkv(rows: int, positions: int, seed: int = 0) -> list[Tensor]:
    """Four query heads and two heads of keys and values."""
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(rows, heads, positions, 16, generator=generator) for heads in (4, 2, 2)]


PREFIX_LENGTHS = torch.tensor([3, 0])
LAYOUT = documents(9, [[5], []], padding=2)


@pytest.mark.parametrize("has_bias", [False, True])
@pytest.mark.parametrize("has_prefix", [False, True])
def test_every_way_to_compute_attention_is_the_naive_one(has_prefix, has_bias):
    def sees(b: int, i: int, j: int) -> bool:
        return (j <= i or (has_prefix and j < int(PREFIX_LENGTHS[b]))) and bool(LAYOUT[b, i] == LAYOUT[b, j])

    def added(n: int, i: int, j: int) -> float:
        return -abs(i - j) * 2.0 ** (-8 * (n + 1) / 4) if has_bias else 0.0

    qkv = random_qkv(2, 9)
    expected = naive(*qkv, sees, added)
    visibility = within_documents(prefix(PREFIX_LENGTHS) if has_prefix else CAUSAL, LAYOUT)
    bias = alibi(4) if has_bias else None
    mask = logit_mask(visibility, bias, 2, 4, torch.arange(9)[None], 9)
    with torch.no_grad(), torch.compiler.set_stance("force_eager"):
        blocks = BlockAttention(block_mask(visibility, 2, 4, 9, torch.device("cpu")), bias)
        other = BlockAttention(block_mask(visibility, 2, 4, 9, torch.device("cpu")), bias, kernel="flash")
        for way in (DenseAttention(mask), WeightRecorder(mask), blocks, other):
            torch.testing.assert_close(way.attend(*qkv, None), expected, rtol=0, atol=1e-5)


@torch.no_grad()
@torch.compiler.set_stance("force_eager")
def test_every_way_has_the_window_and_the_cap():
    """Logits are capped before the bias is added; distances are those inside a document."""

    def sees(b: int, i: int, j: int) -> bool:
        return j <= i and i - j < 3 and bool(LAYOUT[b, i] == LAYOUT[b, j])

    def capped_logit(logit: float, n: int, i: int, j: int) -> float:
        return 0.5 * math.tanh(logit / 0.5) - abs(i - j) * 2.0 ** (-8 * (n + 1) / 4)

    q_BNTD, k_BGTD, v_BGTD = random_qkv(2, 9)
    expected = torch.zeros_like(q_BNTD)
    for b, n, i in itertools.product(range(2), range(4), range(9)):
        keys = [j for j in range(9) if sees(b, i, j)]
        logits = [capped_logit(float(q_BNTD[b, n, i] @ k_BGTD[b, n // 2, j]) / 4, n, i, j) for j in keys]
        weights = torch.tensor(logits, dtype=torch.float64).softmax(0)
        expected[b, n, i] = (weights[:, None] * v_BGTD[b, n // 2, keys].double()).sum(0)
    visibility = in_layer(within_documents(CAUSAL, LAYOUT), "window", windowed(3))
    mask = logit_mask(visibility, alibi(4), 2, 4, torch.arange(9)[None], 9, 0.5)
    blocks = BlockAttention(block_mask(visibility, 2, 4, 9, torch.device("cpu")), alibi(4), 0.5)
    for way in (DenseAttention(mask), WeightRecorder(mask), blocks):
        torch.testing.assert_close(way.attend(q_BNTD, k_BGTD, v_BGTD, None), expected, rtol=0, atol=1e-5)


@torch.inference_mode()
def test_layers_see_what_the_pattern_says():
    weights = list(random_model(dataclasses.replace(GEMMA2, layers=3)).attention_weights(torch.arange(20)[None]))
    for layer, weights_BNTT in enumerate(weights):
        seen = torch.ones(20, 20).tril() - (torch.ones(20, 20).tril(-GEMMA2.window) if layer % 2 == 0 else 0)
        assert torch.equal((weights_BNTT > 0).int(), seen.int().expand_as(weights_BNTT))


@torch.inference_mode()
def test_layers_with_a_window_have_their_own_base_of_rotations():
    tokens = torch.arange(20)[None]
    arguments = (tokens, torch.arange(20)[None], torch.zeros_like(tokens))
    windows = {"attention_pattern": ("window",), "window": 9}
    own, same, other = (
        random_model(dataclasses.replace(LLAMA, **windows, **bases))(*arguments)
        for bases in ({"window_theta": 50.0}, {"rope_theta": 50.0}, {})
    )
    assert torch.equal(own, same)
    assert (own - other).abs().amax() > 1e-3


@torch.compiler.set_stance("force_eager")
def test_blocks_outside_the_window_are_skipped():
    visibility = in_layer(CAUSAL, "window", windowed(129))
    computed = block_mask(visibility, 1, 4, 512, torch.device("cpu")).to_dense()[0, 0]
    assert computed.int().tolist() == [[1, 0, 0, 0], [1, 1, 0, 0], [0, 1, 1, 0], [0, 0, 1, 1]]


@torch.compiler.set_stance("force_eager")
def test_heads_may_see_different_keys():
    """Even heads see all earlier keys, odd ones only the last 40: each has blocks of its own."""

    def sees(row: Tensor, head: Tensor, query: Tensor, key: Tensor) -> Tensor:
        return (key <= query) & ((head % 2 == 0) | (query - key < 40))

    computed = block_mask(Visibility(sees, by_head=True), 1, 2, 384, torch.device("cpu")).to_dense()[0]
    assert computed.int().tolist() == [[[1, 0, 0], [1, 1, 0], [1, 1, 1]], [[1, 0, 0], [1, 1, 0], [0, 1, 1]]]


class AlibiPositions(Positions):
    def bias(self) -> Bias:
        return alibi(self.config.heads)


def random_alibi(config, monkeypatch: pytest.MonkeyPatch) -> Transformer:
    """A model whose scheme ``learned`` is another one: its class and a line of the table is all that it takes."""
    monkeypatch.setitem(POSITIONS, "learned", AlibiPositions)
    return random_model(dataclasses.replace(config, positions="learned"))


@pytest.mark.parametrize("config", [GPT1, LLAMA], ids=["post-norm", "grouped"])
@torch.inference_mode()
def test_another_bias_and_visibility_go_through_the_model_and_its_cache(config, monkeypatch):
    """A whole row at once, and in pieces with a cache, give the same logits; weights follow the formula."""
    model = random_alibi(config, monkeypatch)
    assert not any(name.startswith("positions") for name, _ in model.named_parameters())
    tokens_BT = torch.randint(VOCABULARY, (2, 20), generator=torch.Generator().manual_seed(4))
    visibility = prefix(torch.tensor([6, 11]))
    positions_BT = torch.arange(20).expand(2, -1)
    expected = model(tokens_BT, positions_BT, torch.zeros_like(tokens_BT), None, visibility)
    cache, found = model.new_cache(2), []
    for part_BT in tokens_BT.split([11, 2, 7], 1):
        sizes_B = torch.full((2,), part_BT.shape[1])
        x_PM = model.extend(cache, part_BT.flatten(), sizes_B, visibility)
        found.append(model.logits(x_PM).unflatten(0, (2, -1)))
    torch.testing.assert_close(torch.cat(found, 1), expected, rtol=0, atol=1e-5)
    causal = model(tokens_BT, positions_BT, torch.zeros_like(tokens_BT))
    assert (causal - expected).abs().amax() > 1e-3
    weights_BNTT = next(iter(model.attention_weights(tokens_BT, visibility)))
    seen = visible(visibility, 2, 20).expand_as(weights_BNTT)
    assert torch.equal(weights_BNTT > 0, seen)


@torch.inference_mode()
def test_a_prefix_longer_than_a_chunk_of_queries_is_seen_from_its_start(monkeypatch):
    model = random_alibi(dataclasses.replace(LLAMA, context=300), monkeypatch)
    tokens_1T = torch.randint(VOCABULARY, (1, 300), generator=torch.Generator().manual_seed(4))
    visibility = prefix(torch.tensor([280]))
    expected = model(tokens_1T, torch.arange(300)[None], torch.zeros_like(tokens_1T), None, visibility)
    found = model.logits(model.extend(model.new_cache(1), tokens_1T[0], torch.tensor([300]), visibility))
    torch.testing.assert_close(found[None], expected, rtol=0, atol=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("bias", "shape", "cap"),
    [(None, LLAMA, None), (alibi(4), LLAMA, None), (alibi(4), windowed(90), 0.5)],
    ids=["no-bias", "alibi", "window-cap"],
)  # fmt: skip
@torch.no_grad()
def test_flex_attention_is_attention_and_is_not_compiled_again_for_other_documents(bias, shape, cap):
    torch.compiler.reset()
    layouts = [
        documents(256, [[100], [3, 130, 200]], padding=7),
        documents(256, [[], [1]], padding=0),
        documents(256, [[50, 51, 52], [255]], padding=1),
    ]
    for number, layout in enumerate(layouts):
        qkv = random_qkv(2, 256, number)
        visibility = in_layer(within_documents(CAUSAL, layout), shape.attention_pattern[0], shape)
        expected = dense(visibility, bias, 2, 4, 256, cap).attend(*qkv, None)
        with torch.compiler.set_stance("fail_on_recompile" if number else "default"):
            found = BlockAttention(block_mask(visibility, 2, 4, 256, layout.device), bias, cap).attend(*qkv, None)
        torch.testing.assert_close(found, expected, rtol=0, atol=1e-5)


@torch.compiler.set_stance("force_eager")
def test_blocks_that_hold_no_visible_pair_are_skipped():
    visibility = within_documents(CAUSAL, documents(512, [[256]], padding=0))
    computed = block_mask(visibility, 1, 4, 512, torch.device("cpu")).to_dense()[0, 0]
    assert computed.int().tolist() == [[1, 0, 0, 0], [1, 1, 0, 0], [0, 0, 1, 0], [0, 0, 1, 1]]


@torch.inference_mode()
def test_a_visibility_that_looks_ahead_sees_no_empty_slot_of_the_cache():
    """Rows of other lengths in the batch do not change what a row reads."""
    model = random_model(LLAMA)
    sees_all = Visibility(lambda row, head, query, key: key >= 0, looks_ahead=True)
    rows = [torch.randint(VOCABULARY, (length,), generator=torch.Generator().manual_seed(length)) for length in (7, 4)]
    sizes = torch.tensor([len(row) for row in rows])
    found = model.logits(model.extend(model.new_cache(2), torch.cat(rows), sizes, sees_all)).split(sizes.tolist())
    for tokens, logits in zip(rows, found, strict=True):
        positions = torch.arange(len(tokens))[None]
        expected = model(tokens[None], positions, torch.zeros_like(tokens)[None], None, sees_all)[0]
        torch.testing.assert_close(logits, expected, rtol=0, atol=1e-5)


@pytest.mark.parametrize("qk_norm", ["head", "width"])
@torch.no_grad()
def test_cross_attention_normalizes_the_decoders_queries_and_the_encoders_keys(qk_norm):
    """One query at a time, in fp64."""
    config = ModelConfig(
        layers=1, width=32, heads=4, kv_heads=2, context=9, mlp_width=8, norm="rmsnorm", qk_norm=qk_norm,
        stack="encoder_decoder",
    )  # fmt: skip
    cross, generator = CrossAttention(config), torch.Generator().manual_seed(2)
    for parameter in cross.parameters():
        parameter.normal_(0, 0.5, generator=generator)
    x_BTM, x_BSM = (torch.randn(2, length, 32, generator=generator) for length in (3, 5))
    everything = Visibility(lambda row, head, query, key: row + query + key >= 0, looks_ahead=True)
    attending = DenseAttention(logit_mask(everything, None, 2, 4, torch.arange(3)[None], 5))
    found = cross(x_BTM, EncoderOutput(x_BSM, attending))

    def normed(values, heads: int, norm) -> Tensor:
        """Values of one position, (heads, 8), divided by their root mean square."""
        by_norm = values.view(heads, 8) if qk_norm == "head" else values.view(1, -1)
        square = by_norm.square().mean(1, keepdim=True)
        return (by_norm / (square + config.norm_epsilon).sqrt() * norm.weight.double()).view(heads, 8)

    query, key_value, output = (
        (layer.weight.double(), layer.bias.double()) for layer in (cross.query, cross.key_value, cross.output)
    )
    for row, position in itertools.product(range(2), range(3)):
        q_ND = normed(query[0] @ x_BTM[row, position].double() + query[1], 4, cross.query_norm)
        both = [key_value[0] @ x_BSM[row, key].double() + key_value[1] for key in range(5)]
        k_SGD = torch.stack([normed(one[:16], 2, cross.key_norm) for one in both])
        v_SGD = torch.stack([one[16:].view(2, 8) for one in both])
        mixed = [
            (k_SGD[:, head // 2] @ q_ND[head] / math.sqrt(8)).softmax(0) @ v_SGD[:, head // 2] for head in range(4)
        ]
        expected = output[0] @ torch.cat(mixed) + output[1]
        torch.testing.assert_close(found[row, position].double(), expected, rtol=0, atol=1e-5)


class OnGpu(Tensor):
    """Calls itself a tensor of a GPU."""

    is_cuda = True


@pytest.mark.parametrize(
    ("config", "kind"), [(LLAMA, BlockAttention), (dataclasses.replace(LLAMA, dropout=0.1), DenseAttention)]
)
@torch.compiler.set_stance("force_eager")
def test_packed_rows_on_a_gpu_are_attended_in_blocks_unless_dropout_is_applied(config: ModelConfig, kind: type):
    model = Transformer(config, VOCABULARY)
    prepare_blocks(model, compiles=False, recompute="none")
    tokens_BT = torch.zeros(2, 8, dtype=torch.long).as_subclass(OnGpu)

    def chosen() -> object:
        return model._attending(CAUSAL, None, tokens_BT, torch.float32)

    assert isinstance(chosen(), kind)
    model.eval()
    assert isinstance(chosen(), BlockAttention), "validation needs no mask of all pairs of positions"
    assert isinstance(
        Transformer(config, VOCABULARY)._attending(CAUSAL, None, tokens_BT, torch.float32), DenseAttention
    )


@torch.compiler.set_stance("force_eager")
@pytest.mark.parametrize(("kernel", "options"), [("auto", None), ("flash", {"BACKEND": "FLASH"})])
def test_the_kernel_of_the_training_reaches_flex_attention(monkeypatch, kernel, options):
    """On a CPU, FlexAttention accepts the option and computes without it."""
    found = []

    def recorded(*qkv: Tensor, kernel_options: dict | None, **_) -> Tensor:
        found.append(kernel_options)
        return qkv[0]

    monkeypatch.setattr(attention, "compiled", lambda _: recorded)
    monkeypatch.setattr("importlib.util.find_spec", lambda _: True)
    model = Transformer(LLAMA, VOCABULARY)
    execution.prepare(model, TrainingConfig(steps=1, batch_rows=1, compile="off", attention_kernel=kernel), "cuda")
    tokens_BT = torch.zeros(2, 8, dtype=torch.long).as_subclass(OnGpu)
    model._attending(CAUSAL, None, tokens_BT, torch.float32).attend(*random_qkv(2, 8), None)
    assert found == [options]


@pytest.mark.parametrize(
    ("device", "message"),
    [
        ("cpu", "is flash, and the device is cpu; give a GPU, or attention_kernel=auto"),
        ("cuda", "is flash, and there is no module flash_attn.cute; install flash-attn-4, or attention_kernel=auto"),
    ],
)
def test_a_kernel_that_is_not_there_is_refused(device, message):
    training = TrainingConfig(steps=1, batch_rows=1, attention_kernel="flash")
    with pytest.raises(ConfigError) as error:
        execution.prepare(Transformer(LLAMA, VOCABULARY), training, device)
    assert str(error.value) == f"training.attention_kernel: {message}"

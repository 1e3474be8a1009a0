"""Models without attention equal plain torch, and torch's recurrent layers on each document alone."""

import dataclasses

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.flop_counter import FlopCounterMode

from headrace.pipeline.core.errors import ConfigError
from headrace.pipeline.core.settings import decode
from headrace.train.config import ModelConfig
from headrace.train.cost.flops import flops_per_token, parameter_flops
from headrace.train.cost.shapes import shapes_by_role
from headrace.train.model.execution import prepare_blocks
from headrace.train.model.initialization import initialize
from headrace.train.model.roles import fused_rows, roles
from headrace.train.model.transformer import Transformer
from tests.train.model.test_transformer import LSTM, RNN, VOCABULARY, WINDOW_MLP, random_model

LENGTHS = (5, 1, 9, 4)
"""Documents of one row; padding follows in the row below, whose document is longer."""
NAMES = ("lstm", "rnn", "window_mlp")
PARTS = {
    "lstm": {"mixer": "lstm"},
    "rnn": {"mixer": "rnn", "bias": False, "norm": "rmsnorm"},
    "window_mlp": {"mixer": "window_mlp", "window": 4, "activation": "swiglu"},
    "post_norm": {"mixer": "rnn", "norm_place": "post"},
    "no_residual": {"mixer": "lstm", "residual": False},
    "after_no_residual": {"mixer": "window_mlp", "window": 2, "norm_place": "after", "residual": False},
}
SIZES = {"layers": 2, "width": 16, "heads": 2, "kv_heads": 2, "context": 24, "mlp_width": 24, "positions": "none"}


def shape(name: str) -> ModelConfig:
    return ModelConfig(**SIZES, **PARTS[name])


def packed_rows() -> tuple[Tensor, Tensor, Tensor]:
    """Returns tokens, positions and documents of two rows: four documents, and one of 16 tokens with padding."""
    tokens_BT = torch.randint(VOCABULARY, (2, sum(LENGTHS)), generator=torch.Generator().manual_seed(5))
    first = torch.cat([torch.full((length,), number) for number, length in enumerate(LENGTHS)])
    second = torch.cat((torch.zeros(16, dtype=torch.int64), torch.full((3,), -1)))
    places = torch.cat([torch.arange(length) for length in LENGTHS]), torch.cat((torch.arange(16), torch.arange(3)))
    return tokens_BT, torch.stack(places), torch.stack((first, second))


def plain_mixer(block: nn.Module, config: ModelConfig, x_TM: Tensor) -> Tensor:
    """The mixer on one document: torch's own layer, or each window built token by token."""
    if config.mixer != "window_mlp":
        layer = {"lstm": nn.LSTM, "rnn": nn.RNN}[config.mixer](config.width, config.width, bias=config.bias)
        parameters = {name: block.mixer.cells.get_parameter(name) for name, _ in layer.named_parameters()}
        return torch.func.functional_call(layer, parameters, (x_TM,))[0]
    outputs = []
    for end in range(1, len(x_TM) + 1):
        last = list(x_TM[max(0, end - config.window) : end])
        missing = [torch.zeros(config.width)] * (config.window - len(last))
        outputs.append(block.mixer.mlp(torch.cat(missing + last)))
    return torch.stack(outputs)


def plain_logits(model: Transformer, tokens_T: Tensor) -> Tensor:
    """The logits of one document, with the blocks written out."""
    config, x_TM = model.config, model.embedding(tokens_T)
    for block in model.layers:
        for norm, last, part in (
            (block.attention_norm, block.attention_output_norm, lambda x, block=block: plain_mixer(block, config, x)),
            (block.mlp_norm, block.mlp_output_norm, block.mlp),
        ):
            if config.norm_place == "post":
                x_TM = norm(part(x_TM) + x_TM * config.residual)
            else:
                x_TM = last(part(norm(x_TM))) + x_TM * config.residual
    return functional.linear(model.norm(x_TM), model.embedding.weight)


@pytest.mark.parametrize("name", PARTS)
def test_logits_and_gradients_are_those_of_each_document_in_plain_torch(name):
    """Padding is no part of the loss."""
    model, (tokens_BT, positions_BT, documents_BT) = random_model(shape(name)), packed_rows()
    inside_BT = documents_BT >= 0
    logits_NV = model(tokens_BT, positions_BT, documents_BT)[inside_BT]
    documents = [*tokens_BT[0].split(LENGTHS), tokens_BT[1, :16]]
    expected_NV = torch.cat([plain_logits(model, tokens_T) for tokens_T in documents])
    torch.testing.assert_close(logits_NV, expected_NV, rtol=0, atol=1e-5)
    weights, targets_N = list(model.parameters()), tokens_BT[inside_BT].roll(1)
    found, expected = (
        torch.autograd.grad(functional.cross_entropy(logits, targets_N), weights) for logits in (logits_NV, expected_NV)
    )
    for (parameter, _), gradient, plain in zip(model.named_parameters(), found, expected, strict=True):
        torch.testing.assert_close(gradient, plain, rtol=1e-4, atol=1e-6, msg=parameter)


@pytest.mark.parametrize("name", NAMES)
def test_recomputed_blocks_have_the_same_gradients(name):
    (tokens_BT, positions_BT, documents_BT), gradients = packed_rows(), []
    for recompute in ("none", "full"):
        model = random_model(shape(name)).train()
        prepare_blocks(model, compiles=True, recompute=recompute)
        torch.autograd.backward(model(tokens_BT, positions_BT, documents_BT, tokens_BT))
        gradients.append([parameter.grad for parameter in model.parameters()])
    assert all(torch.equal(plain, again) for plain, again in zip(*gradients, strict=True))


def test_gradients_of_far_tokens_vanish_in_recurrent_layers():
    """The gradient of the last position at the token 32 before it, over that at the token before it, with first
    weights: it shrinks at each step through a state, in an LSTM less, and does not depend on the distance in attention.
    """
    tokens_BT = torch.randint(VOCABULARY, (4, 64), generator=torch.Generator().manual_seed(2))
    far_over_near = {}
    for mixer in ("rnn", "lstm", "attention"):
        model = Transformer(ModelConfig(**{**SIZES, "context": 64}, mixer=mixer), VOCABULARY)
        initialize(model, 0)
        x_BTM = model.embedding(tokens_BT).detach().requires_grad_()
        last_BM = model.attended(x_BTM, torch.arange(64).expand(4, -1), torch.zeros_like(tokens_BT))[:, -1]
        (gradient_BTM,) = torch.autograd.grad(last_BM.square().sum(), x_BTM)
        far_over_near[mixer] = float(gradient_BTM[:, -33].norm() / gradient_BTM[:, -2].norm())
    assert far_over_near["rnn"] < far_over_near["lstm"] / 10 < 1e-6
    assert far_over_near["attention"] > 0.3


def test_first_weights_of_recurrent_layers_have_the_deviation_of_torchs():
    model = Transformer(dataclasses.replace(LSTM, width=256), VOCABULARY)
    initialize(model, 0)
    cells, expected = model.blocks[0].mixer.cells, nn.LSTM(256, 256)
    for name in ("weight_ih_l0", "weight_hh_l0"):
        found, of_torch = (float(layer.get_parameter(name).detach().std()) for layer in (cells, expected))
        assert found == pytest.approx(of_torch, rel=0.02)
    assert not cells.bias_ih_l0.any()
    assert not cells.bias_hh_l0.any()


@pytest.mark.parametrize("config", [LSTM, RNN, WINDOW_MLP], ids=NAMES)
def test_roles_and_shapes_are_those_of_the_parameters(config):
    """Each gate is a matrix of its own for an optimizer of matrices."""
    model = Transformer(config, VOCABULARY)
    expected, rows_of = shapes_by_role(config, VOCABULARY), fused_rows(model)
    found = {role: [] for role in expected}
    for name, role in roles(model).items():
        parameter = model.get_parameter(name)
        found[role] += [part.shape for part in parameter.split(rows_of.get(name, (len(parameter),)))]
    assert sorted(found["matrix"]) == sorted(expected["matrix"])
    assert sum(shape.numel() for shape in found["vector"]) == expected["vector"][0][0]


@pytest.mark.parametrize("config", [LSTM, RNN, WINDOW_MLP], ids=NAMES)
def test_operations_are_two_for_each_multiplication_and_none_by_distance(config):
    """Counted by torch in the forward pass, a third of training: all matrices at each position, for any row."""
    config = dataclasses.replace(config, shared_layers=False)
    model, positions_BT = Transformer(config, VOCABULARY), torch.arange(24)[None]
    with torch.backends.mkldnn.flags(enabled=False), FlopCounterMode(display=False) as counter:
        model(positions_BT, positions_BT, torch.zeros_like(positions_BT))
    vectors = sum(parameter.numel() for parameter in model.parameters() if parameter.dim() < 2)
    lookups = 0 if config.tied else VOCABULARY * config.width
    counted = 6.0 * (config.parameters(VOCABULARY) - vectors - lookups)
    assert 3 * counter.get_total_flops() / 24 == counted
    for row_tokens in (1, 24):
        assert flops_per_token(config, VOCABULARY, row_tokens) == parameter_flops(config, VOCABULARY, row_tokens)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"stack": "encoder"}, "mixer lstm needs stack decoder, not encoder"),
        ({"positions": "rope"}, "mixer lstm needs positions none, not rope: it reads tokens in their order"),
        ({"qk_norm": "head"}, "qk_norm head needs mixer attention, not lstm"),
        ({"window": 4}, "window 4 is in no layer of attention_pattern [full]"),
        ({"mixer": "window_mlp"}, "mixer window_mlp needs a window of at least 2, not null"),
        ({"mixer": "window_mlp", "window": 1}, "mixer window_mlp needs a window of at least 2, not 1"),
        ({"residual": False, "norm_place": "parallel"}, "residual false and norm_place parallel exclude each other"),
    ],
)
def test_settings_without_an_effect_are_refused(change, message):
    with pytest.raises(ConfigError) as error:
        decode(ModelConfig, {**SIZES, "mixer": "lstm", **change})
    assert str(error.value) == f"model: {message}; correct the model's settings"


def test_there_are_no_weights_of_attention():
    with pytest.raises(ConfigError, match=r"^model\.mixer: is lstm, which computes no weights of attention; give"):
        next(random_model(LSTM).attention_weights(torch.arange(4)[None]))

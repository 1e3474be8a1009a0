"""AdamW by hand; another optimizer through the engine, checkpoints and the plan of memory."""

import torch

from headrace.train.engine.optimizers import AdamW, build, checkpoint_bytes, moment_bytes, set_learning_rate
from tests.train.model.test_transformer import GPT2, VOCABULARY, random_model
from tests.train.momentum import Momentum
from tests.train.topologies import Pair, Topology, resume

ADAMW, MOMENTUM = AdamW(learning_rate=1.0), Momentum(learning_rate=1.0)


def test_only_matrices_decay():
    model = random_model(GPT2)
    optimizer = build(model, AdamW(learning_rate=0.5, weight_decay=0.1))
    before = {name: p.detach().clone() for name, p in model.named_parameters()}
    for parameter in model.parameters():
        parameter.grad = torch.zeros_like(parameter)
    optimizer.step()
    for name, parameter in model.named_parameters():
        factor = 1 - 0.5 * 0.1 if parameter.dim() == 2 else 1.0
        torch.testing.assert_close(parameter.detach(), before[name] * factor, rtol=1e-6, atol=0)


def test_every_parameter_is_in_one_group():
    model = random_model(GPT2)
    optimizer = build(model, AdamW(learning_rate=1.0))
    held = [id(p) for group in optimizer.param_groups for p in group["params"]]
    assert sorted(held) == sorted(id(p) for p in model.parameters())
    assert model.config.parameters(VOCABULARY) == sum(p.numel() for p in model.parameters())


def test_one_update_by_hand():
    parameter = torch.nn.Parameter(torch.tensor([[2.0]]))
    module = torch.nn.Module()
    module.weight = parameter
    optimizer = build(module, AdamW(learning_rate=9.0, beta1=0.9, beta2=0.95, epsilon=1e-8, weight_decay=0.1))
    set_learning_rate(optimizer, 0.01)
    parameter.grad = torch.tensor([[-0.3]])
    optimizer.step()
    assert abs(parameter.item() - (2.0 * (1 - 0.01 * 0.1) + 0.01)) < 1e-6  # the first step has the gradient's sign


def test_another_optimizer_trains_and_resumes_bit_for_bit(tmp_path):
    """Two ranks at ZeRO stage 1, and from there one rank at stage 3: one moment, no count of updates."""
    pairs = [Pair("fp32", Topology(2, 1), Topology(*other), "momentum") for other in ((2, 1), (1, 3))]
    same, reshaped = resume(tmp_path, pairs).values()
    assert same.is_restored
    assert same.is_identical
    assert reshaped.is_restored
    assert reshaped.apart < 1e-5


def test_the_bytes_of_the_state_follow_from_the_moments():
    found = {type(each): (moment_bytes(each), checkpoint_bytes(each)) for each in (ADAMW, MOMENTUM)}
    assert found == {AdamW: (8, 12), Momentum: (4, 8)}

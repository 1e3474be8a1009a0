"""Optimizers without an engine, compared with slow ones and with torch's; others through engine and checkpoints."""

import dataclasses
from collections import defaultdict
from collections.abc import Callable, Sequence

import pytest
import torch
import transformers
from torch import nn
from torch.optim import _muon

from headrace.train.cost.shapes import shapes_by_role
from headrace.train.engine.by_parameter import Piece, build, rounds
from headrace.train.engine.optimizers.adafactor import Adafactor
from headrace.train.engine.optimizers.adamw import AdamW
from headrace.train.engine.optimizers.base import (
    DecayFactors,
    RateFactors,
    Whole,
    checkpoint_bytes,
    divided_bytes,
    set_learning_rate,
    statistic_bytes,
)
from headrace.train.engine.optimizers.muon import COEFFICIENTS, LEAST_NORM, STEPS, Muon, orthogonalized
from headrace.train.engine.optimizers.stable_adamw import StableAdamW
from headrace.train.model.roles import fused_rows, roles
from headrace.train.model.transformer import Transformer
from tests.train import plain, updates
from tests.train.families.test_hf_folder import SHAPES
from tests.train.model.test_transformer import GPT2, VOCABULARY, random_model
from tests.train.momentum import Momentum
from tests.train.topologies import Pair, Topology, resume
from tests.train.updates import Case

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


def test_one_update_by_hand():
    parameter = torch.nn.Parameter(torch.tensor([[2.0]]))
    module = torch.nn.Module()
    module.weight = parameter
    optimizer = build(module, AdamW(learning_rate=9.0, beta1=0.9, beta2=0.95, epsilon=1e-8, weight_decay=0.1))
    set_learning_rate(optimizer, 0.01)
    parameter.grad = torch.tensor([[-0.3]])
    optimizer.step()
    assert abs(parameter.item() - (2.0 * (1 - 0.01 * 0.1) + 0.01)) < 1e-6  # the first step has the gradient's sign


def learnt(make: Callable[[Transformer], torch.optim.Optimizer], sizes: Sequence[float]) -> Transformer:
    """A model after random gradients of these ``sizes``, at a learning rate of 0.01."""
    model = updates.first_model("llama-untied")
    optimizer, generator = make(model), torch.Generator().manual_seed(0)
    for size in sizes:
        for parameter in model.parameters():
            parameter.grad = torch.randn(parameter.shape, generator=generator) * size
        set_learning_rate(optimizer, 0.01)
        optimizer.step()
    return model


def apart(one: nn.Module, other: nn.Module) -> float:
    """The distance of all weights, divided by the second one's distance from the first weights."""

    def length(a: nn.Module, b: nn.Module) -> float:
        pairs = zip(a.parameters(), b.parameters(), strict=True)
        return float(torch.cat([(p - q).detach().flatten() for p, q in pairs]).norm())

    return length(one, other) / length(other, updates.first_model("llama-untied"))


STEADY, JUMP = (0.01,) * 4, (0.01, 0.01, 0.1, 0.01)
SLOW = Case("llama-untied", 0, 1, "fp32", None, epsilon=1e-3)


@pytest.mark.parametrize("optimizer", ["stable_adamw", "muon", "adafactor"])
def test_an_optimizer_is_that_of_its_paper(optimizer):
    case = dataclasses.replace(SLOW, optimizer=optimizer)
    slow = learnt(lambda model: plain.OPTIMIZERS[optimizer](model, case), JUMP)
    settings = updates.OPTIMIZERS[optimizer](learning_rate=9.0, epsilon=case.epsilon)
    assert apart(learnt(lambda model: build(model, settings), JUMP), slow) < 1e-5


def test_stable_adamw_shortens_the_step_of_a_jump_alone():
    stable, adamw = (kind(learning_rate=9.0, beta2=0.99) for kind in (StableAdamW, AdamW))
    in_first, in_jump = (
        apart(*(learnt(lambda model, each=each: build(model, each), sizes) for each in (stable, adamw)))
        for sizes in (STEADY[:1], JUMP)
    )
    assert in_first < 1e-6
    assert in_jump > 0.1


@pytest.mark.parametrize("scale", ["original", "match_rms_adamw"])
def test_muon_is_torchs(scale):
    """In bf16, with the matrices of queries, keys, values, gate and value apart, and AdamW for the rest."""
    split = plain.SPLIT["llama-untied"]

    class Both(torch.optim.Optimizer):
        def __init__(self, model: Transformer) -> None:
            self.matrices, others = [], []
            for name, parameter in model.named_parameters():
                if parameter.dim() < 2 or name in ("embedding.weight", "head.weight"):
                    others.append(parameter)
                else:
                    rows = next(
                        (rows for end, rows in split.items() if name.endswith(f"{end}.weight")), [len(parameter)]
                    )
                    parts = [nn.Parameter(part.detach()) for part in parameter.split(list(rows))]
                    self.matrices.append((parameter, list(rows), parts))
            muon = torch.optim.Muon([part for *_, parts in self.matrices for part in parts], adjust_lr_fn=scale)
            self.param_groups = muon.param_groups + plain.adamw(others, 1e-8).param_groups
            self.both = muon, torch.optim.AdamW(self.param_groups[1:], betas=(0.9, 0.95))

        def step(self) -> None:
            for parameter, rows, parts in self.matrices:
                for part, gradient in zip(parts, parameter.grad.split(rows), strict=True):
                    part.grad = gradient
            for optimizer, groups in zip(self.both, (self.param_groups[:1], self.param_groups[1:]), strict=True):
                optimizer.param_groups = groups
                optimizer.step()

    expected = learnt(Both, STEADY)
    muon = Muon(learning_rate=9.0, scale=scale, orthogonalization="bf16")
    assert apart(learnt(lambda model: build(model, muon), STEADY), expected) < 1e-6


@pytest.mark.parametrize("scales", [True, False])
def test_adafactor_is_that_of_transformers(scales):
    ours, theirs = (nn.Linear(24, 40) for _ in range(2))
    theirs.load_state_dict(ours.state_dict())
    settings = Adafactor(learning_rate=9.0, scales_by_parameter=scales, weight_decay=0.3)
    optimizers = (
        build(ours, dataclasses.replace(settings, decay_factors=DecayFactors(vector=1.0))),
        transformers.Adafactor(
            theirs.parameters(), 0.01, scale_parameter=scales, relative_step=False, weight_decay=0.3
        ),
    )
    for size in JUMP:
        for a, b in zip(ours.parameters(), theirs.parameters(), strict=True):
            a.grad = torch.randn(a.shape) * size
            b.grad = a.grad.clone()
        set_learning_rate(optimizers[0], 0.01)
        for optimizer in optimizers:
            optimizer.step()
    torch.testing.assert_close(ours.state_dict(), theirs.state_dict(), rtol=1e-5, atol=1e-6)


def test_the_iteration_is_torchs_bit_for_bit():
    for shape in ((40, 24), (24, 40)):
        matrix = torch.randn(shape, generator=torch.Generator().manual_seed(0))
        theirs = _muon._zeropower_via_newtonschulz(matrix, COEFFICIENTS, STEPS, LEAST_NORM)
        assert torch.equal(orthogonalized(matrix.bfloat16()), theirs)


def test_adamw_of_muon_has_a_rate_of_its_own():
    rates = {
        role: Muon(learning_rate=0.02, adamw_learning_rate=0.001, rate_factors=RateFactors(head=2.0)).options(role)
        for role in ("matrix", "embedding", "head")
    }
    assert {role: options["rate_factor"] * 0.02 for role, options in rates.items()} == pytest.approx(
        {"matrix": 0.02, "embedding": 0.001, "head": 0.002}
    )


@pytest.mark.parametrize("kind", [AdamW, StableAdamW, Muon])
def test_each_role_has_its_rate_and_its_decay(kind):
    """Without a gradient the weights only decay: by the product of both."""
    model = updates.first_model("llama-untied")
    before = {name: p.detach().clone() for name, p in model.named_parameters()}
    factors = {"embedding": 0.5, "head": 0.0, "matrix": 2.0, "vector": 1.0}
    decays = {"embedding": 1.0, "head": 1.0, "matrix": 0.25, "vector": 3.0}
    rates, decaying = RateFactors(**factors), DecayFactors(**decays)
    optimizer = build(model, kind(learning_rate=9.0, weight_decay=0.2, rate_factors=rates, decay_factors=decaying))
    for parameter in model.parameters():
        parameter.grad = torch.zeros_like(parameter)
    set_learning_rate(optimizer, 0.1)
    optimizer.step()
    for name, role in roles(model).items():
        left = 1 - 0.1 * factors[role] * 0.2 * decays[role]
        torch.testing.assert_close(dict(model.named_parameters())[name].detach(), before[name] * left)


OF_OTHER_STACKS = {
    "t5": dataclasses.replace(GPT2, stack="encoder_decoder", positions="t5", encoder_layers=3, activation="geglu"),
    "shared": dataclasses.replace(GPT2, stack="encoder_decoder", shared_stacks=True),
    "bert": dataclasses.replace(
        GPT2, stack="encoder", output_transform=True, pair_head=True, segments=2, embedding_width=8, shared_layers=True
    ),
    "electra": dataclasses.replace(GPT2, stack="discriminator", embedding_width=8),
}


@pytest.mark.parametrize("name", [*SHAPES, *OF_OTHER_STACKS])
def test_roles_and_shapes_are_counted_before_the_model_exists(name):
    config = {**SHAPES, **OF_OTHER_STACKS}[name]
    model = Transformer(config, VOCABULARY)
    parameters, rows_of = dict(model.named_parameters()), fused_rows(model)
    found = defaultdict[str, list[tuple[int, ...]]](list)
    for parameter, role in roles(model).items():
        rows, *columns = parameters[parameter].shape
        found[role] += [(each, *columns) for each in rows_of.get(parameter, (rows,))]
    found["vector"] = [(sum(length for (length,) in found["vector"]),)]
    assert {role: sorted(each) for role, each in shapes_by_role(config, VOCABULARY).items() if each} == {
        role: sorted(each) for role, each in found.items()
    }
    assert all(sum(rows) == len(parameters[name]) for name, rows in rows_of.items() if name in parameters)


def test_a_part_of_a_parameter_is_cut_at_its_matrices():
    """24 values in three matrices, of which a rank has the values 6 to 19 at the offset 100 of its tensor."""
    wholes = [Whole("qkv", "matrix", start, shape) for start, shape in ((0, (4, 2)), (8, (2, 2)), (12, (6, 2)))]
    pieces = [Piece.of_location(whole, 6, 100, 14) for whole in wholes]
    assert [(piece.start, piece.offset, piece.length) for piece in pieces] == [(6, 100, 2), (0, 102, 4), (0, 106, 8)]
    assert [Piece.of_location(whole, 20, 0, 4).length for whole in wholes] == [0, 0, 4]
    assert [Piece.of_location(whole, 0, 0, 0).length for whole in wholes] == [0, 0, 0]


def test_whole_parameters_are_shared_out_by_size():
    pieces = [Piece(Whole(str(size), "matrix", 0, (size,)), 0, 0, 0) for size in (1, 5, 9, 4, 9)]
    assert [[piece.whole.values for piece in each] for each in rounds(pieces, 2)] == [[9, 9], [5, 4], [1]]


RESUMED = [
    ("momentum", Topology(2, 1), Topology(2, 1)),
    ("momentum", Topology(2, 1), Topology(1, 3)),
    ("stable_adamw", Topology(2, 2), Topology(1, 3)),
    ("muon", Topology(2, 1), Topology(2, 1)),
    ("muon", Topology(2, 1), Topology(1, 3)),
    ("adafactor", Topology(2, 3), Topology(2, 3)),
    ("adafactor", Topology(2, 3), Topology(1, 0)),
]


@pytest.mark.slow
def test_other_optimizers_train_and_resume_bit_for_bit(tmp_path):
    """On the same ranks; on others up to rounding. One has one moment and no count of updates."""
    pairs = [Pair("fp32", saved, resumed, optimizer) for optimizer, saved, resumed in RESUMED]
    for pair, found in resume(tmp_path, pairs).items():
        assert found.is_restored, pair
        assert found.is_identical or not pair.same, pair
        assert found.apart < 1e-5, pair


def test_the_bytes_of_the_state_follow_from_the_moments():
    shapes = {"matrix": [(5, 2)], "vector": [(1,)]}
    optimizers = (ADAMW, MOMENTUM, Muon(learning_rate=1.0), Adafactor(learning_rate=1.0))
    found = {
        each.type: (divided_bytes(each, shapes), statistic_bytes(each, shapes), checkpoint_bytes(each, shapes))
        for each in optimizers
    }
    of_adafactor = (4, 28, 76)
    assert found == {"adamw": (88, 0, 132), "momentum": (44, 0, 88), "muon": (48, 0, 92), "adafactor": of_adafactor}

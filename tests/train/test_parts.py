"""Names of parts: each has facts and a class, and the facts are those of the class."""

import dataclasses
import itertools
import typing

import pytest
import torch

from headrace.train import parts
from headrace.train.config import ModelConfig
from headrace.train.model import layers, norms, positions
from headrace.train.model.initialization import without_values
from headrace.train.model.transformer import Transformer
from tests.train.model.test_transformer import SHAPES

TABLES = [
    (parts.PositionsName, parts.POSITIONS, positions.POSITIONS),
    (parts.NormName, parts.NORMS, norms.NORMS),
    (parts.ActivationName, parts.ACTIVATIONS, layers.ACTIVATIONS),
]
MODEL = ModelConfig(layers=2, width=32, heads=4, kv_heads=2, context=24, mlp_width=48)


@pytest.mark.parametrize(("name", "facts", "classes"), TABLES)
def test_each_name_has_facts_and_a_class(name, facts, classes):
    assert set(typing.get_args(name)) == facts.keys() == classes.keys()


@pytest.mark.parametrize(
    "names", list(itertools.product(parts.POSITIONS, parts.NORMS, parts.ACTIVATIONS)), ids="-".join
)
def test_the_facts_count_the_parameters_of_the_classes(names):
    config = dataclasses.replace(MODEL, **dict(zip(("positions", "norm", "activation"), names, strict=True)))
    with without_values():
        model = Transformer(config, 53)
    assert sum(p.numel() for p in model.parameters()) == config.parameters(53)


@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize("config", SHAPES.values(), ids=SHAPES)
def test_the_parameters_of_every_shape_are_counted(config, tied):
    config = dataclasses.replace(config, tied=tied)
    with without_values():
        model = Transformer(config, 53)
    assert sum(p.numel() for p in model.parameters()) == config.parameters(53)


def test_a_new_norm_and_activation_are_a_line_of_each_table(monkeypatch):
    """A norm with weights alone, and the square of ReLU; no other file has their names."""
    monkeypatch.setitem(parts.NORMS, "unit", parts.NormFacts(vectors=0, kept_vectors=1, computes_in_fp32=False))
    monkeypatch.setitem(norms.NORMS, "unit", lambda width, epsilon: torch.nn.RMSNorm(width, epsilon, False))
    monkeypatch.setitem(parts.ACTIVATIONS, "relu2", parts.ActivationFacts(inputs=1, kept_values=2))
    monkeypatch.setitem(layers.ACTIVATIONS, "relu2", lambda inner: inner.relu().square())
    config = dataclasses.replace(MODEL, norm="unit", activation="relu2")
    model = Transformer(config, 53)
    assert sum(p.numel() for p in model.parameters()) == config.parameters(53)
    tokens_BT = torch.arange(20).view(2, 10)
    positions_BT = torch.arange(10).expand(2, -1)
    loss = model(tokens_BT, positions_BT, torch.zeros_like(tokens_BT), tokens_BT)
    loss.backward()
    assert all(p.grad.abs().sum() > 0 for p in model.parameters())

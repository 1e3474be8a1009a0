"""muP (``base_width``): sizes of activations after updates do not depend on the width, and exports compute the same."""

import dataclasses
import math

import pytest
import torch
from torch.nn import functional

from headrace.pipeline.config import decoded
from headrace.pipeline.configuration.composition import compose
from headrace.pipeline.core.errors import ConfigError
from headrace.train.config import ModelConfig
from headrace.train.engine.by_parameter import build
from headrace.train.engine.optimizers.adamw import AdamW
from headrace.train.engine.optimizers.base import set_learning_rate
from headrace.train.families.hf_folder import export, load
from headrace.train.families.registry import family_of
from headrace.train.model.initialization import initialize
from headrace.train.model.transformer import Transformer
from headrace.train.model_shape import Deviations
from tests.train.conftest import bytes_tokenizer

WIDTHS = (32, 64, 128, 256)
VOCABULARY, ROWS, POSITIONS, UPDATES = 64, 4, 16, 4
SMALL = ModelConfig(layers=2, width=32, heads=2, kv_heads=2, context=POSITIONS, mlp_width=64, tied=False)


def of_width(width: int, base_width: int | None, **parts: object) -> ModelConfig:
    grown = width // SMALL.width
    sizes = {"width": width, "heads": 2 * grown, "kv_heads": 2 * grown, "mlp_width": 64 * grown}
    return dataclasses.replace(SMALL, **sizes, base_width=base_width, **parts)


def built(config: ModelConfig) -> Transformer:
    model = Transformer(config, VOCABULARY)
    initialize(model, 0)
    return model


def batch() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    tokens = torch.randint(VOCABULARY, (ROWS, POSITIONS), generator=torch.Generator().manual_seed(1))
    return tokens, torch.arange(POSITIONS).expand_as(tokens), torch.zeros_like(tokens)


def changes(width: int, base_width: int | None, tied: bool) -> list[float]:
    """The root mean square of what a few updates add to the output of each layer and to the logits."""
    model = built(of_width(width, base_width, tied=tied))
    seen: list[torch.Tensor] = []
    for layer in model.blocks:
        layer.register_forward_hook(lambda module, inputs, output: seen.append(output.detach().clone()))
    optimizer = build(model, AdamW(learning_rate=0.01))
    set_learning_rate(optimizer, 0.01)
    tokens, *others = batch()
    with torch.no_grad():
        logits = model(tokens, *others)
        first = [*seen, logits]
    for _ in range(UPDATES):
        optimizer.zero_grad()
        logits = model(tokens, *others)
        functional.cross_entropy(logits[:, :-1].flatten(0, 1), tokens[:, 1:].flatten()).backward()
        optimizer.step()
    seen[:] = []
    with torch.no_grad():
        logits = model(tokens, *others)
    return [
        float((after - before).square().mean().sqrt()) for before, after in zip(first, [*seen, logits], strict=True)
    ]


@pytest.mark.parametrize("tied", [True, False], ids=["tied", "untied"])
def test_activations_after_updates_do_not_grow_with_the_width(tied):
    """The coordinate check (Yang et al. 2022, appendix D.1): growth by doubling of the width, in powers of two."""
    growth = {}
    for name, base in (("standard", None), ("muP", 32)):
        sizes = [changes(width, base, tied) for width in WIDTHS]
        growth[name] = [math.log2(last / first) / 3 for first, last in zip(sizes[0], sizes[-1], strict=True)]
    assert all(abs(each) < 0.15 for each in growth["muP"]), growth
    assert all(each > 0.8 for each in growth["standard"]), growth


def test_at_the_base_width_nothing_changes():
    standard, transferred = built(of_width(64, None)), built(of_width(64, 64))
    for ours, theirs in zip(standard.parameters(), transferred.parameters(), strict=True):
        assert torch.equal(ours, theirs)
    assert torch.equal(standard(*batch()), transferred(*batch()))


def test_first_weights_and_rates_follow_the_table():
    model = built(of_width(256, 32, tied=False))
    factors = {
        group["rate_factor"]: (len(group["params"]), group["weight_decay"])
        for group in build(model, AdamW(learning_rate=0.01, weight_decay=0.1)).param_groups
        if group["weight_decay"]
    }
    assert factors == {1 / 8: (8, pytest.approx(0.8)), 1.0: (3, 0.1)}
    deviations = {name: float(value.detach().std()) for name, value in model.named_parameters() if value.dim() == 2}
    assert deviations["blocks.0.attention.qkv.weight"] == pytest.approx(0.02 / math.sqrt(8), rel=0.05)
    assert deviations["blocks.0.mlp.down.weight"] == pytest.approx(0.02 / math.sqrt(8 * 4), rel=0.05)
    assert deviations["head.weight"] == pytest.approx(0.02, rel=0.05)
    assert deviations["embedding.weight"] == pytest.approx(0.02, rel=0.05)


def test_the_settings_are_given_on_the_command_line():
    line = ["model.deviations.matrix=0.1", "model.output_multiplier=3", "model.base_width=64"]
    model = decoded(compose(line)).model
    assert (model.deviations, model.output_scale) == (Deviations(matrix=0.1), 3 / (model.width / 64))
    with pytest.raises(ConfigError, match=r"unknown key 'matirx'; did you mean 'model.deviations.matrix'"):
        decoded(compose(["model.deviations.matirx=0.1"]))


def test_each_role_has_its_deviation():
    given = Deviations(embedding=1.0, head=0.5, matrix=0.1)
    model = built(of_width(128, None, tied=False, deviations=given))
    found = {name: float(value.detach().std()) for name, value in model.named_parameters() if value.dim() == 2}
    names = ("embedding.weight", "head.weight", "blocks.1.mlp.up.weight", "blocks.1.attention.output.weight")
    assert [found[name] for name in names] == pytest.approx([1.0, 0.5, 0.1, 0.1 / 2], rel=0.05)
    assert family_of(model.config).model_type == "gpt2", "no output of a trained model depends on it"


LLAMA = {"positions": "rope", "norm": "rmsnorm", "activation": "swiglu", "bias": False}


@pytest.mark.parametrize(
    ("parts", "family"),
    [({}, "gpt2"), (LLAMA, "llama"), (LLAMA | {"norm": "rmsnorm_1p", "positions": "none"}, "headrace")],
    ids=["layernorm", "rmsnorm", "rmsnorm_1p"],
)
def test_an_exported_model_has_the_same_logits(parts, family, tmp_path):
    """The factor of the logits is in the last norm: no class has a field for it."""
    config = of_width(96, 32, tied=True, output_multiplier=2.5, **parts)
    model = built(config)
    with torch.no_grad():
        for name, value in model.named_parameters():
            if name.startswith("norm."):
                value.add_(torch.rand_like(value))
    tokenizer = tmp_path / "tokenizer.json"
    bytes_tokenizer().save(str(tokenizer))
    export(model.named_parameters(), config, VOCABULARY, tokenizer, tmp_path / "hf")
    read = load(tmp_path / "hf")
    assert (read.config.base_width, read.config.output_multiplier) == (None, 1.0)
    assert family_of(read.config).model_type == family
    with torch.no_grad():
        assert (read(*batch()) - model(*batch())).abs().max() < 1e-6


REFUSED = {
    "base_width 32 needs stack decoder, not encoder": {"base_width": 32, "stack": "encoder"},
    "base_width 32 needs a norm after the last layer, not norm_place post": {"base_width": 32, "norm_place": "post"},
    "base_width 32 needs initialization gpt, not t5": {"base_width": 32, "initialization": "t5"},
    "output_multiplier 2 and scaled_output true exclude each other": {"output_multiplier": 2.0, "scaled_output": True},
    "output_multiplier 2 and output_transform true exclude each other": {
        "output_multiplier": 2.0, "output_transform": True
    },
    "deviations need initialization gpt, not t5": {"deviations": Deviations(matrix=0.1), "initialization": "t5"},
}  # fmt: skip


@pytest.mark.parametrize("wrong", REFUSED)
def test_models_without_a_rule_are_refused(wrong):
    with pytest.raises(ConfigError) as error:
        dataclasses.replace(SMALL, **REFUSED[wrong])
    assert str(error.value) == f"model: {wrong}; correct the model's settings"


def test_optimizers_without_a_rule_are_refused():
    with pytest.raises(ConfigError) as error:
        decoded(compose(["optimizer=muon", "model.base_width=64"]))
    wrong = "model.base_width: is 64, whose rules are those of Adam, and optimizer=muon"
    assert str(error.value) == f"{wrong}; give optimizer=adamw or stable_adamw, or base_width null"

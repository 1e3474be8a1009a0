"""FLOP and days against what was published."""

import dataclasses
import re
from pathlib import Path

import pytest

from headrace.pipeline.config import decoded
from headrace.pipeline.configuration.composition import compose
from headrace.pipeline.configuration.option_values import option_values
from headrace.pipeline.core.settings import decode
from headrace.pipeline.run.costs import Hardware, compute_facts
from headrace.train.config import ModelConfig
from headrace.train.cost.flops import Compute, flops_per_token, parameter_flops
from headrace.train.training_config import TrainingConfig

MODELS = Path(__file__).parents[3] / "docs/models.md"


def preset(name: str) -> ModelConfig:
    return decode(ModelConfig, option_values("model", name))


def test_half_the_peak_of_an_h200_is_578_thousand_tokens_of_gpt2_small():
    """FLOP per token of GPT-2 small at T=1024 by PaLM's formula, against 50 % of 989 TFLOP/s."""
    assert 0.5 * 989e12 / flops_per_token(preset("gpt2_small"), 50257, 1024) == pytest.approx(575_000, rel=0.01)


@pytest.mark.parametrize(
    ("name", "published_flops", "published_days"),
    [
        ("gpt3_125m", 2.25e20, 2.60),
        ("gpt3_350m", 6.41e20, 7.42),
        ("gpt3_760m", 1.37e21, 15.8),
        ("gpt3_1_3b", 2.38e21, 27.5),
        ("gpt3_2_7b", 4.77e21, 55.2),
        ("gpt3_6_7b", 1.20e22, 139),
        ("gpt3_13b", 2.31e22, 268),
        ("gpt3_175b", 3.14e23, 3640),
    ],
)
def test_gpt3s_table_of_compute(name, published_flops, published_days):
    """Brown et al. 2020, table D.1: 300 billion tokens, 6 N a token, without the products inside attention."""
    values = compose(["source=warc", f"experiment={name}"])
    shown = dict(compute_facts(decoded(values), 50257, Hardware()))["6 N alone"]
    flops, days = re.fullmatch(r"(\S+), (\S+) petaflop/s-days, as Brown et al. 2020 count in table D.1", shown).groups()
    assert float(flops) == pytest.approx(published_flops, rel=0.006)
    assert float(days) == pytest.approx(published_days, rel=0.006)


def test_operations_of_parameters_count_each_stack_by_its_positions():
    model = preset("t5_base")
    encoder, decoder = 84_954_240, 222_903_552 - 84_954_240  # the decoder with the embedding, as the output layer
    assert model.encoder.stack_parameters == encoder
    assert parameter_flops(model, 32_128, 512, 128) == 6 * (encoder + decoder / 4)
    assert parameter_flops(preset("gpt2_small"), 50257, 1024) == 6 * 124_439_808


def test_layers_with_a_window_cost_less():
    """Every second of 4 layers sees 3 tokens of 8, of an encoder 5; the rest of the cost is that of the parameters."""
    model = ModelConfig(
        layers=4, width=8, heads=2, kv_heads=2, context=8, mlp_width=16, attention_pattern=("full", "window"), window=3
    )
    parameters, per_key = 6 * model.parameters(10), 12 * 8
    assert flops_per_token(model, 10, 8) == parameters + per_key * (2 * 8 + 2 * 3)
    assert flops_per_token(model, 10, 2) == parameters + per_key * 4 * 2
    encoder = dataclasses.replace(model, stack="encoder")
    assert flops_per_token(encoder, 10, 8) == parameters + per_key * (2 * 8 + 2 * 5)


@pytest.mark.parametrize(("field", "stack"), [("shared_layers", "decoder"), ("shared_stacks", "encoder_decoder")])
def test_shared_layers_and_stacks_compute_as_much_as_others(field, stack):
    model = ModelConfig(layers=4, width=8, heads=2, kv_heads=2, context=8, mlp_width=16, stack=stack)
    shared = dataclasses.replace(model, **{field: True})
    targets = 3 if stack == "encoder_decoder" else None
    assert shared.parameters(10) < model.parameters(10)
    assert flops_per_token(shared, 10, 8, targets) == flops_per_token(model, 10, 8, targets)


def test_two_stacks_cost_what_their_own_positions_cost():
    """A decoder of 2 positions and an encoder of 8, one layer each: 8 and 2 + 8 keys for each query."""
    model = ModelConfig(
        layers=1, width=8, heads=2, kv_heads=2, context=8, mlp_width=16, stack="encoder_decoder", positions="t5"
    )
    of_encoder = 6 * model.encoder.stack_parameters + 12 * 8 * 8
    of_decoder = 6 * (model.parameters(10) - model.encoder.stack_parameters) + 12 * 8 * (2 + 8)
    assert flops_per_token(model, 10, 8, target_tokens=2) == of_encoder + of_decoder / 4


def test_days_by_hand():
    model = ModelConfig(layers=2, width=8, heads=2, kv_heads=2, context=4, mlp_width=16)
    compute = Compute.of(model, 10, 4, TrainingConfig(steps=100, batch_rows=3))
    assert (compute.update_tokens, compute.tokens) == (12, 1200)
    assert compute.flops == (6 * model.parameters(10) + 12 * 2 * 8 * 4) * 1200
    assert compute.days(2, 1e6, 0.5) == pytest.approx(compute.flops / 1e6 / 86400)


@pytest.mark.parametrize(
    ("settings", "fields", "target_tokens"),
    [
        ("model=t5_base", {}, 114),
        ("model.shared_stacks=true", {"shared_stacks": True}, 114),
        ("model.layers=6", {"layers": 6}, 114),
        ("model.stack=decoder model.context=625", {"stack": "decoder", "context": 625}, None),
    ],
)
def test_the_table_of_t5s_architectures_leaves_out_the_embedding_in_both_columns(settings, fields, target_tokens):
    (line,) = [line for line in MODELS.read_text().splitlines() if line.startswith("|") and f"| `{settings}` |" in line]
    parameters, flops = line.strip("| ").split(" | ")[-2:]
    model = dataclasses.replace(preset("t5_base"), **fields)
    row_tokens = 625 if target_tokens is None else 512
    assert parameters == f"{model.parameters(0):,}"
    assert float(flops) == pytest.approx(flops_per_token(model, 0, row_tokens, target_tokens) * row_tokens, rel=0.002)

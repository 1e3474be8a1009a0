"""The Transformer against Hugging Face, and what packing must not change."""

import dataclasses
import subprocess
import sys

import pytest
import torch

from headrace.pipeline.configuration.option_values import option_values
from headrace.pipeline.configuration.options import groups
from headrace.pipeline.core.errors import ConfigError
from headrace.pipeline.core.settings import decode
from headrace.train.config import ModelConfig
from headrace.train.model.execution import compile_blocks
from headrace.train.model.initialization import initialize
from headrace.train.model.transformer import Transformer
from headrace.train.model_shape import Llama3Scaling

GPT2 = ModelConfig(layers=2, width=32, heads=4, kv_heads=4, context=24, mlp_width=64)
GPT1 = ModelConfig(layers=2, width=32, heads=4, kv_heads=4, context=24, mlp_width=128, norm_place="post")
LLAMA = ModelConfig(
    layers=2, width=32, heads=4, kv_heads=2, context=24, mlp_width=48,
    positions="rope", norm="rmsnorm", activation="swiglu", bias=False, tied=False,
)  # fmt: skip
OPT = ModelConfig(
    layers=2, width=32, heads=4, kv_heads=4, context=24, mlp_width=64, position_offset=2, activation="relu",
)  # fmt: skip
BLOOM = ModelConfig(
    layers=2, width=32, heads=4, kv_heads=4, context=24, mlp_width=128, positions="alibi", embedding_norm=True,
)  # fmt: skip
GPT_NEOX = ModelConfig(
    layers=2, width=64, heads=4, kv_heads=4, context=24, mlp_width=48, positions="rope", rotary_fraction=0.25,
    norm_place="parallel", activation="gelu_exact", tied=False,
)  # fmt: skip
STARCODER2 = ModelConfig(
    layers=2, width=32, heads=4, kv_heads=2, context=24, mlp_width=48, positions="rope", rope_theta=5e5,
    attention_pattern=("window",), window=6,
)  # fmt: skip
QWEN3 = ModelConfig(
    layers=2, width=32, heads=4, kv_heads=2, context=24, mlp_width=48, attention_width=64, qk_norm="head",
    positions="rope", rope_theta=1e6, norm="rmsnorm", activation="swiglu", bias=False,
)  # fmt: skip
OLMO2 = ModelConfig(
    layers=2, width=32, heads=4, kv_heads=2, context=24, mlp_width=48, qk_norm="width", norm_place="after",
    positions="rope", rope_theta=5e5, norm="rmsnorm", activation="swiglu", bias=False, tied=False,
)  # fmt: skip
GEMMA2 = ModelConfig(
    layers=2, width=32, heads=4, kv_heads=2, context=24, mlp_width=48, attention_width=64, attention_scale_width=24,
    positions="rope", norm="rmsnorm_1p", norm_place="sandwich", activation="geglu", bias=False, scaled_embedding=True,
    attention_pattern=("window", "full"), window=6, attention_cap=5.0, logit_cap=8.0,
)  # fmt: skip
GEMMA = ModelConfig(
    layers=2, width=32, heads=4, kv_heads=1, context=24, mlp_width=48, attention_width=64,
    positions="rope", norm="rmsnorm_1p", activation="geglu", bias=False, scaled_embedding=True,
)  # fmt: skip
LLAMA31 = dataclasses.replace(LLAMA, rope_scaling=Llama3Scaling(factor=8.0, original_context=12))
MISTRAL = dataclasses.replace(LLAMA, attention_pattern=("window",), window=6)
QWEN2 = dataclasses.replace(LLAMA, qkv_bias=True, tied=True)
OLMO = dataclasses.replace(LLAMA, norm="layernorm_plain")
MPT = ModelConfig(
    layers=2, width=32, heads=4, kv_heads=4, context=24, mlp_width=128, positions="alibi", norm="layernorm_no_bias",
    activation="gelu_exact", bias=False,
)  # fmt: skip
GPT_NEO = dataclasses.replace(
    GPT2, qkv_bias=False, attention_scale_width=1, attention_pattern=("full", "window"), window=7
)
BANDED = dataclasses.replace(GPT2, attention_pattern=("full", "window"), window=7)
LSTM = dataclasses.replace(GPT2, positions="none", mixer="lstm")
RNN = dataclasses.replace(LLAMA, positions="none", mixer="rnn", shared_layers=True)
WINDOW_MLP = dataclasses.replace(LLAMA, positions="none", mixer="window_mlp", window=6, residual=False)
SHAPES = {
    "gpt1": GPT1, "gpt2": GPT2, "llama": LLAMA, "opt": OPT, "bloom": BLOOM, "qwen3": QWEN3, "olmo2": OLMO2,
    "llama-llama3": LLAMA31, "gemma": GEMMA, "gemma2": GEMMA2, "mistral": MISTRAL,
    "qwen2": QWEN2, "olmo": OLMO, "mpt": MPT, "gpt_neo": GPT_NEO,
    "gpt_neox": GPT_NEOX, "starcoder2": STARCODER2, "banded": BANDED,
    "lstm": LSTM, "rnn": RNN, "window_mlp": WINDOW_MLP,
}  # fmt: skip
"""Small models that have every part together."""
VOCABULARY = 53


def random_model(config: ModelConfig, vocabulary: int = VOCABULARY) -> Transformer:
    model = Transformer(config, vocabulary)
    generator = torch.Generator().manual_seed(3)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(0, 0.2, generator=generator)
    return model.eval()


def test_every_preset_decodes():
    for name in groups()["model"]:
        decode(ModelConfig, option_values("model", name))


ENCODER = dataclasses.replace(GPT1, stack="encoder")


@pytest.mark.parametrize("config", [*SHAPES.values(), ENCODER], ids=[*SHAPES, "encoder"])
def test_a_packed_row_gives_each_document_its_own_logits(config):
    model = random_model(config)
    lengths, generator = [5, 1, 9, 4], torch.Generator().manual_seed(0)
    alone = [torch.randint(VOCABULARY, (1, length), generator=generator) for length in lengths]
    padding = torch.zeros(1, 3, dtype=torch.long)
    row = torch.cat([*alone, padding], 1)
    positions = torch.cat([torch.arange(length) for length in [*lengths, 3]])[None]
    documents = torch.cat([torch.full((length,), i) for i, length in enumerate(lengths)] + [torch.full((3,), -1)])[None]
    packed = model(row, positions, documents)
    assert torch.isfinite(packed).all()
    for tokens, part in zip(alone, packed.split([*lengths, 3], 1), strict=False):
        expected = model(tokens, torch.arange(tokens.shape[1])[None], torch.zeros_like(tokens))
        torch.testing.assert_close(part, expected, rtol=0, atol=1e-5)


@pytest.mark.parametrize("config", [GPT2, dataclasses.replace(GPT2, stack="encoder_decoder")], ids=["one", "two"])
@torch.inference_mode()
def test_shared_layers_are_layers_with_equal_weights(config):
    """With a cache, too: each layer has keys and values of its own."""
    shared, plain = (random_model(dataclasses.replace(config, shared_layers=value)) for value in (True, False))
    weights = {name.replace("blocks.1.", "blocks.0."): name for name in plain.state_dict()}
    own = shared.state_dict()
    assert own.keys() == weights.keys()
    plain.load_state_dict({name: own[name.replace("blocks.1.", "blocks.0.")] for name in plain.state_dict()})
    tokens_P, size = torch.arange(20), torch.tensor([20])
    found = []
    for model in (shared, plain):
        cache = model.new_cache(1)
        if model.encoder is not None:
            model.read_contexts(cache, tokens_P[:7], torch.tensor([7]))
        found.append(model.extend(cache, tokens_P, size))
    assert torch.equal(*found)
    if config.stack == "decoder":
        rows = tokens_P[None], tokens_P[None], torch.zeros(1, 20, dtype=torch.long)
        assert torch.equal(shared(*rows), plain(*rows))


def test_all_tokens_of_an_encoder_see_each_other():
    model, tokens = random_model(ENCODER), torch.arange(20)[None]
    positions, documents = torch.arange(20)[None], torch.zeros(1, 20, dtype=torch.long)
    changed = tokens.clone()
    changed[0, 12] = 50
    before, after = model(tokens, positions, documents), model(changed, positions, documents)
    assert (before != after).any(-1).all()
    weights_BNTT = next(iter(model.attention_weights(tokens)))
    assert (weights_BNTT > 0).all()


def test_an_encoder_has_no_cache():
    with pytest.raises(ValueError, match="an encoder has no cache"):
        random_model(ENCODER).new_cache(1)


@pytest.mark.parametrize("config", SHAPES.values(), ids=SHAPES)
def test_later_tokens_do_not_change_earlier_logits(config):
    model, tokens = random_model(config), torch.arange(20)[None]
    positions, documents = torch.arange(20)[None], torch.zeros(1, 20, dtype=torch.long)
    changed = tokens.clone()
    changed[0, 12] = 50
    before, after = model(tokens, positions, documents), model(changed, positions, documents)
    torch.testing.assert_close(before[:, :12], after[:, :12], rtol=0, atol=1e-5)
    assert (before[:, 12:] - after[:, 12:]).abs().amax(-1).min() > 1e-3


@pytest.mark.parametrize(("place", "residual"), [("pre", 0.02 / 4), ("parallel", 0.02 / 4), ("post", 0.02)])
def test_first_weights_are_gpt2s_and_gpt1s(place, residual):
    config = ModelConfig(layers=8, width=128, heads=4, kv_heads=4, context=64, mlp_width=512, norm_place=place)
    model, again, other = (Transformer(config, 500) for _ in range(3))
    for each, seed in ((model, 7), (again, 7), (other, 8)):
        initialize(each, seed)
    for name, parameter in model.named_parameters():
        assert torch.equal(parameter, again.get_parameter(name))
        if parameter.dim() == 2:
            expected = residual if name.endswith(("attention.output.weight", "mlp.down.weight")) else 0.02
            assert parameter.std().item() == pytest.approx(expected, rel=0.05)
            assert not torch.equal(parameter, other.get_parameter(name))
        else:
            assert parameter.unique().tolist() == ([0.0] if name.endswith("bias") else [1.0])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"width": 30}, "model: width 30 is no multiple of 4 heads; correct the model's settings"),
        ({"kv_heads": 3}, "model: 4 heads are no multiple of 3 kv_heads; correct the model's settings"),
        (
            {"width": 12, "positions": "rope"},
            "model: rope needs an even head width, not 3; correct the model's settings",
        ),
        (
            {"rotary_fraction": 0.5},
            "model: rotary_fraction 0.5 needs positions rope, not learned; correct the model's settings",
        ),
        (
            {"positions": "rope", "rotary_fraction": 0.125},
            "model: rotary_fraction 0.125 rotates 1 of 8 values of a head, no even number of at least 2; "
            "correct the model's settings",
        ),
        ({"dropout": 1.0}, "dropout: must be below 1 (got 1.0); correct the value"),
        (
            {"attention_width": 30},
            "model: attention_width 30 is no multiple of 4 heads; correct the model's settings",
        ),
        (
            {"positions": "sinusoidal", "width": 9, "heads": 3, "kv_heads": 3},
            "model: positions sinusoidal need an even width, not 9; correct the model's settings",
        ),
        (
            {"positions": "rope", "position_offset": 2},
            "model: position_offset 2 needs learned positions, not rope; correct the model's settings",
        ),
        (
            {"attention_pattern": ["full", "window"]},
            "model: attention_pattern [full, window] needs a window, and window is null; correct the model's settings",
        ),
        (
            {"window": 8},
            "model: window 8 is in no layer of attention_pattern [full]; correct the model's settings",
        ),
        (
            {"window": 8, "attention_pattern": ["window"], "window_theta": 1e4},
            "model: window_theta 10000.0 needs positions rope, not learned, and a window; correct the model's settings",
        ),
        (
            {"shared_stacks": True},
            "model: shared_stacks true needs stack encoder_decoder, not decoder; correct the model's settings",
        ),
        (
            {"shared_stacks": True, "stack": "encoder_decoder", "encoder_layers": 3},
            "model: shared_stacks true needs as many layers in both stacks, not 3 and 2; correct the model's settings",
        ),
        ({"layers": 0}, "layers: must be at least 1 (got 0); correct the value"),
    ],
)
def test_impossible_shapes_are_refused(change, message):
    values = {"layers": 2, "width": 32, "heads": 4, "kv_heads": 4, "context": 24, "mlp_width": 64}
    with pytest.raises(ConfigError) as error:
        decode(ModelConfig, values | change)
    assert str(error.value) == message


@pytest.mark.slow
@pytest.mark.parametrize("config", [GPT2, LLAMA], ids=["gpt2", "llama"])
def test_compiled_layers_compute_the_same(config):
    """Loss and gradients, and that the second layer and other rows take the graph of the first."""
    torch.compiler.reset()
    for number, documents in enumerate(([0] * 24, [0] * 9 + [1] * 15)):
        results = []
        for compiled in (False, True):
            model = random_model(config).train()
            if compiled:
                compile_blocks(model)
            assert set(model.state_dict()) == set(random_model(config).state_dict())
            tokens = torch.arange(24)[None] + number
            with torch.compiler.set_stance("fail_on_recompile" if number else "default"):
                loss = model(tokens, torch.arange(24)[None], torch.tensor([documents]), tokens) / 24
                loss.backward()
            results.append([loss.detach(), *(p.grad for p in model.parameters())])
        torch.testing.assert_close(*results, rtol=0, atol=1e-5)


FIRST_CALLS = """
from headrace.train.config import ModelConfig
from headrace.train.model import transformer

for _ in range(2):
    transformer.Transformer(ModelConfig(layers=1, width=8, heads=1, kv_heads=1, mlp_width=16, context=4), vocabulary=5)
print(transformer.settle.cache_info().misses)
"""


@pytest.mark.slow
def test_the_first_model_of_a_process_calls_elementwise_functions_once() -> None:
    done = subprocess.run([sys.executable, "-c", FIRST_CALLS], capture_output=True, text=True, check=True, timeout=300)
    assert done.stdout == "1\n"

"""The exported folder in ``transformers``, and folders of ``transformers`` here."""

import dataclasses
import json

import pytest
import torch
import transformers
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

from headrace.pipeline.core.errors import ArtifactError
from headrace.train.config import ModelConfig
from headrace.train.families.hf_folder import export, load
from headrace.train.families.registry import OWN, family_of
from headrace.train.model.positions import frequencies
from headrace.train.model_shape import DynamicScaling, LinearScaling, Llama3Scaling, YarnScaling
from tests.train.conftest import END, bytes_tokenizer
from tests.train.model.test_transformer import (
    BANDED,
    BLOOM,
    GEMMA,
    GEMMA2,
    GPT1,
    GPT2,
    GPT_NEO,
    GPT_NEOX,
    LLAMA,
    MISTRAL,
    MPT,
    OLMO,
    OLMO2,
    OPT,
    QWEN2,
    QWEN3,
    STARCODER2,
    VOCABULARY,
    random_model,
)

SCALINGS = {
    "linear": LinearScaling(factor=4.0),
    "dynamic": DynamicScaling(factor=4.0),
    "yarn": YarnScaling(factor=4.0, original_context=8),
    "yarn-untruncated": YarnScaling(
        factor=8.0, original_context=12, beta_fast=2.0, beta_slow=0.5, truncate=False, attention_factor=1.3
    ),
    "llama3": Llama3Scaling(factor=8.0, original_context=12, high_frequency_factor=3.0),
}
SHAPES = {
    "gpt2": GPT2,
    "gpt2-untied": dataclasses.replace(GPT2, tied=False),
    "gpt2-gelu": dataclasses.replace(GPT2, activation="gelu_exact"),
    "gpt1": GPT1,
    "gpt_neo": GPT_NEO,
    "gpt_neo-full": dataclasses.replace(GPT_NEO, attention_pattern=("full",), window=None, tied=False),
    "mpt": MPT,
    "llama-gqa": LLAMA,
    "llama-tied": dataclasses.replace(LLAMA, tied=True, kv_heads=4, rope_theta=5e5),
    "llama-bias": dataclasses.replace(LLAMA, bias=True, kv_heads=1, attention_width=64),
    **{f"llama-{name}": dataclasses.replace(LLAMA, rope_scaling=scaling) for name, scaling in SCALINGS.items()},
    "mistral": MISTRAL,
    "qwen2": QWEN2,
    "qwen2-window": dataclasses.replace(QWEN2, layers=3, attention_pattern=("full", "window", "window"), window=5),
    "qwen2-yarn": dataclasses.replace(QWEN2, tied=False, rope_scaling=SCALINGS["yarn"]),
    "olmo": OLMO,
    "gemma": GEMMA,
    "opt": OPT,
    "bloom": BLOOM,
    "bloom-6-heads": dataclasses.replace(BLOOM, width=48, heads=6, kv_heads=6, mlp_width=192),
    "gpt_neox": GPT_NEOX,
    "gpt_neox-whole": dataclasses.replace(GPT_NEOX, rotary_fraction=1.0, rope_theta=5e5, tied=True),
    "gpt_neox-serial": dataclasses.replace(GPT_NEOX, norm_place="pre", activation="gelu"),
    "gpt_neox-yarn": dataclasses.replace(GPT_NEOX, rotary_fraction=0.5, rope_scaling=SCALINGS["yarn"]),
    "starcoder2": STARCODER2,
    "starcoder2-full": dataclasses.replace(STARCODER2, attention_pattern=("full",), window=None, norm_epsilon=1e-6),
    "starcoder2-untied": dataclasses.replace(STARCODER2, bias=False, tied=False),
    "qwen3": QWEN3,
    "qwen3-window": dataclasses.replace(QWEN3, attention_pattern=("window",), window=4),
    "qwen3-untied": dataclasses.replace(QWEN3, attention_width=None, tied=False),
    "olmo2": OLMO2,
    "gemma2": GEMMA2,
    "gemma2-uncapped": dataclasses.replace(GEMMA2, attention_cap=None, logit_cap=None, attention_scale_width=None),
}
CLASSES = {
    "gpt1": "OpenAIGPTLMHeadModel",
    "gpt_neo": "GPTNeoForCausalLM",
    "mpt": "MptForCausalLM",
    "mistral": "MistralForCausalLM",
    "qwen2": "Qwen2ForCausalLM",
    "olmo": "OlmoForCausalLM",
    "gemma": "GemmaForCausalLM",
    "gpt2": "GPT2LMHeadModel",
    "llama": "LlamaForCausalLM",
    "opt": "OPTForCausalLM",
    "bloom": "BloomForCausalLM",
    "gpt_neox": "GPTNeoXForCausalLM",
    "starcoder2": "Starcoder2ForCausalLM",
    "qwen3": "Qwen3ForCausalLM",
    "olmo2": "Olmo2ForCausalLM",
    "gemma2": "Gemma2ForCausalLM",
}
MIXTURES = {
    "llama-post": dataclasses.replace(LLAMA, norm_place="post"),
    "gpt1-narrow": dataclasses.replace(GPT1, mlp_width=64),
    "gpt2-banded": BANDED,
    "gpt2-qk-norm": dataclasses.replace(GPT2, qk_norm="head"),
    "qwen3-bias": dataclasses.replace(QWEN3, qkv_bias=True),
    "olmo-epsilon": dataclasses.replace(OLMO, norm_epsilon=1e-6),
    "mpt-6-heads": dataclasses.replace(MPT, width=48, heads=6, kv_heads=6, mlp_width=192),
    "gemma2-full": dataclasses.replace(GEMMA2, attention_pattern=("full", "window")),
    "gpt_neox-relu": dataclasses.replace(GPT_NEOX, activation="relu"),
    "starcoder2-alternating": dataclasses.replace(STARCODER2, attention_pattern=("window", "full")),
    "starcoder2-wide": dataclasses.replace(STARCODER2, attention_width=64),
    "opt-epsilon": dataclasses.replace(OPT, norm_epsilon=1e-6),
}
"""Shapes without a class in ``transformers``."""
MODEL_TYPES = (
    "openai-gpt, gpt2, gpt_neo, opt, bloom, mpt, gpt_neox, starcoder2, llama, mistral, qwen2, qwen3, olmo, olmo2, "
    "gemma, gemma2, bert, roberta, modernbert, electra, albert, t5, umt5 or bart"
)
FULL, WINDOW = "full_attention", "sliding_attention"
TOKENS = torch.randint(VOCABULARY, (2, 24), generator=torch.Generator().manual_seed(1))


def write(config: ModelConfig, folder) -> torch.Tensor:
    """Export a random model; its logits."""
    bytes_tokenizer().save(str(folder / "given.json"))
    model = random_model(config)
    export(model.named_parameters(), config, VOCABULARY, folder / "given.json", folder / "hf")
    return logits(model)


def logits(model) -> torch.Tensor:
    with torch.no_grad():
        return model(TOKENS, torch.arange(24)[None].expand(2, -1), torch.zeros_like(TOKENS))


@pytest.mark.parametrize(("name", "config"), SHAPES.items(), ids=SHAPES)
def test_transformers_gives_equal_logits(name, config, tmp_path):
    """Also on rows whose ends are padding, up to it."""
    ours = write(config, tmp_path)
    model, info = transformers.AutoModelForCausalLM.from_pretrained(
        tmp_path / "hf", output_loading_info=True, attn_implementation="eager"
    )
    assert not any(info[what] for what in ("missing_keys", "unexpected_keys", "mismatched_keys", "error_msgs"))
    with torch.no_grad():
        torch.testing.assert_close(model.eval()(TOKENS).logits, ours, rtol=0, atol=1e-4)
        is_text_BT = torch.arange(24) < torch.tensor([[24], [17]])
        padded = model(torch.where(is_text_BT, TOKENS, 0), attention_mask=is_text_BT.long()).logits
        torch.testing.assert_close(padded[is_text_BT], ours[is_text_BT], rtol=0, atol=1e-4)
    assert type(model).__name__ == CLASSES[name.partition("-")[0]]


@pytest.mark.parametrize(
    "name", [name for name in CLASSES if name != "llama"] + ["llama-gqa", "llama-llama3", "llama-yarn"]
)
def test_a_short_training_of_transformers_has_equal_losses(name, tmp_path):
    """20 updates by gradient descent from the same weights, on the same two rows."""
    write(SHAPES[name], tmp_path)
    theirs = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "hf", attn_implementation="eager")
    theirs.get_input_embeddings().padding_idx = None  # its embedding would not be trained
    ours, curves = load(tmp_path / "hf"), []
    positions_BT, targets_BT = torch.arange(23).expand(2, -1), TOKENS[:, 1:]
    for model in (ours, theirs.eval()):
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        losses = []
        for _ in range(20):
            if model is ours:
                loss = model(TOKENS[:, :-1], positions_BT, torch.zeros_like(positions_BT), targets_BT) / 46
            else:
                logits = model(TOKENS[:, :-1]).logits
                loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), targets_BT.flatten())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        curves.append(losses)
    assert curves[0] == pytest.approx(curves[1], rel=0, abs=1e-4)
    assert curves[0][-1] < curves[0][0] - 0.1


@pytest.mark.parametrize("config", [*SHAPES.values(), *MIXTURES.values()], ids=[*SHAPES, *MIXTURES])
def test_what_was_exported_loads(config, tmp_path):
    ours = write(config, tmp_path)
    model = load(tmp_path / "hf")
    assert model.config == config
    assert torch.equal(logits(model), ours)


@pytest.mark.parametrize("config", MIXTURES.values(), ids=MIXTURES)
def test_no_family_computes_a_mixture(config):
    assert family_of(config) is OWN


@pytest.mark.parametrize("config", SHAPES.values(), ids=SHAPES)
def test_what_transformers_wrote_loads(config, tmp_path):
    write(config, tmp_path)
    theirs = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "hf", attn_implementation="eager").eval()
    theirs.save_pretrained(tmp_path / "theirs")
    with torch.no_grad():
        torch.testing.assert_close(logits(load(tmp_path / "theirs")), theirs(TOKENS).logits, rtol=0, atol=1e-4)


@pytest.mark.parametrize(
    ("config", "absent"),
    [
        (dataclasses.replace(GPT_NEOX, rotary_fraction=0.5, rope_theta=5e5), ["rope_parameters"]),
        (STARCODER2, ["rope_parameters", "tie_word_embeddings", "head_dim"]),
    ],
    ids=["gpt_neox", "starcoder2"],
)
def test_the_fields_of_published_folders_are_read(config, absent, tmp_path):
    """Those of Pythia have ``rotary_pct`` and ``rotary_emb_base`` alone; of StarCoder2 ``rope_theta``, and no more."""
    write(config, tmp_path)
    file = tmp_path / "hf" / "config.json"
    values = json.loads(file.read_text())
    file.write_text(json.dumps({name: value for name, value in values.items() if name not in absent}))
    assert load(tmp_path / "hf").config == config


LEGACY = {
    "linear": {"type": "linear", "factor": 4},
    "yarn": {"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 8},
    "llama3": {
        "rope_type": "llama3",
        "factor": 8.0,
        "low_freq_factor": 1.0,
        "high_freq_factor": 3.0,
        "original_max_position_embeddings": 12,
    },
}


@pytest.mark.parametrize(("name", "older"), LEGACY.items(), ids=LEGACY)
@pytest.mark.parametrize("beside", [None, {"rope_type": "default", "rope_theta": 7.0}], ids=["alone", "beside"])
def test_scaled_rotations_in_the_fields_of_older_folders(name, older, beside, tmp_path):
    """``rope_scaling`` comes before ``rope_parameters``, as in transformers."""
    write(dataclasses.replace(LLAMA, rope_theta=500.0), tmp_path)
    file = tmp_path / "hf" / "config.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | {"rope_parameters": beside, "rope_scaling": older}))
    ours = load(tmp_path / "hf")
    assert ours.config == dataclasses.replace(LLAMA, rope_theta=500.0, rope_scaling=SCALINGS[name])
    theirs = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "hf", attn_implementation="eager").eval()
    with torch.no_grad():
        torch.testing.assert_close(logits(ours), theirs(TOKENS).logits, rtol=0, atol=1e-4)


def test_rotations_of_the_whole_context_are_scaled_as_those_of_transformers(tmp_path):
    """131,072 positions of LLaMA 3.1, whose frequencies are compared: its logits take too long."""
    parameters = {
        "rope_type": "llama3", "rope_theta": 5e5, "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
        "original_max_position_embeddings": 8192,
    }  # fmt: skip
    published = transformers.LlamaConfig(head_dim=128, max_position_embeddings=131072, rope_parameters=parameters)
    expected, _ = ROPE_INIT_FUNCTIONS["llama3"](published)
    scaling = Llama3Scaling(factor=8.0, original_context=8192)
    found = frequencies(128, 5e5, scaling, torch.device("cpu"))
    torch.testing.assert_close(found, expected, rtol=1e-6, atol=0)


def test_the_tokenizer_opens_in_transformers(tmp_path):
    write(GPT2, tmp_path)
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path / "hf")
    assert tokenizer("the mill ü").input_ids == bytes_tokenizer().encode("the mill ü").ids
    assert (tokenizer.eos_token, tokenizer.model_max_length) == (END, 24)
    assert tokenizer.eos_token_id == json.loads((tmp_path / "hf" / "config.json").read_text())["eos_token_id"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"model_type": "mamba"},
            f"holds a model of type 'mamba'; give a model of type {MODEL_TYPES}",
        ),
        ({"hidden_act": "relu"}, "has hidden_act='relu' in config.json; only 'silu' is computed"),
        (
            {"head_dim": 16},
            "holds blocks.0.attention.qkv.weight as (64, 32), by its config.json it is (128, 32); "
            "give a folder with whole weights",
        ),
        (
            {"num_hidden_layers": 3},
            "has no weight 'model.layers.2.input_layernorm.weight'; give a folder with whole weights",
        ),
        (
            {"rope_parameters": {"rope_type": "longrope"}},
            "has rope_type='longrope' in config.json; only default, linear, dynamic, yarn and llama3 are computed",
        ),
        (
            {"rope_parameters": None, "rope_scaling": {"type": "linear"}},
            "has no factor in config.json; give the config.json that belongs to the weights",
        ),
        (
            {"model_type": "olmo", "clip_qkv": 8.0},
            "has clip_qkv=8.0 in config.json; only None is computed",
        ),
        (
            {"model_type": "qwen2", "layer_types": [WINDOW, FULL]},
            f"has layer_types={[WINDOW, FULL]} and a window of None in config.json; "
            f"give each of 2 layers one of {WINDOW}, {FULL}",
        ),
        (
            {"model_type": "opt", "ffn_dim": 48, "word_embed_proj_dim": 16},
            "has word_embed_proj_dim=16 in config.json; only 32 is computed",
        ),
        (
            {"model_type": "opt", "ffn_dim": 48, "do_layer_norm_before": False},
            "has do_layer_norm_before=False in config.json; only True is computed",
        ),
        (
            {"model_type": "gpt_neox", "hidden_act": "relu", "attention_bias": True},
            "has hidden_act='relu' in config.json; only gelu, gelu_fast, gelu_new are computed",
        ),
        (
            {"model_type": "starcoder2"},
            "has hidden_act='silu' in config.json; only 'gelu_pytorch_tanh' is computed",
        ),
        (
            {"model_type": "qwen3", "attention_bias": True},
            "has attention_bias=True in config.json; only False is computed",
        ),
        (
            {"model_type": "gemma2", "layer_types": [FULL, FULL]},
            f"has layer_types={[FULL, FULL]} in config.json; only {[WINDOW, FULL]} is computed",
        ),
        (
            {"model_type": "albert", "num_hidden_groups": 2},
            "has num_hidden_groups=2 in config.json; only 1 is computed",
        ),
        (
            {"model_type": "gpt2", "scale_attn_weights": False},
            "has scale_attn_weights=False in config.json; only True is computed",
        ),
    ],
)
def test_what_cannot_be_computed_is_refused(change, message, tmp_path):
    write(LLAMA, tmp_path)
    config = tmp_path / "hf" / "config.json"
    config.write_text(json.dumps(json.loads(config.read_text()) | change))
    with pytest.raises(ArtifactError) as error:
        load(tmp_path / "hf")
    assert str(error.value) == f"{tmp_path / 'hf'}: {message}"

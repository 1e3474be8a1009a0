"""The exported folder in ``transformers``, and folders of ``transformers`` here."""

import dataclasses
import json

import pytest
import torch
import transformers

from headrace.pipeline.core.errors import ArtifactError
from headrace.train.config import ModelConfig
from headrace.train.families.hf_folder import export, load
from tests.train.conftest import END, bytes_tokenizer
from tests.train.model.test_transformer import GPT1, GPT2, LLAMA, VOCABULARY, random_model

SHAPES = {
    "gpt2": GPT2,
    "gpt2-untied": dataclasses.replace(GPT2, tied=False),
    "gpt1": GPT1,
    "llama-gqa": LLAMA,
    "llama-tied": dataclasses.replace(LLAMA, tied=True, kv_heads=4, rope_theta=5e5),
    "llama-bias": dataclasses.replace(LLAMA, bias=True, kv_heads=1),
}
CLASSES = {
    ("learned", "post"): "OpenAIGPTLMHeadModel",
    ("learned", "pre"): "GPT2LMHeadModel",
    ("rope", "pre"): "LlamaForCausalLM",
}
MIXTURES = {
    "gpt2-rope": dataclasses.replace(GPT2, positions="rope", kv_heads=2),
    "llama-post": dataclasses.replace(LLAMA, norm_place="post"),
    "gpt1-narrow": dataclasses.replace(GPT1, mlp_width=64),
}
"""Shapes without a class in ``transformers``."""
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


@pytest.mark.parametrize("config", SHAPES.values(), ids=SHAPES)
def test_transformers_gives_equal_logits(config, tmp_path):
    ours = write(config, tmp_path)
    model, info = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "hf", output_loading_info=True)
    assert not any(info[what] for what in ("missing_keys", "unexpected_keys", "mismatched_keys", "error_msgs"))
    with torch.no_grad():
        torch.testing.assert_close(model.eval()(TOKENS).logits, ours, rtol=0, atol=1e-4)
    assert type(model).__name__ == CLASSES[config.positions, config.norm_place]


@pytest.mark.parametrize("config", [*SHAPES.values(), *MIXTURES.values()], ids=[*SHAPES, *MIXTURES])
def test_what_was_exported_loads(config, tmp_path):
    ours = write(config, tmp_path)
    model = load(tmp_path / "hf")
    assert model.config == config
    assert torch.equal(logits(model), ours)


@pytest.mark.parametrize("config", SHAPES.values(), ids=SHAPES)
def test_what_transformers_wrote_loads(config, tmp_path):
    write(config, tmp_path)
    theirs = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "hf").eval()
    theirs.save_pretrained(tmp_path / "theirs")
    with torch.no_grad():
        torch.testing.assert_close(logits(load(tmp_path / "theirs")), theirs(TOKENS).logits, rtol=0, atol=1e-4)


def test_weights_without_a_head_load(tmp_path):
    ours = write(GPT2, tmp_path)
    bare = transformers.GPT2Model.from_pretrained(tmp_path / "hf")
    bare.save_pretrained(tmp_path / "bare")
    torch.testing.assert_close(logits(load(tmp_path / "bare")), ours, rtol=0, atol=1e-4)


def test_the_tokenizer_opens_in_transformers(tmp_path):
    write(GPT2, tmp_path)
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path / "hf")
    assert tokenizer("the mill ü").input_ids == bytes_tokenizer().encode("the mill ü").ids
    assert (tokenizer.eos_token, tokenizer.model_max_length) == (END, 24)
    assert tokenizer.eos_token_id == json.loads((tmp_path / "hf" / "config.json").read_text())["eos_token_id"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"model_type": "bert"}, "holds a model of type 'bert'; give a model of type openai-gpt, gpt2 or llama"),
        ({"hidden_act": "relu"}, "has hidden_act='relu' in config.json; only 'silu' is computed"),
        ({"head_dim": 16}, "has head_dim=16 in config.json; only 8 is computed"),
        (
            {"num_hidden_layers": 3},
            "has no weight 'model.layers.2.input_layernorm.weight'; give a folder with whole weights",
        ),
        (
            {"rope_parameters": {"rope_type": "llama3"}},
            "has rope_type='llama3' in config.json; only 'default' is computed",
        ),
        (
            {"rope_parameters": None, "rope_scaling": {"type": "linear", "factor": 4.0}},
            "has rope_type='linear' in config.json; only 'default' is computed",
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


def test_an_empty_folder_is_refused(tmp_path):
    with pytest.raises(ArtifactError, match=r"has no config.json; give the folder of a Hugging Face model$"):
        load(tmp_path)

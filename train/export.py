"""Hugging Face's folder of a model, written for ``transformers`` to open, and read.

    hf/
        config.json             the shape, under Hugging Face's names
        model.safetensors       fp32 weights, under Hugging Face's names; a tied head is left out
        tokenizer.json          as the tokenizer stage left it
        tokenizer_config.json   which token ends a document, how long a context is

Names are translated by train/families.py. A mixture of both families has no class in ``transformers``: its folder holds
our own names, and ``load`` reads it.
"""

import dataclasses
import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer
from torch import Tensor

from pipeline.core.artifact import read_json, write_json
from pipeline.core.errors import ArtifactError
from pipeline.core.settings import decode
from train.config import ModelConfig
from train.families import GPT2, LLAMA, Family, family_of
from train.model.transformer import Transformer

END_OF_TEXT = "<|endoftext|>"
WEIGHTS = "model.safetensors"
OWN_TYPE = "headrace"


def export(
    weights: Iterable[tuple[str, Tensor]], config: ModelConfig, vocabulary: int, tokenizer_file: Path, folder: Path
) -> None:
    """Write ``weights`` (our names, fp32, tied ones once) and the tokenizer as Hugging Face's folder."""
    folder.mkdir(parents=True, exist_ok=True)
    family = family_of(config)
    tensors: dict[str, Tensor] = {}
    for name, value in weights:
        tensors.update(_abroad(name, value, config, family))
    save_file({name: value.contiguous() for name, value in tensors.items()}, folder / WEIGHTS, {"format": "pt"})
    end = Tokenizer.from_file(str(tokenizer_file)).token_to_id(END_OF_TEXT)
    write_json(folder / "config.json", {**_shape_abroad(config, family), "vocab_size": vocabulary, **_ends(end)})
    write_json(folder / "tokenizer_config.json", _tokenizer_config(config))
    shutil.copyfile(tokenizer_file, folder / "tokenizer.json")


def load(folder: Path) -> Transformer:
    """The model in Hugging Face's ``folder``, in fp32 on the CPU, in evaluation mode.

    Raises:
        ArtifactError: when the folder is incomplete, or the model is of a kind that Transformer does not compute.
    """
    if not (folder / "config.json").is_file():
        raise ArtifactError(str(folder), "has no config.json", "give the folder of a Hugging Face model")
    foreign = read_json(folder / "config.json")
    config = _shape_home(folder, foreign)
    tensors: dict[str, Tensor] = {}
    for file in sorted(folder.glob("*.safetensors")):
        tensors.update(load_file(file))
    model = Transformer(config, foreign["vocab_size"])
    home = {name: _home(folder, name, tensors, config) for name, _ in model.named_parameters()}
    if config.tied:
        home["head.weight"] = home["embedding.weight"]
    model.load_state_dict({name: value.float() for name, value in home.items()})
    return model.eval()


def _split_sizes(name: str, config: ModelConfig) -> list[int]:
    if ".attention.qkv." in name:
        return [config.width, *[config.kv_heads * config.head_width] * 2]
    return [config.mlp_width, config.mlp_width]


def _is_transposed(name: str, value: Tensor, family: Family) -> bool:
    return family.transposed and name.startswith("blocks.") and value.dim() == 2


def _abroad(name: str, value: Tensor, config: ModelConfig, family: Family | None) -> dict[str, Tensor]:
    if family is None:
        return {name: value}
    names = family.names(name)
    if _is_transposed(name, value, family):
        value = value.T
    parts = value.split(_split_sizes(name, config)) if len(names) > 1 else (value,)
    return dict(zip(names, parts, strict=True))


def _home(folder: Path, name: str, tensors: Mapping[str, Tensor], config: ModelConfig) -> Tensor:
    family = family_of(config)
    found = []
    for foreign in family.names(name) if family else (name,):
        bare = foreign.partition(".")[2]  # weights of the bare model, without a head, lack the first part
        if foreign not in tensors and bare not in tensors:
            raise ArtifactError(str(folder), f"has no weight {foreign!r}", "give a folder with whole weights")
        found.append(tensors.get(foreign, tensors.get(bare)))
    value = torch.cat(found)
    return value.T if family and _is_transposed(name, value, family) else value


def _shape_abroad(config: ModelConfig, family: Family | None) -> dict[str, Any]:
    shared = {"tie_word_embeddings": config.tied, "dtype": "float32"}
    if family is GPT2:
        return shared | {
            "model_type": "gpt2",
            "architectures": ["GPT2LMHeadModel"],
            "n_layer": config.layers,
            "n_embd": config.width,
            "n_head": config.heads,
            "n_positions": config.context,
            "n_inner": config.mlp_width,
            "layer_norm_epsilon": config.norm_epsilon,
            "activation_function": "gelu_new",
            **dict.fromkeys(("embd_pdrop", "attn_pdrop", "resid_pdrop"), config.dropout),
        }
    if family is LLAMA:
        return shared | {
            "model_type": "llama",
            "architectures": ["LlamaForCausalLM"],
            "num_hidden_layers": config.layers,
            "hidden_size": config.width,
            "num_attention_heads": config.heads,
            "num_key_value_heads": config.kv_heads,
            "head_dim": config.head_width,
            "max_position_embeddings": config.context,
            "intermediate_size": config.mlp_width,
            "rms_norm_eps": config.norm_epsilon,
            "hidden_act": "silu",
            "rope_theta": config.rope_theta,
            "rope_parameters": {"rope_type": "default", "rope_theta": config.rope_theta},
            "attention_bias": config.bias,
            "mlp_bias": config.bias,
            "attention_dropout": config.dropout,
        }
    return {"model_type": OWN_TYPE, "shape": dataclasses.asdict(config)}


def _shape_home(folder: Path, foreign: Mapping[str, Any]) -> ModelConfig:
    kind = foreign.get("model_type")
    if kind == OWN_TYPE:
        return decode(ModelConfig, foreign["shape"])
    if kind == "gpt2":
        _require(folder, foreign, {"activation_function": "gelu_new", "scale_attn_by_inverse_layer_idx": False})
        return ModelConfig(
            layers=foreign["n_layer"],
            width=foreign["n_embd"],
            heads=foreign["n_head"],
            kv_heads=foreign["n_head"],
            context=foreign["n_positions"],
            mlp_width=foreign.get("n_inner") or 4 * foreign["n_embd"],
            norm_epsilon=foreign.get("layer_norm_epsilon", 1e-5),
            tied=foreign.get("tie_word_embeddings", True),
        )
    if kind == "llama":
        return _llama_home(folder, foreign)
    raise ArtifactError(str(folder), f"holds a model of type {kind!r}", "give a gpt2 or llama model")


def _llama_home(folder: Path, foreign: Mapping[str, Any]) -> ModelConfig:
    bias = foreign.get("attention_bias", False)
    heads = foreign["num_attention_heads"]
    head_width = foreign["hidden_size"] // heads
    rope = foreign.get("rope_parameters") or foreign.get("rope_scaling") or {}
    _require(folder, foreign, {"hidden_act": "silu", "mlp_bias": bias, "head_dim": head_width})
    _require(folder, rope, {"rope_type": "default"})
    return ModelConfig(
        layers=foreign["num_hidden_layers"],
        width=foreign["hidden_size"],
        heads=heads,
        kv_heads=foreign.get("num_key_value_heads") or heads,
        context=foreign["max_position_embeddings"],
        mlp_width=foreign["intermediate_size"],
        positions="rope",
        rope_theta=rope.get("rope_theta", foreign.get("rope_theta", 10_000.0)),
        norm="rmsnorm",
        norm_epsilon=foreign.get("rms_norm_eps", 1e-6),
        activation="swiglu",
        bias=bias,
        tied=foreign.get("tie_word_embeddings", False),
    )


def _require(folder: Path, foreign: Mapping[str, Any], values: Mapping[str, object]) -> None:
    for key, value in values.items():
        if foreign.get(key, value) not in (value, None):
            raise ArtifactError(
                str(folder), f"has {key}={foreign[key]!r} in config.json", f"only {value!r} is computed"
            )


def _ends(end: int | None) -> dict[str, int]:
    return {} if end is None else {"bos_token_id": end, "eos_token_id": end}


def _tokenizer_config(config: ModelConfig) -> dict[str, Any]:
    return {
        "tokenizer_class": "PreTrainedTokenizerFast",
        **dict.fromkeys(("bos_token", "eos_token", "unk_token"), END_OF_TEXT),
        "model_max_length": config.context,
        "clean_up_tokenization_spaces": False,
    }

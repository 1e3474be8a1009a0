"""The shape of a model in Hugging Face's config.json, both ways; free of torch, so that a run can be checked early.

    GPT-1   model_type openai-gpt        GPT-2   model_type gpt2        LLaMA   model_type llama

A mixture of their parts has no class in ``transformers``: its file has model_type headrace and holds our ModelConfig.
"""

import dataclasses
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from headrace.pipeline.core.errors import ArtifactError, ConfigError
from headrace.pipeline.core.settings import decode
from headrace.train.config import ModelConfig
from headrace.train.families.weight_names import GPT1, GPT2, LLAMA, Family

OWN_TYPE = "headrace"
WIDTHS_AND_HEADS = {
    "gpt2": ("n_embd", "n_head"),
    "openai-gpt": ("n_embd", "n_head"),
    "llama": ("hidden_size", "num_attention_heads"),
}
"""Types of models whose heads share the width evenly, unless config.json has a head_dim."""
SIZES = (
    *("n_layer", "n_embd", "n_head", "n_positions"),
    *("num_hidden_layers", "hidden_size", "num_attention_heads", "vocab_size"),
)
"""Names of sizes in config.json; each may be absent, or a list with one for each layer."""


def read_shape(folder: Path) -> tuple[ModelConfig, int]:
    """The shape in ``folder``/config.json, and the size of its vocabulary.

    Dropout is not read: no weight depends on it.

    Raises:
        ArtifactError: when there is none, or the model is of a kind that Transformer does not compute.
    """
    foreign = _read(folder)
    return _shape_home(folder, foreign), foreign["vocab_size"]


def is_ours(folder: Path) -> bool:
    """Whether ``Transformer`` computes the model whose config.json lies in ``folder``.

    Raises:
        ArtifactError: when there is no config.json.
    """
    foreign = _read(folder)
    try:
        _shape_home(folder, foreign)
    except (ArtifactError, ConfigError, KeyError, TypeError, ValueError):
        return False
    return True


def shape_abroad(config: ModelConfig, family: Family | None) -> dict[str, Any]:
    """What config.json says of ``config``, in the words of ``family``."""
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
    if family is GPT1:
        return shared | {
            "model_type": "openai-gpt",
            "architectures": ["OpenAIGPTLMHeadModel"],
            "n_layer": config.layers,
            "n_embd": config.width,
            "n_head": config.heads,
            "n_positions": config.context,
            "layer_norm_epsilon": config.norm_epsilon,
            "afn": "gelu",
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


def _read(folder: Path) -> dict[str, Any]:
    if not (folder / "config.json").is_file():
        raise ArtifactError(str(folder), "has no config.json", "give the folder of a Hugging Face model")
    try:
        found = json.loads((folder / "config.json").read_text(encoding="utf-8"))  # Mamba2's holds Infinity
    except (ValueError, RecursionError) as error:
        raise ArtifactError(str(folder), f"has a config.json that is not JSON ({error})", "fetch it again") from None
    if not isinstance(found, dict):
        wrong = f"has a config.json that holds no object but {type(found).__name__}"
        raise ArtifactError(str(folder), wrong, "fetch it again")
    _check_sizes(folder, found)
    if quantization := found.get("quantization_config"):
        method = quantization.get("quant_method", "unknown") if isinstance(quantization, dict) else quantization
        wrong = f"holds quantized weights (quantization_config in config.json: {method})"
        raise ArtifactError(str(folder), wrong, "give the folder of the weights in fp32, fp16 or bf16")
    return found


def _check_sizes(folder: Path, found: Mapping[str, Any]) -> None:
    """Refuse sizes that no model has, which libraries meet with errors of all kinds."""
    for name in SIZES:
        size = found.get(name)
        if isinstance(size, (int, float, str)) and (not isinstance(size, int) or size < 1):
            wrong = f"has {name}={size!r} in config.json"
            raise ArtifactError(str(folder), wrong, "give a whole number of at least 1 there")
    width, heads = WIDTHS_AND_HEADS.get(str(found.get("model_type")), ("", ""))
    are_whole = isinstance(found.get(width), int) and isinstance(found.get(heads), int)
    if are_whole and not found.get("head_dim") and found[width] % found[heads]:
        wrong = f"has {width}={found[width]} in config.json, no multiple of {heads}={found[heads]}"
        raise ArtifactError(str(folder), wrong, "give the config.json that belongs to the weights")


def _shape_home(folder: Path, foreign: Mapping[str, Any]) -> ModelConfig:
    kind = foreign.get("model_type")
    if kind == OWN_TYPE:
        return decode(ModelConfig, foreign["shape"])
    if kind == "gpt2":
        scaled = {"scale_attn_weights": True, "scale_attn_by_inverse_layer_idx": False}
        _require(folder, foreign, {"activation_function": "gelu_new", **scaled})
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
    if kind == "openai-gpt":
        return _gpt1_home(folder, foreign)
    if kind == "llama":
        return _llama_home(folder, foreign)
    raise ArtifactError(str(folder), f"holds a model of type {kind!r}", "give an openai-gpt, gpt2 or llama model")


def _gpt1_home(folder: Path, foreign: Mapping[str, Any]) -> ModelConfig:
    _require(folder, foreign, {"afn": "gelu"})  # GPT-1's class calls the tanh form so
    return ModelConfig(
        layers=foreign["n_layer"],
        width=foreign["n_embd"],
        heads=foreign["n_head"],
        kv_heads=foreign["n_head"],
        context=foreign["n_positions"],
        mlp_width=4 * foreign["n_embd"],
        norm_place="post",
        norm_epsilon=foreign.get("layer_norm_epsilon", 1e-5),
        tied=foreign.get("tie_word_embeddings", True),
    )


def _llama_home(folder: Path, foreign: Mapping[str, Any]) -> ModelConfig:
    bias = foreign.get("attention_bias", False)
    heads = foreign["num_attention_heads"]
    head_width = foreign["hidden_size"] // heads
    rope = foreign.get("rope_parameters") or foreign.get("rope_scaling") or {}
    _require(folder, foreign, {"hidden_act": "silu", "mlp_bias": bias, "head_dim": head_width})
    _require(folder, {"rope_type": rope.get("rope_type") or rope.get("type")}, {"rope_type": "default"})
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

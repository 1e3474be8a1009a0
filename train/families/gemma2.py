"""Gemma 2 (Gemma Team 2024): ``Gemma2ForCausalLM``.

``transformers`` applies the cap of attention only with ``attn_implementation="eager"``.
"""

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

from headrace.train.config import ModelConfig
from headrace.train.families.family import Family, Preset, common_fields, has_parts, require
from headrace.train.families.llama import Llama
from headrace.train.families.rotary import ROTARY, TYPES, rotary_from_hf, rotary_to_hf

VOCABULARY = 256_000
PARTS: Mapping[str, Any] = {
    "positions": "rope",
    "norm": "rmsnorm_1p",
    "norm_place": "sandwich",
    "activation": "geglu",
    "bias": False,
    "scaled_embedding": True,
    "attention_pattern": ("window", "full"),
}


class Gemma2(Family):
    """Normalized before and after each part, GEGLU, capped logits, and a window in every second layer."""

    model_type = "gemma2"
    weight_names = dataclasses.replace(
        Llama.weight_names,
        inner={
            **Llama.weight_names.inner,
            "attention_output_norm": ("post_attention_layernorm",),
            "mlp_norm": ("pre_feedforward_layernorm",),
            "mlp_output_norm": ("post_feedforward_layernorm",),
        },
    )
    defaults: ClassVar[Mapping[str, Any]] = {"num_key_value_heads": 4, "head_dim": 256}
    presets: ClassVar[Mapping[str, Preset]] = {
        "gemma2_2b": Preset(VOCABULARY, 2_614_341_888),  # huggingface.co/google/gemma-2-2b, and gemma-2-9b
        "gemma2_9b": Preset(VOCABULARY, 9_241_705_984),
    }

    def computes(self, config: ModelConfig) -> bool:
        free = ("attention_width", "attention_scale_width", "window", "attention_cap", "logit_cap", *ROTARY)
        return has_parts(config, *free, **PARTS)

    def to_hf_config(self, config: ModelConfig) -> dict[str, Any]:
        return {
            **common_fields(self.model_type, "Gemma2ForCausalLM", config),
            **rotary_to_hf(config),
            "hidden_activation": "gelu_pytorch_tanh",
            "attention_bias": False,
            "query_pre_attn_scalar": config.attention_scale_width or config.head_width,
            "sliding_window": config.window,
            "layer_types": [TYPES[attention] for attention in config.layer_attention],
            "attn_logit_softcapping": config.attention_cap,
            "final_logit_softcapping": config.logit_cap,
        }

    def from_hf_config(self, hf_config: Mapping[str, Any], folder: Path) -> ModelConfig:
        scalar = hf_config.get("query_pre_attn_scalar", 256)
        own = {
            "attention_scale_width": None if scalar == hf_config.get("head_dim") else scalar,
            "window": hf_config.get("sliding_window", 4096),
            "attention_cap": hf_config.get("attn_logit_softcapping", 50.0),
            "logit_cap": hf_config.get("final_logit_softcapping", 30.0),
            "tied": hf_config.get("tie_word_embeddings", True),
        }
        config = ModelConfig(**{**rotary_from_hf(hf_config, folder), **PARTS, **own})
        types = [TYPES[attention] for attention in config.layer_attention]
        activation = {"hidden_activation": "gelu_pytorch_tanh"}
        require(folder, hf_config, {**activation, "attention_bias": False, "layer_types": types})
        return config

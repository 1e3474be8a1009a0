"""Qwen3 (Yang et al. 2025), its dense models: ``Qwen3ForCausalLM``."""

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

from headrace.train.config import ModelConfig
from headrace.train.families.family import Family, Preset, common_fields, has_parts, require
from headrace.train.families.llama import Llama
from headrace.train.families.rotary import (
    ROTARY,
    has_shortest_pattern,
    rotary_from_hf,
    rotary_to_hf,
    windows_from_hf,
    windows_to_hf,
)

VOCABULARY = 151_936


class Qwen3(Family):
    """LLaMA's parts, a width of attention of its own, queries and keys normalized by head, a window in some layers."""

    model_type = "qwen3"
    weight_names = dataclasses.replace(
        Llama.weight_names,
        inner={
            **Llama.weight_names.inner,
            "attention.query_norm": ("self_attn.q_norm",),
            "attention.key_norm": ("self_attn.k_norm",),
        },
    )
    defaults: ClassVar[Mapping[str, Any]] = {"num_key_value_heads": 32, "head_dim": 128}
    presets: ClassVar[Mapping[str, Preset]] = {
        "qwen3_0_6b": Preset(VOCABULARY, 596_049_920),  # huggingface.co/Qwen/Qwen3-0.6B, and Qwen3-8B
        "qwen3_8b": Preset(VOCABULARY, 8_190_735_360),
    }

    def computes(self, config: ModelConfig) -> bool:
        parts = {"positions": "rope", "norm": "rmsnorm", "activation": "swiglu", "bias": False, "qk_norm": "head"}
        free = ("attention_width", "attention_pattern", "window", *ROTARY)
        return has_shortest_pattern(config) and has_parts(config, *free, **parts)

    def to_hf_config(self, config: ModelConfig) -> dict[str, Any]:
        common = common_fields(self.model_type, "Qwen3ForCausalLM", config)
        shared = {**rotary_to_hf(config), **windows_to_hf(config)}
        return {**common, **shared, "hidden_act": "silu", "attention_bias": False}

    def from_hf_config(self, hf_config: Mapping[str, Any], folder: Path) -> ModelConfig:
        require(folder, hf_config, {"hidden_act": "silu", "attention_bias": False})
        shared = {**rotary_from_hf(hf_config, folder), **windows_from_hf(hf_config, folder)}
        return ModelConfig(**shared, activation="swiglu", bias=False, qk_norm="head")

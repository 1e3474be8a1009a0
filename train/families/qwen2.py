"""Qwen2 and Qwen2.5 (Yang et al. 2024), their dense models: ``Qwen2ForCausalLM``."""

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

PARTS: Mapping[str, Any] = {
    "positions": "rope",
    "norm": "rmsnorm",
    "activation": "swiglu",
    "bias": False,
    "qkv_bias": True,
}


class Qwen2(Family):
    """LLaMA's parts with biases of queries, keys and values, and a window in some layers or none."""

    model_type = "qwen2"
    weight_names = Llama.weight_names
    width_and_heads = Llama.width_and_heads
    defaults: ClassVar[Mapping[str, Any]] = {"num_key_value_heads": 32}
    presets: ClassVar[Mapping[str, Preset]] = {
        "qwen2_0_5b": Preset(151_936, 494_032_768),  # huggingface.co/Qwen/Qwen2.5-0.5B
    }

    def computes(self, config: ModelConfig) -> bool:
        return has_shortest_pattern(config) and has_parts(config, "attention_pattern", "window", *ROTARY, **PARTS)

    def to_hf_config(self, config: ModelConfig) -> dict[str, Any]:
        common = common_fields(self.model_type, "Qwen2ForCausalLM", config)
        return {**common, **rotary_to_hf(config), **windows_to_hf(config), "hidden_act": "silu"}

    def from_hf_config(self, hf_config: Mapping[str, Any], folder: Path) -> ModelConfig:
        require(folder, hf_config, {"hidden_act": "silu"})
        return ModelConfig(**{**rotary_from_hf(hf_config, folder), **windows_from_hf(hf_config, folder), **PARTS})

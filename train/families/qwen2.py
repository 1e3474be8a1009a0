"""Qwen2 and Qwen2.5 (Yang et al. 2024), their dense models: ``Qwen2ForCausalLM``."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

from headrace.train.config import ModelConfig
from headrace.train.families.family import FieldTable, Preset
from headrace.train.families.rotary import (
    RMS_EPSILON,
    RotaryFamily,
    has_shortest_pattern,
    windows_from_hf,
    windows_to_hf,
)


class Qwen2(RotaryFamily):
    """LLaMA's parts with biases of queries, keys and values, and a window in some layers or none."""

    model_type = "qwen2"
    architecture = "Qwen2ForCausalLM"
    parts: ClassVar[FieldTable] = RotaryFamily.parts | {"qkv_bias": True}
    free: ClassVar[tuple[str, ...]] = ("attention_pattern", "window", "rope_scaling")
    defaults: ClassVar[FieldTable] = RMS_EPSILON | {"num_key_value_heads": 32}
    presets: ClassVar[Mapping[str, Preset]] = {
        "qwen2_0_5b": Preset(151_936, 494_032_768),  # huggingface.co/Qwen/Qwen2.5-0.5B
    }

    def computes(self, config: ModelConfig) -> bool:
        return has_shortest_pattern(config) and super().computes(config)

    def further_to_hf(self, config: ModelConfig) -> dict[str, Any]:
        return {**super().further_to_hf(config), **windows_to_hf(config)}

    def further_from_hf(self, hf_config: Mapping[str, Any], folder: Path) -> dict[str, Any]:
        return {**super().further_from_hf(hf_config, folder), **windows_from_hf(hf_config, folder)}

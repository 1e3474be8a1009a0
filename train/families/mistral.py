"""Mistral (Jiang et al. 2023): ``MistralForCausalLM``. Without a window it is LLaMA."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

from headrace.train.config import ModelConfig
from headrace.train.families.family import FieldTable, Preset
from headrace.train.families.rotary import RMS_EPSILON, RotaryFamily, has_one_mask, one_mask


class Mistral(RotaryFamily):
    """LLaMA's parts with one window in all layers, or none."""

    model_type = "mistral"
    architecture = "MistralForCausalLM"
    free: ClassVar[tuple[str, ...]] = ("attention_pattern", "window", "attention_width", "rope_scaling")
    defaults: ClassVar[FieldTable] = RMS_EPSILON | {"num_key_value_heads": 8, "sliding_window": 4096}
    presets: ClassVar[Mapping[str, Preset]] = {
        "mistral_7b": Preset(32_000, 7_241_732_096),  # huggingface.co/mistralai/Mistral-7B-v0.1
    }

    def computes(self, config: ModelConfig) -> bool:
        return has_one_mask(config) and super().computes(config)

    def further_to_hf(self, config: ModelConfig) -> dict[str, Any]:
        return {**super().further_to_hf(config), "sliding_window": config.window}

    def further_from_hf(self, hf_config: Mapping[str, Any], folder: Path) -> dict[str, Any]:
        return {**super().further_from_hf(hf_config, folder), **one_mask(hf_config.get("sliding_window"))}

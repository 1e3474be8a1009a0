"""Mistral (Jiang et al. 2023): ``MistralForCausalLM``. Without a window it is LLaMA."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

from headrace.train.config import ModelConfig
from headrace.train.families.family import Family, Preset, common_fields, has_parts, require
from headrace.train.families.llama import Llama
from headrace.train.families.rotary import ROTARY, rotary_from_hf, rotary_to_hf


class Mistral(Family):
    """LLaMA's parts with one window in all layers, or none."""

    model_type = "mistral"
    weight_names = Llama.weight_names
    defaults: ClassVar[Mapping[str, Any]] = {"num_key_value_heads": 8, "sliding_window": 4096}
    presets: ClassVar[Mapping[str, Preset]] = {
        "mistral_7b": Preset(32_000, 7_241_732_096),  # huggingface.co/mistralai/Mistral-7B-v0.1
    }

    def computes(self, config: ModelConfig) -> bool:
        parts = {"positions": "rope", "norm": "rmsnorm", "activation": "swiglu", "bias": False}
        has_one_mask = config.attention_pattern in (("full",), ("window",))
        return has_one_mask and has_parts(config, "attention_pattern", "window", "attention_width", *ROTARY, **parts)

    def to_hf_config(self, config: ModelConfig) -> dict[str, Any]:
        common = common_fields(self.model_type, "MistralForCausalLM", config)
        return {**common, **rotary_to_hf(config), "hidden_act": "silu", "sliding_window": config.window}

    def from_hf_config(self, hf_config: Mapping[str, Any], folder: Path) -> ModelConfig:
        require(folder, hf_config, {"hidden_act": "silu"})
        window = hf_config.get("sliding_window")
        own: dict[str, Any] = {"attention_pattern": ("full",) if window is None else ("window",), "window": window}
        return ModelConfig(**rotary_from_hf(hf_config, folder), **own, activation="swiglu", bias=False)

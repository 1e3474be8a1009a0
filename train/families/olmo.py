"""OLMo (Groeneveld et al. 2024): ``OlmoForCausalLM``."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

from headrace.train.config import ModelConfig
from headrace.train.families.family import Family, Preset, common_fields, has_parts, require
from headrace.train.families.llama import Llama
from headrace.train.families.rotary import ROTARY, rotary_from_hf, rotary_to_hf

VOCABULARY = 50_304
EPSILON = 1e-5
"""The class has no field for it."""
PARTS: Mapping[str, Any] = {"positions": "rope", "norm": "layernorm_plain", "activation": "swiglu", "bias": False}


class Olmo(Family):
    """LLaMA's parts with LayerNorm without weights."""

    model_type = "olmo"
    weight_names = Llama.weight_names
    width_and_heads = Llama.width_and_heads
    presets: ClassVar[Mapping[str, Preset]] = {
        "olmo_1b": Preset(VOCABULARY, 1_176_764_416),  # huggingface.co/allenai/OLMo-1B-hf
    }

    def computes(self, config: ModelConfig) -> bool:
        return config.norm_epsilon == EPSILON and has_parts(config, *ROTARY, **PARTS)

    def to_hf_config(self, config: ModelConfig) -> dict[str, Any]:
        shared = rotary_to_hf(config)
        del shared["rms_norm_eps"], shared["head_dim"]
        common = common_fields(self.model_type, "OlmoForCausalLM", config)
        return {**common, **shared, "hidden_act": "silu", "attention_bias": False, "clip_qkv": None}

    def from_hf_config(self, hf_config: Mapping[str, Any], folder: Path) -> ModelConfig:
        require(folder, hf_config, {"hidden_act": "silu", "attention_bias": False, "clip_qkv": None})
        return ModelConfig(**{**rotary_from_hf(hf_config, folder), **PARTS, "norm_epsilon": EPSILON})

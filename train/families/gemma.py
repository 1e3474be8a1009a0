"""Gemma (Gemma Team 2024), its first version: ``GemmaForCausalLM``."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

from headrace.train.config import ModelConfig
from headrace.train.families.family import Family, Preset, common_fields, has_parts, require
from headrace.train.families.llama import Llama
from headrace.train.families.rotary import ROTARY, rotary_from_hf, rotary_to_hf

VOCABULARY = 256_000
PARTS: Mapping[str, Any] = {
    "positions": "rope",
    "norm": "rmsnorm_1p",
    "activation": "geglu",
    "bias": False,
    "scaled_embedding": True,
}


class Gemma(Family):
    """LLaMA's parts with GEGLU, scaled embeddings, and weights of norms that are added to 1."""

    model_type = "gemma"
    weight_names = Llama.weight_names
    defaults: ClassVar[Mapping[str, Any]] = {"num_key_value_heads": 16, "head_dim": 256}
    presets: ClassVar[Mapping[str, Preset]] = {
        "gemma_2b": Preset(VOCABULARY, 2_506_172_416),  # huggingface.co/google/gemma-2b
    }

    def computes(self, config: ModelConfig) -> bool:
        return has_parts(config, "attention_width", *ROTARY, **PARTS)

    def to_hf_config(self, config: ModelConfig) -> dict[str, Any]:
        return {
            **common_fields(self.model_type, "GemmaForCausalLM", config),
            **rotary_to_hf(config),
            **dict.fromkeys(("hidden_act", "hidden_activation"), "gelu_pytorch_tanh"),
            "attention_bias": False,
        }

    def from_hf_config(self, hf_config: Mapping[str, Any], folder: Path) -> ModelConfig:
        own = {"tied": hf_config.get("tie_word_embeddings", True)}
        require(folder, hf_config, {"attention_bias": False, "use_bidirectional_attention": False})
        return ModelConfig(**{**rotary_from_hf(hf_config, folder), **PARTS, **own})

"""OLMo 2 (Walsh et al. 2025): ``Olmo2ForCausalLM``."""

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

from headrace.train.config import ModelConfig
from headrace.train.families.family import Family, Preset, common_fields, has_parts, require
from headrace.train.families.llama import Llama
from headrace.train.families.rotary import ROTARY, rotary_from_hf, rotary_to_hf

VOCABULARY = 100_352


class Olmo2(Family):
    """LLaMA's parts, normalized after attention and feed-forward layer, with normalized queries and keys."""

    model_type = "olmo2"
    weight_names = dataclasses.replace(
        Llama.weight_names,
        inner={
            "attention.qkv": Llama.weight_names.inner["attention.qkv"],
            "attention.query_norm": ("self_attn.q_norm",),
            "attention.key_norm": ("self_attn.k_norm",),
            "attention.output": ("self_attn.o_proj",),
            "attention_output_norm": ("post_attention_layernorm",),
            "mlp.up": Llama.weight_names.inner["mlp.up"],
            "mlp.down": ("mlp.down_proj",),
            "mlp_output_norm": ("post_feedforward_layernorm",),
        },
    )
    width_and_heads = Llama.width_and_heads
    defaults: ClassVar[Mapping[str, Any]] = {"rms_norm_eps": 1e-5}
    presets: ClassVar[Mapping[str, Preset]] = {
        "olmo2_1b": Preset(VOCABULARY, 1_484_916_736),  # huggingface.co/allenai/OLMo-2-0425-1B, and OLMo-2-1124-7B
        "olmo2_7b": Preset(VOCABULARY, 7_298_617_344),
    }

    def computes(self, config: ModelConfig) -> bool:
        parts = {"positions": "rope", "norm": "rmsnorm", "norm_place": "after", "activation": "swiglu", "bias": False}
        return has_parts(config, *ROTARY, **parts, qk_norm="width")

    def to_hf_config(self, config: ModelConfig) -> dict[str, Any]:
        common = common_fields(self.model_type, "Olmo2ForCausalLM", config)
        return {**common, **rotary_to_hf(config), "hidden_act": "silu", "attention_bias": False}

    def from_hf_config(self, hf_config: Mapping[str, Any], folder: Path) -> ModelConfig:
        require(folder, hf_config, {"hidden_act": "silu", "attention_bias": False})
        return ModelConfig(
            **rotary_from_hf(hf_config, folder), norm_place="after", activation="swiglu", bias=False, qk_norm="width"
        )

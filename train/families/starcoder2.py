"""StarCoder2 (Lozhkov et al. 2024): ``Starcoder2ForCausalLM``."""

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

from headrace.train.config import ModelConfig
from headrace.train.families.family import Family, Preset, common_fields, has_parts, require
from headrace.train.families.llama import Llama
from headrace.train.families.rotary import ROTARY, rotary_from_hf, rotary_to_hf

VOCABULARY = 49_152
PARTS: Mapping[str, Any] = {"positions": "rope", "norm": "layernorm", "norm_place": "pre", "activation": "gelu"}


class Starcoder2(Family):
    """GPT-2's parts with rotary positions, fewer key/value heads, and one window in all layers, or none."""

    model_type = "starcoder2"
    weight_names = dataclasses.replace(
        Llama.weight_names,
        inner={**Llama.weight_names.inner, "mlp.up": ("mlp.c_fc",), "mlp.down": ("mlp.c_proj",)},
    )
    width_and_heads = Llama.width_and_heads
    defaults: ClassVar[Mapping[str, Any]] = {"num_key_value_heads": 2}
    presets: ClassVar[Mapping[str, Preset]] = {
        "starcoder2_3b": Preset(VOCABULARY, 3_030_371_328),  # huggingface.co/bigcode/starcoder2-3b and its siblings
        "starcoder2_7b": Preset(VOCABULARY, 7_173_923_840),
        "starcoder2_15b": Preset(VOCABULARY, 15_957_889_024),
    }

    def computes(self, config: ModelConfig) -> bool:
        has_one_mask = config.attention_pattern in (("full",), ("window",))
        return has_one_mask and has_parts(config, "attention_pattern", "window", "bias", *ROTARY, **PARTS)

    def to_hf_config(self, config: ModelConfig) -> dict[str, Any]:
        shared = rotary_to_hf(config)
        del shared["rms_norm_eps"]
        return {
            **common_fields(self.model_type, "Starcoder2ForCausalLM", config),
            **shared,
            "norm_epsilon": config.norm_epsilon,
            "hidden_act": "gelu_pytorch_tanh",
            "use_bias": config.bias,
            "sliding_window": config.window,
            **dict.fromkeys(("embedding_dropout", "residual_dropout"), config.dropout),
        }

    def from_hf_config(self, hf_config: Mapping[str, Any], folder: Path) -> ModelConfig:
        require(folder, hf_config, {"hidden_act": "gelu_pytorch_tanh"})
        window = hf_config.get("sliding_window")
        own = {
            "norm_epsilon": hf_config.get("norm_epsilon", 1e-5),
            "bias": hf_config.get("use_bias", True),
            "tied": hf_config.get("tie_word_embeddings", True),
            "attention_pattern": ("full",) if window is None else ("window",),
            "window": window,
        }
        return ModelConfig(**{**rotary_from_hf(hf_config, folder), **PARTS, **own})

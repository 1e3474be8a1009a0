"""Gemma 2 (Gemma Team 2024): ``Gemma2ForCausalLM``.

``transformers`` applies the cap of attention only with ``attn_implementation="eager"``.
"""

import dataclasses
import itertools
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

from headrace.train.config import ModelConfig
from headrace.train.families.family import FieldTable, Preset, require
from headrace.train.families.gemma import Gemma
from headrace.train.families.rotary import RMS_EPSILON, TYPES, RotaryFamily

VOCABULARY = 256_000


class Gemma2(RotaryFamily):
    """Normalized before and after each part, GEGLU, capped logits, and a window in every second layer."""

    model_type = "gemma2"
    architecture = "Gemma2ForCausalLM"
    parts: ClassVar[FieldTable] = Gemma.parts | {
        "norm_place": "sandwich",
        "attention_pattern": ("window", "full"),
    }
    free: ClassVar[tuple[str, ...]] = (
        "attention_width",
        "attention_scale_width",
        "window",
        "attention_cap",
        "logit_cap",
        "rope_scaling",
    )
    ties_by_default = True
    fixed: ClassVar[FieldTable] = {"hidden_activation": "gelu_pytorch_tanh", "attention_bias": False}
    weight_names = dataclasses.replace(
        RotaryFamily.weight_names,
        inner={
            **RotaryFamily.weight_names.inner,
            "attention_output_norm": ("post_attention_layernorm",),
            "mlp_norm": ("pre_feedforward_layernorm",),
            "mlp_output_norm": ("post_feedforward_layernorm",),
        },
    )
    defaults: ClassVar[FieldTable] = RMS_EPSILON | {"num_key_value_heads": 4, "head_dim": 256}
    presets: ClassVar[Mapping[str, Preset]] = {
        "gemma2_2b": Preset(VOCABULARY, 2_614_341_888),  # huggingface.co/google/gemma-2-2b, and gemma-2-9b
        "gemma2_9b": Preset(VOCABULARY, 9_241_705_984),
    }

    def further_to_hf(self, config: ModelConfig) -> dict[str, Any]:
        return {
            **super().further_to_hf(config),
            "query_pre_attn_scalar": config.attention_scale_width or config.head_width,
            "sliding_window": config.window,
            "layer_types": [TYPES[attention] for attention in config.layer_attention],
            "attn_logit_softcapping": config.attention_cap,
            "final_logit_softcapping": config.logit_cap,
        }

    def further_from_hf(self, hf_config: Mapping[str, Any], folder: Path) -> dict[str, Any]:
        types = itertools.islice(itertools.cycle((TYPES["window"], TYPES["full"])), hf_config["num_hidden_layers"])
        require(folder, hf_config, {"layer_types": list(types)})
        scalar = hf_config.get("query_pre_attn_scalar", 256)
        return {
            **super().further_from_hf(hf_config, folder),
            "attention_scale_width": None if scalar == hf_config.get("head_dim") else scalar,
            "window": hf_config.get("sliding_window", 4096),
            "attention_cap": hf_config.get("attn_logit_softcapping", 50.0),
            "logit_cap": hf_config.get("final_logit_softcapping", 30.0),
        }

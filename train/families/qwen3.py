"""Qwen3 (Yang et al. 2025), its dense models: ``Qwen3ForCausalLM``."""

import dataclasses
from collections.abc import Mapping
from typing import ClassVar

from headrace.train.families.family import FieldTable, Preset
from headrace.train.families.qwen2 import Qwen2
from headrace.train.families.rotary import RMS_EPSILON, RotaryFamily

VOCABULARY = 151_936


class Qwen3(Qwen2):
    """LLaMA's parts, a width of attention of its own, queries and keys normalized by head, a window in some layers."""

    model_type = "qwen3"
    architecture = "Qwen3ForCausalLM"
    parts: ClassVar[FieldTable] = RotaryFamily.parts | {"qk_norm": "head"}
    free: ClassVar[tuple[str, ...]] = ("attention_width", *Qwen2.free)
    fixed: ClassVar[FieldTable] = Qwen2.fixed | {"attention_bias": False}
    weight_names = dataclasses.replace(
        RotaryFamily.weight_names,
        inner={
            **RotaryFamily.weight_names.inner,
            "attention.query_norm": ("self_attn.q_norm",),
            "attention.key_norm": ("self_attn.k_norm",),
        },
    )
    defaults: ClassVar[FieldTable] = RMS_EPSILON | {"num_key_value_heads": 32, "head_dim": 128}
    presets: ClassVar[Mapping[str, Preset]] = {
        "qwen3_0_6b": Preset(VOCABULARY, 596_049_920),  # huggingface.co/Qwen/Qwen3-0.6B, and Qwen3-8B
        "qwen3_8b": Preset(VOCABULARY, 8_190_735_360),
    }

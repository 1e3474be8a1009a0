"""OLMo 2 (Walsh et al. 2025): ``Olmo2ForCausalLM``."""

import dataclasses
from collections.abc import Mapping
from typing import ClassVar

from headrace.train.families.family import FieldTable, Preset
from headrace.train.families.rotary import RotaryFamily

VOCABULARY = 100_352


class Olmo2(RotaryFamily):
    """LLaMA's parts, normalized after attention and feed-forward layer, with normalized queries and keys."""

    model_type = "olmo2"
    architecture = "Olmo2ForCausalLM"
    parts: ClassVar[FieldTable] = RotaryFamily.parts | {"norm_place": "after", "qk_norm": "width"}
    fixed: ClassVar[FieldTable] = RotaryFamily.fixed | {"attention_bias": False}
    weight_names = dataclasses.replace(
        RotaryFamily.weight_names,
        inner={
            "attention.qkv": RotaryFamily.weight_names.inner["attention.qkv"],
            "attention.query_norm": ("self_attn.q_norm",),
            "attention.key_norm": ("self_attn.k_norm",),
            "attention.output": ("self_attn.o_proj",),
            "attention_output_norm": ("post_attention_layernorm",),
            "mlp.up": RotaryFamily.weight_names.inner["mlp.up"],
            "mlp.down": ("mlp.down_proj",),
            "mlp_output_norm": ("post_feedforward_layernorm",),
        },
    )
    defaults: ClassVar[FieldTable] = {"rms_norm_eps": 1e-5}
    presets: ClassVar[Mapping[str, Preset]] = {
        "olmo2_1b": Preset(VOCABULARY, 1_484_916_736),  # huggingface.co/allenai/OLMo-2-0425-1B, and OLMo-2-1124-7B
        "olmo2_7b": Preset(VOCABULARY, 7_298_617_344),
    }

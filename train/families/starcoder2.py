"""StarCoder2 (Lozhkov et al. 2024): ``Starcoder2ForCausalLM``."""

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

from headrace.train.config import ModelConfig
from headrace.train.families.family import EPSILON, FieldNames, FieldTable, Preset
from headrace.train.families.rotary import RotaryFamily, has_one_mask, one_mask

VOCABULARY = 49_152


class Starcoder2(RotaryFamily):
    """GPT-2's parts with rotary positions, fewer key/value heads, and one window in all layers, or none."""

    model_type = "starcoder2"
    architecture = "Starcoder2ForCausalLM"
    parts: ClassVar[FieldTable] = {"positions": "rope"}
    free: ClassVar[tuple[str, ...]] = ("attention_pattern", "window", "bias", "rope_scaling")
    sizes: ClassVar[FieldNames] = RotaryFamily.sizes | {"norm_epsilon": "norm_epsilon"}
    ties_by_default = True
    fixed: ClassVar[FieldTable] = {"hidden_act": "gelu_pytorch_tanh"}
    dropout_fields: ClassVar[tuple[str, ...]] = ("attention_dropout", "embedding_dropout", "residual_dropout")
    weight_names = dataclasses.replace(
        RotaryFamily.weight_names,
        inner={**RotaryFamily.weight_names.inner, "mlp.up": ("mlp.c_fc",), "mlp.down": ("mlp.c_proj",)},
    )
    defaults: ClassVar[FieldTable] = {"num_key_value_heads": 2, "norm_epsilon": EPSILON}
    presets: ClassVar[Mapping[str, Preset]] = {
        "starcoder2_3b": Preset(VOCABULARY, 3_030_371_328),  # huggingface.co/bigcode/starcoder2-3b and its siblings
        "starcoder2_7b": Preset(VOCABULARY, 7_173_923_840),
        "starcoder2_15b": Preset(VOCABULARY, 15_957_889_024),
    }

    def computes(self, config: ModelConfig) -> bool:
        return has_one_mask(config) and super().computes(config)

    def further_to_hf(self, config: ModelConfig) -> dict[str, Any]:
        return {**super().further_to_hf(config), "use_bias": config.bias, "sliding_window": config.window}

    def further_from_hf(self, hf_config: Mapping[str, Any], folder: Path) -> dict[str, Any]:
        rope, bias = super().further_from_hf(hf_config, folder), hf_config.get("use_bias", True)
        return {**rope, **one_mask(hf_config.get("sliding_window")), "bias": bias}

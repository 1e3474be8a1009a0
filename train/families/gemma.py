"""Gemma (Gemma Team 2024), its first version: ``GemmaForCausalLM``."""

from collections.abc import Mapping
from typing import Any, ClassVar

from headrace.train.config import ModelConfig
from headrace.train.families.family import FieldTable, Preset
from headrace.train.families.rotary import RMS_EPSILON, RotaryFamily

VOCABULARY = 256_000


class Gemma(RotaryFamily):
    """LLaMA's parts with GEGLU, scaled embeddings, and weights of norms that are added to 1."""

    model_type = "gemma"
    architecture = "GemmaForCausalLM"
    parts: ClassVar[FieldTable] = RotaryFamily.parts | {
        "norm": "rmsnorm_1p",
        "activation": "geglu",
        "scaled_embedding": True,
    }
    free: ClassVar[tuple[str, ...]] = ("attention_width", "rope_scaling")
    ties_by_default = True
    fixed: ClassVar[FieldTable] = {"attention_bias": False}
    expected: ClassVar[FieldTable] = {"use_bidirectional_attention": False}
    defaults: ClassVar[FieldTable] = RMS_EPSILON | {"num_key_value_heads": 16, "head_dim": 256}
    presets: ClassVar[Mapping[str, Preset]] = {
        "gemma_2b": Preset(VOCABULARY, 2_506_172_416),  # huggingface.co/google/gemma-2b
    }

    def further_to_hf(self, config: ModelConfig) -> dict[str, Any]:
        activations = dict.fromkeys(("hidden_act", "hidden_activation"), "gelu_pytorch_tanh")
        return super().further_to_hf(config) | activations

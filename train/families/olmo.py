"""OLMo (Groeneveld et al. 2024): ``OlmoForCausalLM``."""

from collections.abc import Mapping
from typing import Any, ClassVar

from headrace.train.config import ModelConfig
from headrace.train.families.family import FieldNames, FieldTable, Preset
from headrace.train.families.rotary import RotaryFamily, rope_to_hf

VOCABULARY = 50_304


class Olmo(RotaryFamily):
    """LLaMA's parts with LayerNorm without weights."""

    model_type = "olmo"
    architecture = "OlmoForCausalLM"
    parts: ClassVar[FieldTable] = RotaryFamily.parts | {"norm": "layernorm_plain"}
    sizes: ClassVar[FieldNames] = {field: name for field, name in RotaryFamily.sizes.items() if field != "norm_epsilon"}
    fixed: ClassVar[FieldTable] = RotaryFamily.fixed | {"attention_bias": False, "clip_qkv": None}
    presets: ClassVar[Mapping[str, Preset]] = {
        "olmo_1b": Preset(VOCABULARY, 1_176_764_416),  # huggingface.co/allenai/OLMo-1B-hf
    }

    def further_to_hf(self, config: ModelConfig) -> dict[str, Any]:
        """Returns the rotations: the class has no width of a head."""
        return rope_to_hf(config)

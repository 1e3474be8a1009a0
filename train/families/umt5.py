"""UMT5 (Chung et al. 2023): ``UMT5ForConditionalGeneration``, T5 1.1 with a table of biases in each layer."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

from headrace.train.config import ModelConfig
from headrace.train.families.family import Preset, require
from headrace.train.families.t5 import T5, bias_name
from headrace.train.parts import PositionsName

VOCABULARY = 256_384


class Umt5(T5):
    """T5's two stacks with GEGLU, an output layer of its own, and a learned bias by distance for each layer."""

    model_type = "umt5"
    architecture = "UMT5ForConditionalGeneration"
    positions: ClassVar[PositionsName] = "t5_by_layer"
    defaults: ClassVar[Mapping[str, Any]] = {"feed_forward_proj": "gated-gelu"}
    presets: ClassVar[Mapping[str, Preset]] = {
        "umt5_small": Preset(VOCABULARY, 306_601_984),
        "umt5_base": Preset(VOCABULARY, 592_043_520),
        "umt5_xl": Preset(VOCABULARY, 3_768_356_864),
        "umt5_xxl": Preset(VOCABULARY, 12_972_531_712),
    }

    def bias_names(self, layers: int) -> Mapping[str, str]:
        return {f"positions.layers.{layer}.table": bias_name(layer) for layer in range(layers)}

    def computes(self, config: ModelConfig) -> bool:
        return super().computes(config) and not config.scaled_output

    def from_hf_config(self, hf_config: Mapping[str, Any], folder: Path) -> ModelConfig:
        """Reads config.json. The class scales its output, which no UMT5 does, where ``scale_decoder_outputs`` is true,
        or is missing and ``tie_word_embeddings`` is not false."""
        decides = "scale_decoder_outputs" if "scale_decoder_outputs" in hf_config else "tie_word_embeddings"
        require(folder, {decides: hf_config.get(decides, True)}, {decides: False})
        return super().from_hf_config(hf_config, folder)

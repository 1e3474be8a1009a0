"""UMT5 (Chung et al. 2023): ``UMT5ForConditionalGeneration``, T5 1.1 with a table of biases in each layer."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

from headrace.train.config import ModelConfig
from headrace.train.families.family import FieldTable, Preset, require
from headrace.train.families.t5 import SIZES, T5, bias_name

VOCABULARY = 256_384


class Umt5(T5):
    """T5's two stacks with GEGLU, an output layer of its own, and a learned bias by distance for each layer."""

    model_type = "umt5"
    architecture = "UMT5ForConditionalGeneration"
    parts: ClassVar[FieldTable] = T5.parts | {"positions": "t5_by_layer"}
    defaults: ClassVar[FieldTable] = SIZES | {"feed_forward_proj": "gated-gelu"}
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

    def further_from_hf(self, hf_config: Mapping[str, Any], folder: Path) -> dict[str, Any]:
        """Reads config.json. The class scales its output, which no UMT5 does, where ``scale_decoder_outputs`` is true,
        or is missing and ``tie_word_embeddings`` is not false."""
        decides = "scale_decoder_outputs" if "scale_decoder_outputs" in hf_config else "tie_word_embeddings"
        require(folder, {decides: hf_config.get(decides, True)}, {decides: False})
        return super().further_from_hf(hf_config, folder)

"""Our own format, for mixtures of the families' parts: no class of ``transformers`` computes them."""

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

from headrace.pipeline.core.settings import decode
from headrace.train.config import ModelConfig
from headrace.train.families.family import Family, Preset
from headrace.train.families.gpt2 import Gpt2

GONE = ("generator_width",)
"""Fields that older versions had, on which no output depends: null in what is written, whose bytes stay."""


class Own(Family):
    """config.json holds our ModelConfig, and the weights have our names."""

    model_type = "headrace"
    presets: ClassVar[Mapping[str, Preset]] = {
        f"{name}_banded": preset for name, preset in Gpt2.presets.items() if name.startswith("gpt3")
    } | {
        "transformer_base": Preset(37_000, 65e6, rounding=0.03),
        "transformer_big": Preset(37_000, 213e6, rounding=0.006),
        "transformer_decoder": Preset(37_000, 37_858_304),  # counted from its parts: none is published
        "falcon_40b": Preset(65_024, 41_303_293_952),  # huggingface.co/tiiuae/falcon-40b
    }

    def computes(self, config: ModelConfig) -> bool:
        return True

    def to_hf_config(self, config: ModelConfig) -> dict[str, Any]:
        return {"model_type": self.model_type, "shape": dataclasses.asdict(config) | dict.fromkeys(GONE)}

    def from_hf_config(self, hf_config: Mapping[str, Any], folder: Path) -> ModelConfig:
        shape = {name: value for name, value in hf_config["shape"].items() if name not in GONE}
        return decode(ModelConfig, shape)

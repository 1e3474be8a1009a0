"""Our own format, for mixtures of the families' parts: no class of ``transformers`` computes them."""

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from headrace.pipeline.core.settings import decode
from headrace.train.config import ModelConfig
from headrace.train.families.family import Family


class Own(Family):
    """config.json holds our ModelConfig, and the weights have our names."""

    model_type = "headrace"

    def computes(self, config: ModelConfig) -> bool:
        return True

    def to_hf_config(self, config: ModelConfig) -> dict[str, Any]:
        return {"model_type": self.model_type, "shape": dataclasses.asdict(config)}

    def from_hf_config(self, hf_config: Mapping[str, Any], folder: Path) -> ModelConfig:
        return decode(ModelConfig, hf_config["shape"])

"""A model family: LLaMA with normalization after each addition."""

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from headrace.pipeline.core.settings import decode
from headrace.train.config import ModelConfig
from headrace.train.families.family import Family, WeightNames, common_fields


class PostNormLlama(Family):
    """Models with LLaMA's parts and normalization after each addition."""

    model_type = "post_norm_llama"
    weight_names = WeightNames(
        block="layers", inner={"attention.qkv": ("q", "k", "v")}, outer={"embedding": "words"}, transposed=True
    )

    def computes(self, config: ModelConfig) -> bool:
        return config.positions == "rope" and config.norm == "rmsnorm" and config.norm_place == "post"

    def to_hf_config(self, config: ModelConfig) -> dict[str, Any]:
        return common_fields(self.model_type, "PostNormLlama", config) | {"sizes": dataclasses.asdict(config)}

    def from_hf_config(self, hf_config: Mapping[str, Any], folder: Path) -> ModelConfig:
        return decode(ModelConfig, hf_config["sizes"])

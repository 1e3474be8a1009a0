"""LLaMA (Touvron et al. 2023) and models of its parts: ``LlamaForCausalLM``."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

from headrace.pipeline.core.errors import ArtifactError
from headrace.train.config import ModelConfig
from headrace.train.families.family import Preset
from headrace.train.families.rotary import RotaryFamily
from headrace.train.families.task_heads import TaskHead, TaskKind, scored, tags

VOCABULARY = 32000
VOCABULARY_3 = 128_256
"""The vocabulary of LLaMA 3."""


class Llama(RotaryFamily):
    """Rotary positions, RMSNorm before each part, SwiGLU; key/value heads may be fewer than query heads."""

    model_type = "llama"
    architecture = "LlamaForCausalLM"
    free: ClassVar[tuple[str, ...]] = ("bias", "attention_width", "rope_scaling")
    task_heads: ClassVar[Mapping[TaskKind, TaskHead]] = {
        "classification": scored("LlamaForSequenceClassification"),
        "token_classification": tags("LlamaForTokenClassification", "score"),
    }
    presets: ClassVar[Mapping[str, Preset]] = {
        "llama_1b": Preset(VOCABULARY, 1_100_048_384),  # TinyLlama 1.1B
        "llama_7b": Preset(VOCABULARY, 6_738_415_616),
        "llama_13b": Preset(VOCABULARY, 13_015_864_320),
        "llama_33b": Preset(VOCABULARY, 32_528_943_616),
        "llama_65b": Preset(VOCABULARY, 65_285_660_672),
        "llama2_7b": Preset(VOCABULARY, 6_738_415_616),  # huggingface.co/meta-llama, as those below
        "llama2_13b": Preset(VOCABULARY, 13_015_864_320),
        "llama2_70b": Preset(VOCABULARY, 68_976_648_192),
        "llama3_8b": Preset(VOCABULARY_3, 8_030_261_248),
        "llama3_1_8b": Preset(VOCABULARY_3, 8_030_261_248),
        "llama3_70b": Preset(VOCABULARY_3, 70_553_706_496),
        "llama3_405b": Preset(VOCABULARY_3, 405_853_388_800),
    }

    def further_to_hf(self, config: ModelConfig) -> dict[str, Any]:
        return {**super().further_to_hf(config), "attention_bias": config.bias, "mlp_bias": config.bias}

    def further_from_hf(self, hf_config: Mapping[str, Any], folder: Path) -> dict[str, Any]:
        bias, mlp_bias = bool(hf_config.get("attention_bias")), bool(hf_config.get("mlp_bias"))
        if bias != mlp_bias:
            problem = f"has attention_bias={bias} and mlp_bias={mlp_bias} in config.json (left out: False)"
            raise ArtifactError(str(folder), problem, "only both or none are computed")
        return {**super().further_from_hf(hf_config, folder), "bias": bias}

"""GPT-2 (Radford et al. 2019) and GPT-3's dense sizes (Brown et al. 2020): ``GPT2LMHeadModel``."""

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

from headrace.pipeline.core.errors import ArtifactError
from headrace.train.config import ModelConfig
from headrace.train.families.family import Family, Preset, WeightNames, common_fields, has_parts, require
from headrace.train.families.task_heads import TaskHead, TaskKind, scored, tags
from headrace.train.parts import ActivationName, NormPlaceName

VOCABULARY = 50257
ACTIVATIONS: Mapping[str, ActivationName] = {"gelu_new": "gelu", "gelu": "gelu_exact", "relu": "relu"}
"""The name of an activation in config.json → ours."""
TABLE_D1 = 0.004
"""Brown et al. 2020, table D.1, gives millions of parameters to three or four digits."""


class Gpt2(Family):
    """Learned positions, LayerNorm before each part, GELU, biases, as many key/value heads as query heads."""

    model_type = "gpt2"
    weight_names = WeightNames(
        block="transformer.h",
        prefix="transformer",
        inner={
            "attention_norm": ("ln_1",),
            "attention.qkv": ("attn.c_attn",),
            "attention.output": ("attn.c_proj",),
            "mlp_norm": ("ln_2",),
            "mlp.up": ("mlp.c_fc",),
            "mlp.down": ("mlp.c_proj",),
        },
        outer={
            "embedding": "transformer.wte",
            "positions": "transformer.wpe",
            "norm": "transformer.ln_f",
            "head": "lm_head",
        },
        transposed=True,
    )
    width_and_heads = ("n_embd", "n_head")
    task_heads: ClassVar[Mapping[TaskKind, TaskHead]] = {
        "classification": scored("GPT2ForSequenceClassification"),
        "token_classification": tags("GPT2ForTokenClassification"),
    }
    presets: ClassVar[Mapping[str, Preset]] = {
        "gpt2_small": Preset(VOCABULARY, 124_439_808),  # huggingface.co/openai-community/gpt2 and its larger brothers
        "gpt2_medium": Preset(VOCABULARY, 354_823_168),
        "gpt2_large": Preset(VOCABULARY, 774_030_080),
        "gpt2_xl": Preset(VOCABULARY, 1_557_611_200),
        "gpt3_125m": Preset(VOCABULARY, 125e6, TABLE_D1),
        "gpt3_350m": Preset(VOCABULARY, 356e6, TABLE_D1),
        "gpt3_760m": Preset(VOCABULARY, 760e6, TABLE_D1),
        "gpt3_1_3b": Preset(VOCABULARY, 1320e6, TABLE_D1),
        "gpt3_2_7b": Preset(VOCABULARY, 2650e6, TABLE_D1),
        "gpt3_6_7b": Preset(VOCABULARY, 6660e6, TABLE_D1),
        "gpt3_13b": Preset(VOCABULARY, 12_850e6, TABLE_D1),
        "gpt3_175b": Preset(VOCABULARY, 174_600e6, TABLE_D1),
    }

    def computes(self, config: ModelConfig) -> bool:
        as_gpt2 = dataclasses.replace(config, activation="gelu")
        return config.activation in ACTIVATIONS.values() and has_gpt_parts(as_gpt2, norm_place="pre")

    def to_hf_config(self, config: ModelConfig) -> dict[str, Any]:
        return {
            **common_fields(self.model_type, "GPT2LMHeadModel", config),
            **gpt_sizes_to_hf(config),
            "n_inner": config.mlp_width,
            "activation_function": {ours: theirs for theirs, ours in ACTIVATIONS.items()}[config.activation],
        }

    def from_hf_config(self, hf_config: Mapping[str, Any], folder: Path) -> ModelConfig:
        scaling = {"scale_attn_weights": True, "scale_attn_by_inverse_layer_idx": False}
        require(folder, hf_config, scaling)
        activation = hf_config.get("activation_function", "gelu_new")
        if activation not in ACTIVATIONS:
            problem = f"has activation_function={activation!r} in config.json"
            raise ArtifactError(str(folder), problem, f"only {', '.join(ACTIVATIONS)} are computed")
        return ModelConfig(
            **gpt_sizes_from_hf(hf_config),
            activation=ACTIVATIONS[activation],
            mlp_width=hf_config.get("n_inner") or 4 * hf_config["n_embd"],
        )


def has_gpt_parts(config: ModelConfig, norm_place: NormPlaceName) -> bool:
    """Whether ``config`` has the parts that GPT-1 and GPT-2 share, with normalizations at ``norm_place``."""
    parts = {"positions": "learned", "norm": "layernorm", "activation": "gelu", "bias": True, "norm_place": norm_place}
    return has_parts(config, "rope_theta", **parts) and config.kv_heads == config.heads


def gpt_sizes_to_hf(config: ModelConfig) -> dict[str, Any]:
    """Returns the fields of config.json that GPT-1 and GPT-2 share."""
    return {
        "n_layer": config.layers,
        "n_embd": config.width,
        "n_head": config.heads,
        "n_positions": config.context,
        "layer_norm_epsilon": config.norm_epsilon,
        **dict.fromkeys(("embd_pdrop", "attn_pdrop", "resid_pdrop"), config.dropout),
    }


def gpt_sizes_from_hf(hf_config: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the settings that GPT-1 and GPT-2 share."""
    return {
        "layers": hf_config["n_layer"],
        "width": hf_config["n_embd"],
        "heads": hf_config["n_head"],
        "kv_heads": hf_config["n_head"],
        "context": hf_config["n_positions"],
        "norm_epsilon": hf_config.get("layer_norm_epsilon", 1e-5),
        "tied": hf_config.get("tie_word_embeddings", True),
    }

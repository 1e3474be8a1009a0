"""ModernBERT (Warner et al. 2024): ``ModernBertForMaskedLM``.

A layer with local attention sees ``local_attention`` / 2 tokens on either side, which is a ``window`` of one more.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from headrace.pipeline.core.errors import ArtifactError
from headrace.train.config import ModelConfig
from headrace.train.families.family import Family, Preset, WeightNames, common_fields, has_parts, require
from headrace.train.families.task_heads import TaskHead, TaskKind
from headrace.train.parts import AttentionName, StackName

VOCABULARY = 50368
TYPES: Mapping[AttentionName, str] = {"full": "full_attention", "window": "sliding_attention"}
"""The attention of a layer → its name in config.json."""
PARTS: Mapping[str, Any] = {
    "stack": "encoder",
    "positions": "rope",
    "norm": "layernorm_no_bias",
    "activation": "geglu_exact",
    "bias": False,
    "embedding_norm": True,
    "first_attention_norm": False,
    "output_transform": True,
}
THETAS: Mapping[AttentionName, tuple[str, float]] = {
    "full": ("global_rope_theta", 160_000.0),
    "window": ("local_rope_theta", 10_000.0),
}
"""The attention of a layer → the older name of its base of rotations in config.json, and its default."""


class ModernBert(Family):
    """Rotary positions, LayerNorm without bias before each part, GEGLU, and windows in most layers."""

    model_type = "modernbert"
    stacks: ClassVar[tuple[StackName, ...]] = ("encoder",)
    weight_names = WeightNames(
        block="model.layers",
        prefix="model",
        inner={
            "attention_norm": ("attn_norm",),
            "attention.qkv": ("attn.Wqkv",),
            "attention.output": ("attn.Wo",),
            "mlp.up": ("mlp.Wi",),
            "mlp.down": ("mlp.Wo",),
        },
        outer={
            "embedding": "model.embeddings.tok_embeddings",
            "embedding_norm": "model.embeddings.norm",
            "norm": "model.final_norm",
            "transform.dense": "head.dense",
            "transform.norm": "head.norm",
            "head": "decoder",
        },
    )
    width_and_heads = ("hidden_size", "num_attention_heads")
    task_heads: ClassVar[Mapping[TaskKind, TaskHead]] = {
        "classification": TaskHead(
            "ModernBertForSequenceClassification",
            "classifier",
            "head.dense",
            "head.norm",
            activation="gelu_exact",
            dense_bias=False,
        ),
        "token_classification": TaskHead(
            "ModernBertForTokenClassification",
            "classifier",
            "head.dense",
            "head.norm",
            activation="gelu_exact",
            dense_bias=False,
        ),
    }
    presets: ClassVar[Mapping[str, Preset]] = {
        "modernbert_base": Preset(VOCABULARY, 149_655_232),
        "modernbert_large": Preset(VOCABULARY, 395_881_664),
    }

    def computes(self, config: ModelConfig) -> bool:
        has_sizes = config.kv_heads == config.heads and config.tied and config.window != 1
        return has_parts(config, "rope_theta", "attention_pattern", "window", "window_theta", **PARTS) and has_sizes

    def to_hf_config(self, config: ModelConfig) -> dict[str, Any]:
        thetas = {"full": config.rope_theta, "window": config.window_theta or config.rope_theta}
        tokens = ("pad_token_id", "bos_token_id", "eos_token_id", "cls_token_id", "sep_token_id")
        return {
            **common_fields(self.model_type, "ModernBertForMaskedLM", config),
            **dict.fromkeys(tokens),  # the class has ids of its own vocabulary otherwise
            "num_hidden_layers": config.layers,
            "hidden_size": config.width,
            "num_attention_heads": config.heads,
            "intermediate_size": config.mlp_width,
            "max_position_embeddings": config.context,
            "norm_eps": config.norm_epsilon,
            "hidden_activation": "gelu",
            "layer_types": [TYPES[attention] for attention in config.layer_attention],
            "local_attention": 2 * ((config.window or config.context) - 1),
            "rope_parameters": {
                name: {"rope_type": "default", "rope_theta": thetas[attention]} for attention, name in TYPES.items()
            },
            **dict.fromkeys(("embedding_dropout", "attention_dropout", "mlp_dropout"), config.dropout),
        }

    def from_hf_config(self, hf_config: Mapping[str, Any], folder: Path) -> ModelConfig:
        absent = {"hidden_activation": "gelu", "classifier_activation": "gelu", "tie_word_embeddings": True}
        absent |= dict.fromkeys(("norm_bias", "attention_bias", "mlp_bias", "classifier_bias"), False)
        require(folder, hf_config, {**absent, "decoder_bias": True})
        pattern = _pattern(hf_config, folder)
        has_windows = "window" in pattern
        return ModelConfig(
            **PARTS,
            layers=hf_config["num_hidden_layers"],
            width=hf_config["hidden_size"],
            heads=hf_config["num_attention_heads"],
            kv_heads=hf_config["num_attention_heads"],
            context=hf_config["max_position_embeddings"],
            mlp_width=hf_config["intermediate_size"],
            norm_epsilon=hf_config.get("norm_eps", 1e-5),
            attention_pattern=pattern,
            window=hf_config.get("local_attention", 128) // 2 + 1 if has_windows else None,
            rope_theta=_theta(hf_config, "full", folder),
            window_theta=_theta(hf_config, "window", folder) if has_windows else None,
        )


def _pattern(hf_config: Mapping[str, Any], folder: Path) -> tuple[AttentionName, ...]:
    """Returns the shortest pattern that gives the attention of all layers."""
    every = hf_config.get("global_attn_every_n_layers") or 3
    usual = [TYPES["window" if layer % every else "full"] for layer in range(hf_config["num_hidden_layers"])]
    types: Sequence[str] = hf_config.get("layer_types") or usual
    names = {name: attention for attention, name in TYPES.items()}
    if unknown := set(types) - names.keys():
        problem = f"has a layer of type {min(unknown)!r} in config.json"
        raise ArtifactError(str(folder), problem, f"only {' and '.join(names)} are computed")
    length = next(n for n in range(1, len(types) + 1) if all(a == b for a, b in zip(types, types[n:], strict=False)))
    return tuple(names[name] for name in types[:length])


def _theta(hf_config: Mapping[str, Any], attention: AttentionName, folder: Path) -> float:
    """Returns the base of the rotations in layers with this attention."""
    older_name, default = THETAS[attention]
    rope = (hf_config.get("rope_parameters") or {}).get(TYPES[attention]) or {}
    require(folder, rope, {"rope_type": "default"})
    theta: float = rope.get("rope_theta") or hf_config.get(older_name) or default
    return theta

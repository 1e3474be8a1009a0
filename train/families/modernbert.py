"""ModernBERT (Warner et al. 2024): ``ModernBertForMaskedLM``.

A layer with local attention sees ``local_attention`` / 2 tokens on either side, which is a ``window`` of one more.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from headrace.pipeline.core.errors import ArtifactError
from headrace.train.config import ModelConfig
from headrace.train.families.bert import Bert
from headrace.train.families.family import EPSILON, Family, FieldNames, FieldTable, Preset, WeightNames, require
from headrace.train.families.rotary import TYPES, shortest_pattern
from headrace.train.families.task_heads import TaskHead, TaskKind
from headrace.train.parts import AttentionName, StackName

VOCABULARY = 50368
THETAS: Mapping[AttentionName, tuple[str, float]] = {
    "full": ("global_rope_theta", 160_000.0),
    "window": ("local_rope_theta", 10_000.0),
}
"""The attention of a layer → the older name of its base of rotations in config.json, and its default."""


class ModernBert(Family):
    """Rotary positions, LayerNorm without bias before each part, GEGLU, and windows in most layers."""

    model_type = "modernbert"
    architecture = "ModernBertForMaskedLM"
    parts: ClassVar[FieldTable] = {
        "stack": "encoder",
        "positions": "rope",
        "norm": "layernorm_no_bias",
        "activation": "geglu_exact",
        "bias": False,
        "embedding_norm": True,
        "first_attention_norm": False,
        "output_transform": True,
    }
    free: ClassVar[tuple[str, ...]] = ("attention_pattern", "window", "window_theta")
    sizes: ClassVar[FieldNames] = {field: name for field, name in Bert.sizes.items() if field != "segments"} | {
        "norm_epsilon": "norm_eps"
    }
    ties = True
    fixed: ClassVar[FieldTable] = {"hidden_activation": "gelu"}
    expected: ClassVar[FieldTable] = {
        "classifier_activation": "gelu",
        **dict.fromkeys(("norm_bias", "attention_bias", "mlp_bias", "classifier_bias"), False),
        "decoder_bias": True,
    }
    dropout_fields: ClassVar[tuple[str, ...]] = ("embedding_dropout", "attention_dropout", "mlp_dropout")
    defaults: ClassVar[FieldTable] = {"norm_eps": EPSILON}
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
        return config.window != 1 and super().computes(config)

    def further_to_hf(self, config: ModelConfig) -> dict[str, Any]:
        thetas = {"full": config.rope_theta, "window": config.window_theta or config.rope_theta}
        tokens = ("pad_token_id", "bos_token_id", "eos_token_id", "cls_token_id", "sep_token_id")
        return {
            **dict.fromkeys(tokens),  # the class has ids of its own vocabulary otherwise
            "layer_types": [TYPES[attention] for attention in config.layer_attention],
            "local_attention": 2 * ((config.window or config.context) - 1),
            "rope_parameters": {
                name: {"rope_type": "default", "rope_theta": thetas[attention]} for attention, name in TYPES.items()
            },
        }

    def further_from_hf(self, hf_config: Mapping[str, Any], folder: Path) -> dict[str, Any]:
        pattern = _pattern(hf_config, folder)
        has_windows = "window" in pattern
        return {
            "attention_pattern": pattern,
            "window": hf_config.get("local_attention", 128) // 2 + 1 if has_windows else None,
            "rope_theta": _theta(hf_config, "full", folder),
            "window_theta": _theta(hf_config, "window", folder) if has_windows else None,
        }


def _pattern(hf_config: Mapping[str, Any], folder: Path) -> tuple[AttentionName, ...]:
    """Returns the shortest pattern that gives the attention of all layers."""
    every = hf_config.get("global_attn_every_n_layers") or 3
    usual = [TYPES["window" if layer % every else "full"] for layer in range(hf_config["num_hidden_layers"])]
    types: Sequence[str] = hf_config.get("layer_types") or usual
    names = {name: attention for attention, name in TYPES.items()}
    if unknown := set(types) - names.keys():
        problem = f"has a layer of type {min(unknown)!r} in config.json"
        raise ArtifactError(str(folder), problem, f"only {' and '.join(names)} are computed")
    return shortest_pattern([names[name] for name in types])


def _theta(hf_config: Mapping[str, Any], attention: AttentionName, folder: Path) -> float:
    """Returns the base of the rotations in layers with this attention."""
    older_name, default = THETAS[attention]
    rope = (hf_config.get("rope_parameters") or {}).get(TYPES[attention]) or {}
    require(folder, rope, {"rope_type": "default"})
    theta: float = rope.get("rope_theta") or hf_config.get(older_name) or default
    return theta

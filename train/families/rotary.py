"""The fields of config.json that models with rotary positions and RMSNorm share, from LLaMA on.

rope_parameters     {"rope_type": "llama3", "rope_theta": 5e5, "factor": 8.0, …}     transformers 5
rope_scaling        {"type": "linear", "factor": 4.0}, and rope_theta                 before; it comes first
layer_types         ["full_attention", "sliding_attention", …]
"""

import itertools
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from headrace.pipeline.core.errors import ArtifactError
from headrace.train.config import ModelConfig
from headrace.train.families.family import Family, FieldNames, FieldTable, WeightNames
from headrace.train.model_shape import DynamicScaling, LinearScaling, Llama3Scaling, RopeScaling, YarnScaling
from headrace.train.parts import AttentionName

TYPES: Mapping[AttentionName, str] = {"window": "sliding_attention", "full": "full_attention"}
"""The attention of a layer → its name in config.json."""


RMS_EPSILON: FieldTable = {"rms_norm_eps": 1e-6}
"""The ε of norms that the classes have where a config.json has none."""


class RotaryFamily(Family):
    """LLaMA's parts: rotary positions, RMSNorm before each part, SwiGLU; fewer key/value heads than query heads."""

    parts: ClassVar[FieldTable] = {"positions": "rope", "norm": "rmsnorm", "activation": "swiglu", "bias": False}
    sizes: ClassVar[FieldNames] = {
        "layers": "num_hidden_layers",
        "width": "hidden_size",
        "heads": "num_attention_heads",
        "kv_heads": "num_key_value_heads",
        "context": "max_position_embeddings",
        "mlp_width": "intermediate_size",
        "norm_epsilon": "rms_norm_eps",
    }
    ties_by_default = False
    fixed: ClassVar[FieldTable] = {"hidden_act": "silu"}
    dropout_fields: ClassVar[tuple[str, ...]] = ("attention_dropout",)
    defaults: ClassVar[FieldTable] = RMS_EPSILON
    weight_names = WeightNames(
        block="model.layers",
        prefix="model",
        inner={
            "attention_norm": ("input_layernorm",),
            "attention.qkv": ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"),
            "attention.output": ("self_attn.o_proj",),
            "mlp_norm": ("post_attention_layernorm",),
            "mlp.up": ("mlp.gate_proj", "mlp.up_proj"),
            "mlp.down": ("mlp.down_proj",),
        },
        outer={"embedding": "model.embed_tokens", "norm": "model.norm", "head": "lm_head"},
    )
    width_and_heads = ("hidden_size", "num_attention_heads")

    def further_to_hf(self, config: ModelConfig) -> dict[str, Any]:
        return {"head_dim": config.head_width, **rope_to_hf(config)}

    def further_from_hf(self, hf_config: Mapping[str, Any], folder: Path) -> dict[str, Any]:
        width, heads = hf_config["hidden_size"], hf_config["num_attention_heads"]
        attention_width = heads * (hf_config.get("head_dim") or width // heads)
        other = None if attention_width == width else attention_width
        return {"attention_width": other, **rope_from_hf(hf_config, folder)}


def has_one_mask(config: ModelConfig) -> bool:
    """Whether all layers of ``config`` have one window, or none."""
    return config.attention_pattern in (("full",), ("window",))


def one_mask(window: int | None) -> dict[str, Any]:
    """Returns the settings of one ``window`` in all layers; None: none."""
    return {"attention_pattern": ("full",) if window is None else ("window",), "window": window}


def rope_to_hf(config: ModelConfig, **further: float) -> dict[str, Any]:
    """Returns the fields of the rotations, with ``further`` ones; those of scaled ones also for older programs."""
    scaling = config.rope_scaling
    parameters = {"rope_type": "default", "rope_theta": config.rope_theta, **further, **_scaling_to_hf(scaling)}
    older = {} if scaling is None else {"rope_scaling": parameters}
    return {"rope_theta": config.rope_theta, "rope_parameters": parameters, **older}


def rope_from_hf(hf_config: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """Returns the settings of the rotations.

    Raises:
        ArtifactError: naming ``folder``, when they are scaled in a way that is not computed.
    """
    rope = rope_parameters(hf_config)
    theta = rope.get("rope_theta", hf_config.get("rope_theta", 10_000.0))
    return {"rope_theta": theta, "rope_scaling": _scaling_from_hf(rope, hf_config, folder)}


def rope_parameters(hf_config: Mapping[str, Any]) -> Mapping[str, Any]:
    """Returns the parameters of the rotations in ``hf_config``; without any, an empty mapping."""
    return hf_config.get("rope_scaling") or hf_config.get("rope_parameters") or {}


def _scaling_to_hf(scaling: RopeScaling | None) -> dict[str, Any]:
    match scaling:
        case None:
            return {}
        case LinearScaling() | DynamicScaling():
            return {"rope_type": scaling.type, "factor": scaling.factor}
        case YarnScaling():
            factor = {} if scaling.attention_factor is None else {"attention_factor": scaling.attention_factor}
            return {
                "rope_type": "yarn",
                "factor": scaling.factor,
                "original_max_position_embeddings": scaling.original_context,
                "beta_fast": scaling.beta_fast,
                "beta_slow": scaling.beta_slow,
                "truncate": scaling.truncate,
                **factor,
            }
        case Llama3Scaling():
            return {
                "rope_type": "llama3",
                "factor": scaling.factor,
                "original_max_position_embeddings": scaling.original_context,
                "low_freq_factor": scaling.low_frequency_factor,
                "high_freq_factor": scaling.high_frequency_factor,
            }


def _scaling_from_hf(rope: Mapping[str, Any], hf_config: Mapping[str, Any], folder: Path) -> RopeScaling | None:
    """Returns the scaling of the rotations with the parameters ``rope``, with the defaults of ``transformers``.

    Raises:
        ArtifactError: naming the type, when it is none of those that are computed.
    """
    kind, context = rope.get("rope_type") or rope.get("type") or "default", hf_config["max_position_embeddings"]
    original = hf_config.get("original_max_position_embeddings") or rope.get("original_max_position_embeddings")
    match kind:
        case "default":
            return None
        case "linear":
            return LinearScaling(factor=rope["factor"])
        case "dynamic":
            return DynamicScaling(factor=rope["factor"])
        case "yarn":
            original = original or context
            factor = rope.get("factor") or context / original
            return YarnScaling(
                factor=factor,
                original_context=original,
                beta_fast=rope.get("beta_fast") or 32.0,
                beta_slow=rope.get("beta_slow") or 1.0,
                truncate=rope.get("truncate", True),
                attention_factor=rope.get("attention_factor") or _yarn_factor(factor, rope),
            )
        case "llama3":
            return Llama3Scaling(
                factor=rope["factor"],
                original_context=original or context,
                low_frequency_factor=rope["low_freq_factor"],
                high_frequency_factor=rope["high_freq_factor"],
            )
    problem = f"has rope_type={kind!r} in config.json"
    remedy = "only default, linear, dynamic, yarn and llama3 are computed"
    raise ArtifactError(str(folder), problem, remedy)


def _yarn_factor(factor: float, rope: Mapping[str, Any]) -> float | None:
    """Returns the factor of queries and keys by ``mscale`` and ``mscale_all_dim`` (DeepSeek-V2); None without both."""
    scales = rope.get("mscale"), rope.get("mscale_all_dim")
    if not all(scales) or factor <= 1:
        return None
    over, under = (0.1 * scale * math.log(factor) + 1 for scale in scales if scale)
    return float(over / under)


def shortest_pattern(attention: Sequence[AttentionName]) -> tuple[AttentionName, ...]:
    """Returns the shortest pattern that gives the ``attention`` of all layers when it is repeated."""
    sizes = range(1, len(attention) + 1)
    repeated = (tuple(itertools.islice(itertools.cycle(attention[:size]), len(attention))) for size in sizes)
    size = next(size for size, whole in zip(sizes, repeated, strict=True) if whole == tuple(attention))
    return tuple(attention[:size])


def has_shortest_pattern(config: ModelConfig) -> bool:
    """Whether ``config`` states its pattern of attention as ``windows_from_hf`` does."""
    return config.attention_pattern == shortest_pattern(config.layer_attention)


def windows_to_hf(config: ModelConfig) -> dict[str, Any]:
    """Returns the fields of windows in some layers, as Qwen has them."""
    layers, types = config.layers, [TYPES[attention] for attention in config.layer_attention]
    first = next((layer for layer, attention in enumerate(config.layer_attention) if attention == "window"), layers)
    return {
        "use_sliding_window": config.window is not None,
        "sliding_window": config.window,
        "max_window_layers": first,
        "layer_types": types,
    }


def windows_from_hf(hf_config: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """Returns the settings of windows in some layers: those of ``layer_types``, else all from ``max_window_layers``.

    Raises:
        ArtifactError: when ``layer_types`` has another type, or not one for each layer.
    """
    layers = hf_config["num_hidden_layers"]
    window = hf_config.get("sliding_window", 4096) if hf_config.get("use_sliding_window") else None
    first = layers if window is None else hf_config.get("max_window_layers", 28)
    usual = [TYPES["window" if layer >= first else "full"] for layer in range(layers)]
    types, names = hf_config.get("layer_types") or usual, {theirs: ours for ours, theirs in TYPES.items()}
    if len(types) != layers or not names.keys() >= set(types) or (window is None and TYPES["window"] in types):
        problem = f"has layer_types={types} and a window of {window} in config.json"
        raise ArtifactError(str(folder), problem, f"give each of {layers} layers one of {', '.join(names)}")
    pattern = shortest_pattern([names[kind] for kind in types])
    return {"attention_pattern": pattern, "window": window if "window" in pattern else None}

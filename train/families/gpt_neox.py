"""GPT-NeoX (Black et al. 2022) and Pythia (Biderman et al. 2023): ``GPTNeoXForCausalLM``."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

from headrace.pipeline.core.errors import ArtifactError
from headrace.train.config import ModelConfig
from headrace.train.families.family import Family, Preset, WeightNames, common_fields, has_parts, require
from headrace.train.families.rotary import ROTARY, rope_parameters, rope_to_hf, rotary_from_hf
from headrace.train.parts import ActivationName, NormPlaceName

VOCABULARY = 50_304
PARTS: Mapping[str, Any] = {
    "positions": "rope",
    "norm": "layernorm",
}
PLACES: Mapping[bool, NormPlaceName] = {True: "parallel", False: "pre"}
"""``use_parallel_residual`` → the place of norms."""
ACTIVATIONS: Mapping[str, ActivationName] = {"gelu": "gelu_exact", "gelu_fast": "gelu", "gelu_new": "gelu"}
"""The name of an activation in config.json → ours."""


class GptNeoX(Family):
    """Attention and feed-forward layer in parallel or in turn, rotation of a part of each head, LayerNorm, biases."""

    model_type = "gpt_neox"
    weight_names = WeightNames(
        block="gpt_neox.layers",
        prefix="gpt_neox",
        further={"embed_out.weight": ("lm_head.weight",)},
        inner={
            "attention_norm": ("input_layernorm",),
            "attention.qkv": ("attention.query_key_value",),
            "attention.output": ("attention.dense",),
            "mlp_norm": ("post_attention_layernorm",),
            "mlp.up": ("mlp.dense_h_to_4h",),
            "mlp.down": ("mlp.dense_4h_to_h",),
        },
        outer={"embedding": "gpt_neox.embed_in", "norm": "gpt_neox.final_layer_norm", "head": "embed_out"},
        qkv_by_head=True,
    )
    width_and_heads = ("hidden_size", "num_attention_heads")
    presets: ClassVar[Mapping[str, Preset]] = {
        "pythia_70m": Preset(VOCABULARY, 70_426_624),  # huggingface.co/EleutherAI/pythia-70m and its larger siblings
        "pythia_160m": Preset(VOCABULARY, 162_322_944),
        "pythia_410m": Preset(VOCABULARY, 405_334_016),
        "pythia_1b": Preset(VOCABULARY, 1_011_781_632),
        "pythia_1_4b": Preset(VOCABULARY, 1_414_647_808),
        "pythia_2_8b": Preset(VOCABULARY, 2_775_208_960),
        "pythia_6_9b": Preset(50_432, 6_857_302_016),
        "gpt_neox_20b": Preset(50_432, 20_554_567_680),  # huggingface.co/EleutherAI/gpt-neox-20b
        "pythia_12b": Preset(50_688, 11_846_072_320),
    }

    def computes(self, config: ModelConfig) -> bool:
        is_known = config.norm_place in PLACES.values() and config.activation in ACTIVATIONS.values()
        free = ("rotary_fraction", "norm_place", "activation", *ROTARY)
        return is_known and config.kv_heads == config.heads and has_parts(config, *free, **PARTS)

    def to_hf_config(self, config: ModelConfig) -> dict[str, Any]:
        theta, fraction = config.rope_theta, config.rotary_fraction
        return {
            **common_fields(self.model_type, "GPTNeoXForCausalLM", config),
            "num_hidden_layers": config.layers,
            "hidden_size": config.width,
            "num_attention_heads": config.heads,
            "max_position_embeddings": config.context,
            "intermediate_size": config.mlp_width,
            "layer_norm_eps": config.norm_epsilon,
            "hidden_act": {ours: theirs for theirs, ours in ACTIVATIONS.items()}[config.activation],
            "use_parallel_residual": config.norm_place == "parallel",
            "rotary_emb_base": theta,
            "rotary_pct": fraction,
            **rope_to_hf(config, partial_rotary_factor=fraction),
            **dict.fromkeys(("hidden_dropout", "attention_dropout"), config.dropout),
        }

    def from_hf_config(self, hf_config: Mapping[str, Any], folder: Path) -> ModelConfig:
        require(folder, hf_config, {"attention_bias": True})
        activation = hf_config.get("hidden_act", "gelu")
        if activation not in ACTIVATIONS:
            problem = f"has hidden_act={activation!r} in config.json"
            raise ArtifactError(str(folder), problem, f"only {', '.join(ACTIVATIONS)} are computed")
        older = {"rope_theta": hf_config.get("rotary_emb_base", 10_000.0)}
        rope = rope_parameters(hf_config)
        own = {
            "activation": ACTIVATIONS[activation],
            "norm_place": PLACES[bool(hf_config.get("use_parallel_residual", True))],
            "norm_epsilon": hf_config.get("layer_norm_eps", 1e-5),
            "rotary_fraction": rope.get("partial_rotary_factor", hf_config.get("rotary_pct", 0.25)),
        }
        return ModelConfig(**{**rotary_from_hf({**older, **hf_config}, folder), **PARTS, **own})

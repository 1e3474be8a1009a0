"""GPT-NeoX (Black et al. 2022) and Pythia (Biderman et al. 2023): ``GPTNeoXForCausalLM``."""

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

from headrace.train.config import ModelConfig
from headrace.train.families.family import EPSILON, Family, FieldNames, FieldTable, Preset, WeightNames
from headrace.train.families.rotary import rope_from_hf, rope_parameters, rope_to_hf
from headrace.train.parts import ActivationName

VOCABULARY = 50_304


class GptNeoX(Family):
    """Attention and feed-forward layer in parallel or in turn, rotation of a part of each head, LayerNorm, biases."""

    model_type = "gpt_neox"
    architecture = "GPTNeoXForCausalLM"
    parts: ClassVar[FieldTable] = {"positions": "rope"}
    free: ClassVar[tuple[str, ...]] = ("rotary_fraction", "rope_scaling")
    sizes: ClassVar[FieldNames] = {
        "layers": "num_hidden_layers",
        "width": "hidden_size",
        "heads": "num_attention_heads",
        "context": "max_position_embeddings",
        "mlp_width": "intermediate_size",
        "norm_epsilon": "layer_norm_eps",
    }
    ties_by_default = False
    activation_field = "hidden_act"
    activations: ClassVar[Mapping[str, ActivationName]] = {
        "gelu": "gelu_exact",
        "gelu_fast": "gelu",
        "gelu_new": "gelu",
    }
    expected: ClassVar[FieldTable] = {"attention_bias": True}
    dropout_fields: ClassVar[tuple[str, ...]] = ("hidden_dropout", "attention_dropout")
    defaults: ClassVar[FieldTable] = {"layer_norm_eps": EPSILON}
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
        before = dataclasses.replace(config, norm_place="pre") if config.norm_place == "parallel" else config
        return super().computes(before)

    def further_to_hf(self, config: ModelConfig) -> dict[str, Any]:
        return {
            "use_parallel_residual": config.norm_place == "parallel",
            "rotary_emb_base": config.rope_theta,
            "rotary_pct": config.rotary_fraction,
            **rope_to_hf(config, partial_rotary_factor=config.rotary_fraction),
        }

    def further_from_hf(self, hf_config: Mapping[str, Any], folder: Path) -> dict[str, Any]:
        older = {"rope_theta": hf_config.get("rotary_emb_base", 10_000.0)}
        fraction = rope_parameters(hf_config).get("partial_rotary_factor", hf_config.get("rotary_pct", 0.25))
        return {
            "norm_place": "parallel" if hf_config.get("use_parallel_residual", True) else "pre",
            "rotary_fraction": fraction,
            **rope_from_hf({**older, **hf_config}, folder),
        }

"""MPT (MosaicML 2023): ``MptForCausalLM``."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

from headrace.train.config import ModelConfig
from headrace.train.families.family import Family, Preset, WeightNames, common_fields, has_parts, require

VOCABULARY = 50_432
EPSILON = 1e-5
"""The class has no other."""
PARTS: Mapping[str, Any] = {
    "positions": "alibi",
    "norm": "layernorm_no_bias",
    "activation": "gelu_exact",
    "bias": False,
    "tied": True,
}


class Mpt(Family):
    """ALiBi, LayerNorm without bias before each part, GELU, no biases; the number of heads is a power of two."""

    model_type = "mpt"
    weight_names = WeightNames(
        block="transformer.blocks",
        prefix="transformer",
        inner={
            "attention_norm": ("norm_1",),
            "attention.qkv": ("attn.Wqkv",),
            "attention.output": ("attn.out_proj",),
            "mlp_norm": ("norm_2",),
            "mlp.up": ("ffn.up_proj",),
            "mlp.down": ("ffn.down_proj",),
        },
        outer={"embedding": "transformer.wte", "norm": "transformer.norm_f", "head": "lm_head"},
    )
    width_and_heads = ("d_model", "n_heads")
    presets: ClassVar[Mapping[str, Preset]] = {
        "mpt_7b": Preset(VOCABULARY, 6_649_286_656),  # huggingface.co/mosaicml/mpt-7b
        "mpt_30b": Preset(VOCABULARY, 30e9, rounding=0.002),
    }

    def computes(self, config: ModelConfig) -> bool:
        has_sizes = config.kv_heads == config.heads and config.mlp_width == 4 * config.width
        is_known = has_sizes and config.norm_epsilon == EPSILON and config.heads.bit_count() == 1
        return is_known and config.tied and has_parts(config, "rope_theta", **PARTS)

    def to_hf_config(self, config: ModelConfig) -> dict[str, Any]:
        return {
            **common_fields(self.model_type, "MptForCausalLM", config),
            "n_layers": config.layers,
            "d_model": config.width,
            "n_heads": config.heads,
            "max_seq_len": config.context,
            "expansion_ratio": 4,
            "layer_norm_epsilon": config.norm_epsilon,
            "no_bias": True,
            "attn_config": {"alibi": True},  # the class takes no fraction there for dropout
            **dict.fromkeys(("emb_pdrop", "resid_pdrop"), config.dropout),
        }

    def from_hf_config(self, hf_config: Mapping[str, Any], folder: Path) -> ModelConfig:
        attention = hf_config.get("attn_config") or {}
        values = {"alibi": True, "clip_qkv": None, "softmax_scale": None, "qk_ln": False, "prefix_lm": False}
        require(folder, attention, {**values, "alibi_bias_max": 8, "attn_type": "multihead_attention"})
        require(folder, hf_config, {"no_bias": True, "expansion_ratio": 4, "tie_word_embeddings": True})
        require(folder, {"heads": hf_config["n_heads"].bit_count()}, {"heads": 1})
        width, heads = hf_config["d_model"], hf_config["n_heads"]
        return ModelConfig(
            layers=hf_config["n_layers"],
            width=width,
            heads=heads,
            kv_heads=heads,
            context=hf_config["max_seq_len"],
            mlp_width=4 * width,
            norm_epsilon=EPSILON,
            **PARTS,
        )

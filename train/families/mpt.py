"""MPT (MosaicML 2023): ``MptForCausalLM``."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

from headrace.train.config import ModelConfig
from headrace.train.families.family import EPSILON, Family, FieldNames, FieldTable, Preset, WeightNames, require

VOCABULARY = 50_432


class Mpt(Family):
    """ALiBi, LayerNorm without bias before each part, GELU, no biases; the number of heads is a power of two."""

    model_type = "mpt"
    architecture = "MptForCausalLM"
    parts: ClassVar[FieldTable] = {
        "positions": "alibi",
        "norm": "layernorm_no_bias",
        "activation": "gelu_exact",
        "bias": False,
    }
    sizes: ClassVar[FieldNames] = {
        "layers": "n_layers",
        "width": "d_model",
        "heads": "n_heads",
        "context": "max_seq_len",
    }
    ties = True
    fixed: ClassVar[FieldTable] = {"no_bias": True, "expansion_ratio": 4}
    dropout_fields: ClassVar[tuple[str, ...]] = ("emb_pdrop", "resid_pdrop")
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
        return config.heads.bit_count() == 1 and super().computes(config)

    def further_to_hf(self, config: ModelConfig) -> dict[str, Any]:
        """Returns the kind of attention: the class takes no fraction there for dropout."""
        return {"layer_norm_epsilon": EPSILON, "attn_config": {"alibi": True}}

    def further_from_hf(self, hf_config: Mapping[str, Any], folder: Path) -> dict[str, Any]:
        attention = hf_config.get("attn_config") or {}
        values = {"alibi": True, "clip_qkv": None, "softmax_scale": None, "qk_ln": False, "prefix_lm": False}
        require(folder, attention, {**values, "alibi_bias_max": 8, "attn_type": "multihead_attention"})
        require(folder, {"heads": hf_config["n_heads"].bit_count()}, {"heads": 1})
        return {}

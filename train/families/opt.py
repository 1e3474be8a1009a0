"""OPT (Zhang et al. 2022): ``OPTForCausalLM``.

OPT 350M has normalizations after each addition and a narrower embedding: it is refused.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

from headrace.train.config import ModelConfig
from headrace.train.families.family import Family, FieldNames, FieldTable, Preset, WeightNames, require

VOCABULARY = 50_272


class Opt(Family):
    """GPT-2's parts with ReLU, and two rows of the table of positions before that of the first token."""

    model_type = "opt"
    architecture = "OPTForCausalLM"
    parts: ClassVar[FieldTable] = {"activation": "relu", "position_offset": 2}
    sizes: ClassVar[FieldNames] = {
        "layers": "num_hidden_layers",
        "width": "hidden_size",
        "heads": "num_attention_heads",
        "context": "max_position_embeddings",
        "mlp_width": "ffn_dim",
    }
    fixed: ClassVar[FieldTable] = {"activation_function": "relu", "do_layer_norm_before": True}
    expected: ClassVar[FieldTable] = {
        "_remove_final_layer_norm": False,
        "enable_bias": True,
        "layer_norm_elementwise_affine": True,
    }
    dropout_fields: ClassVar[tuple[str, ...]] = ("dropout", "attention_dropout")
    weight_names = WeightNames(
        block="model.decoder.layers",
        prefix="model",
        inner={
            "attention_norm": ("self_attn_layer_norm",),
            "attention.qkv": ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"),
            "attention.output": ("self_attn.out_proj",),
            "mlp_norm": ("final_layer_norm",),
            "mlp.up": ("fc1",),
            "mlp.down": ("fc2",),
        },
        outer={
            "embedding": "model.decoder.embed_tokens",
            "positions": "model.decoder.embed_positions",
            "norm": "model.decoder.final_layer_norm",
            "head": "lm_head",
        },
    )
    width_and_heads = ("hidden_size", "num_attention_heads")
    presets: ClassVar[Mapping[str, Preset]] = {
        "opt_125m": Preset(VOCABULARY, 125_239_296),  # huggingface.co/facebook/opt-125m and its larger siblings
        "opt_1_3b": Preset(VOCABULARY, 1_315_758_080),
        "opt_2_7b": Preset(VOCABULARY, 2_651_596_800),
        "opt_6_7b": Preset(VOCABULARY, 6_658_473_984),
        "opt_13b": Preset(VOCABULARY, 12_853_473_280),
        "opt_30b": Preset(VOCABULARY, 29_974_540_288),
        "opt_66b": Preset(VOCABULARY, 66e9, rounding=0.005),  # Zhang et al. 2022, table 1
        "opt_175b": Preset(VOCABULARY, 175e9, rounding=0.003),
    }

    def further_to_hf(self, config: ModelConfig) -> dict[str, Any]:
        return {"word_embed_proj_dim": config.width}

    def further_from_hf(self, hf_config: Mapping[str, Any], folder: Path) -> dict[str, Any]:
        require(folder, hf_config, {"word_embed_proj_dim": hf_config["hidden_size"]})
        return {}

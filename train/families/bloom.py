"""BLOOM (BigScience Workshop 2022): ``BloomForCausalLM``."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

from headrace.train.config import ModelConfig
from headrace.train.families.family import Family, Preset, WeightNames, common_fields, has_parts, require

VOCABULARY = 250_880


class Bloom(Family):
    """ALiBi, LayerNorm before each part and after the embedding, GELU, biases."""

    model_type = "bloom"
    weight_names = WeightNames(
        block="transformer.h",
        prefix="transformer",
        inner={
            "attention_norm": ("input_layernorm",),
            "attention.qkv": ("self_attention.query_key_value",),
            "attention.output": ("self_attention.dense",),
            "mlp_norm": ("post_attention_layernorm",),
            "mlp.up": ("mlp.dense_h_to_4h",),
            "mlp.down": ("mlp.dense_4h_to_h",),
        },
        outer={
            "embedding": "transformer.word_embeddings",
            "embedding_norm": "transformer.word_embeddings_layernorm",
            "norm": "transformer.ln_f",
            "head": "lm_head",
        },
        qkv_by_head=True,
    )
    presets: ClassVar[Mapping[str, Preset]] = {
        "bloom_560m": Preset(VOCABULARY, 559_214_592),  # huggingface.co/bigscience/bloom-560m and its larger siblings
        "bloom_1b1": Preset(VOCABULARY, 1_065_314_304),
        "bloom_1b7": Preset(VOCABULARY, 1_722_408_960),
        "bloom_3b": Preset(VOCABULARY, 3_002_557_440),
        "bloom_7b1": Preset(VOCABULARY, 7_069_016_064),
        "bloom_176b": Preset(VOCABULARY, 176_247_271_424),
    }

    def computes(self, config: ModelConfig) -> bool:
        has_sizes = config.kv_heads == config.heads and config.mlp_width == 4 * config.width
        return has_sizes and has_parts(config, "rope_theta", positions="alibi", embedding_norm=True)

    def to_hf_config(self, config: ModelConfig) -> dict[str, Any]:
        return {
            **common_fields(self.model_type, "BloomForCausalLM", config),
            "n_layer": config.layers,
            "hidden_size": config.width,
            "n_head": config.heads,
            "seq_length": config.context,
            "layer_norm_epsilon": config.norm_epsilon,
            **dict.fromkeys(("hidden_dropout", "attention_dropout"), config.dropout),
        }

    def from_hf_config(self, hf_config: Mapping[str, Any], folder: Path) -> ModelConfig:
        require(folder, hf_config, {"apply_residual_connection_post_layernorm": False})
        layers, heads, width = (
            hf_config.get(other) or hf_config[name]  # published folders have the other names
            for other, name in (
                ("num_hidden_layers", "n_layer"),
                ("num_attention_heads", "n_head"),
                ("n_embed", "hidden_size"),
            )
        )
        return ModelConfig(
            layers=layers,
            width=width,
            heads=heads,
            kv_heads=heads,
            context=hf_config.get("seq_length", 2048),
            mlp_width=4 * width,
            positions="alibi",
            norm_epsilon=hf_config.get("layer_norm_epsilon", 1e-5),
            embedding_norm=True,
            tied=hf_config.get("tie_word_embeddings", True),
        )

"""BLOOM (BigScience Workshop 2022): ``BloomForCausalLM``."""

from collections.abc import Mapping
from typing import Any, ClassVar

from headrace.train.families.family import EPSILON, Family, FieldNames, FieldTable, Preset, WeightNames

VOCABULARY = 250_880
PUBLISHED_NAMES = {"n_layer": "num_hidden_layers", "n_head": "num_attention_heads", "hidden_size": "n_embed"}
"""Name in config.json → the one that published folders have."""


class Bloom(Family):
    """ALiBi, LayerNorm before each part and after the embedding, GELU, biases."""

    model_type = "bloom"
    architecture = "BloomForCausalLM"
    parts: ClassVar[FieldTable] = {"positions": "alibi", "embedding_norm": True}
    sizes: ClassVar[FieldNames] = {
        "layers": "n_layer",
        "width": "hidden_size",
        "heads": "n_head",
        "context": "seq_length",
        "norm_epsilon": "layer_norm_epsilon",
    }
    expected: ClassVar[FieldTable] = {"apply_residual_connection_post_layernorm": False}
    dropout_fields: ClassVar[tuple[str, ...]] = ("hidden_dropout", "attention_dropout")
    defaults: ClassVar[FieldTable] = {"seq_length": 2048, "layer_norm_epsilon": EPSILON}
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

    def read_sizes(self, hf_config: Mapping[str, Any]) -> dict[str, Any]:
        """Returns the sizes, for which published folders have other names."""
        published = {name: hf_config[other] for name, other in PUBLISHED_NAMES.items() if hf_config.get(other)}
        return super().read_sizes({**hf_config, **published})

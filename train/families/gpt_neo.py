"""GPT-Neo (Black et al. 2021): ``GPTNeoForCausalLM``."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

from headrace.pipeline.core.errors import ArtifactError
from headrace.train.config import ModelConfig
from headrace.train.families.family import EPSILON, Family, FieldNames, FieldTable, Preset, WeightNames
from headrace.train.families.rotary import has_shortest_pattern, shortest_pattern
from headrace.train.parts import AttentionName

VOCABULARY = 50_257
LAYERS: Mapping[str, AttentionName] = {"global": "full", "local": "window"}
"""The name of a layer's attention in config.json → ours."""


class GptNeo(Family):
    """GPT-2's parts without biases of queries, keys and values, logits that are not scaled, a window in some layers."""

    model_type = "gpt_neo"
    architecture = "GPTNeoForCausalLM"
    parts: ClassVar[FieldTable] = {"qkv_bias": False, "attention_scale_width": 1}
    free: ClassVar[tuple[str, ...]] = ("attention_pattern", "window")
    sizes: ClassVar[FieldNames] = {
        "layers": "num_layers",
        "width": "hidden_size",
        "heads": "num_heads",
        "context": "max_position_embeddings",
        "mlp_width": "intermediate_size",
        "norm_epsilon": "layer_norm_epsilon",
    }
    widens = True
    fixed: ClassVar[FieldTable] = {"activation_function": "gelu_new"}
    dropout_fields: ClassVar[tuple[str, ...]] = ("embed_dropout", "attention_dropout", "resid_dropout")
    defaults: ClassVar[FieldTable] = {"layer_norm_epsilon": EPSILON}
    weight_names = WeightNames(
        block="transformer.h",
        prefix="transformer",
        inner={
            "attention_norm": ("ln_1",),
            "attention.qkv": ("attn.attention.q_proj", "attn.attention.k_proj", "attn.attention.v_proj"),
            "attention.output": ("attn.attention.out_proj",),
            "mlp_norm": ("ln_2",),
            "mlp.up": ("mlp.c_fc",),
            "mlp.down": ("mlp.c_proj",),
        },
        outer={
            "embedding": "transformer.wte",
            "positions": "transformer.wpe",
            "norm": "transformer.ln_f",
            "head": "lm_head",
        },
    )
    width_and_heads = ("hidden_size", "num_heads")
    presets: ClassVar[Mapping[str, Preset]] = {
        "gpt_neo_125m": Preset(VOCABULARY, 125_198_592),  # huggingface.co/EleutherAI/gpt-neo-125m
    }

    def computes(self, config: ModelConfig) -> bool:
        return has_shortest_pattern(config) and super().computes(config)

    def further_to_hf(self, config: ModelConfig) -> dict[str, Any]:
        names = {ours: theirs for theirs, ours in LAYERS.items()}
        return {
            "window_size": config.window or 256,
            "attention_types": [[[names[attention]], 1] for attention in config.layer_attention],
            "attention_layers": [names[attention] for attention in config.layer_attention],
        }

    def further_from_hf(self, hf_config: Mapping[str, Any], folder: Path) -> dict[str, Any]:
        types = hf_config.get("attention_types", [[["global", "local"], 12]])
        layers = [name for names, times in types for _ in range(times) for name in names]
        if len(layers) != hf_config["num_layers"] or not LAYERS.keys() >= set(layers):
            problem = f"has attention_types={types} in config.json"
            remedy = f"give each of {hf_config['num_layers']} layers one of {', '.join(LAYERS)}"
            raise ArtifactError(str(folder), problem, remedy)
        pattern = shortest_pattern([LAYERS[name] for name in layers])
        window = hf_config.get("window_size", 256) if "window" in pattern else None
        return {"attention_pattern": pattern, "window": window}

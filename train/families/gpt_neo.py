"""GPT-Neo (Black et al. 2021): ``GPTNeoForCausalLM``."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

from headrace.pipeline.core.errors import ArtifactError
from headrace.train.config import ModelConfig
from headrace.train.families.family import Family, Preset, WeightNames, common_fields, has_parts, require
from headrace.train.families.rotary import has_shortest_pattern, shortest_pattern
from headrace.train.parts import AttentionName

VOCABULARY = 50_257
LAYERS: Mapping[str, AttentionName] = {"global": "full", "local": "window"}
"""The name of a layer's attention in config.json → ours."""
PARTS: Mapping[str, Any] = {"qkv_bias": False, "attention_scale_width": 1}


class GptNeo(Family):
    """GPT-2's parts without biases of queries, keys and values, logits that are not scaled, a window in some layers."""

    model_type = "gpt_neo"
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
        free = ("attention_pattern", "window", "rope_theta")
        return config.kv_heads == config.heads and has_shortest_pattern(config) and has_parts(config, *free, **PARTS)

    def to_hf_config(self, config: ModelConfig) -> dict[str, Any]:
        names = {ours: theirs for theirs, ours in LAYERS.items()}
        return {
            **common_fields(self.model_type, "GPTNeoForCausalLM", config),
            "num_layers": config.layers,
            "hidden_size": config.width,
            "num_heads": config.heads,
            "max_position_embeddings": config.context,
            "intermediate_size": config.mlp_width,
            "layer_norm_epsilon": config.norm_epsilon,
            "activation_function": "gelu_new",
            "window_size": config.window or 256,
            "attention_types": [[[names[attention]], 1] for attention in config.layer_attention],
            "attention_layers": [names[attention] for attention in config.layer_attention],
            **dict.fromkeys(("embed_dropout", "attention_dropout", "resid_dropout"), config.dropout),
        }

    def from_hf_config(self, hf_config: Mapping[str, Any], folder: Path) -> ModelConfig:
        require(folder, hf_config, {"activation_function": "gelu_new"})
        types = hf_config.get("attention_types", [[["global", "local"], 12]])
        layers = [name for names, times in types for _ in range(times) for name in names]
        if len(layers) != hf_config["num_layers"] or not LAYERS.keys() >= set(layers):
            problem = f"has attention_types={types} in config.json"
            remedy = f"give each of {hf_config['num_layers']} layers one of {', '.join(LAYERS)}"
            raise ArtifactError(str(folder), problem, remedy)
        pattern = shortest_pattern([LAYERS[name] for name in layers])
        width, heads = hf_config["hidden_size"], hf_config["num_heads"]
        return ModelConfig(
            layers=hf_config["num_layers"],
            width=width,
            heads=heads,
            kv_heads=heads,
            context=hf_config["max_position_embeddings"],
            mlp_width=hf_config.get("intermediate_size") or 4 * width,
            norm_epsilon=hf_config.get("layer_norm_epsilon", 1e-5),
            tied=hf_config.get("tie_word_embeddings", True),
            attention_pattern=pattern,
            window=hf_config.get("window_size", 256) if "window" in pattern else None,
            **PARTS,
        )

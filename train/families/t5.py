"""T5 (Raffel et al. 2020), versions 1.0 and 1.1: ``T5ForConditionalGeneration``.

    version    activation    output layer
    1.0        ReLU          the embedding, which reads vectors divided by sqrt(width)
    1.1        GEGLU         a matrix of its own

``transformers`` builds both versions tied, and unties the output matrix where a folder holds another one
(``Family.always_ties``): there ``tie_word_embeddings`` decides the division alone.
"""

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

from headrace.train.config import ModelConfig
from headrace.train.context import ContextForm
from headrace.train.families.family import Family, FieldNames, FieldTable, Preset, WeightNames, require
from headrace.train.parts import T5_BUCKETS, ActivationName, StackName

VOCABULARY = 32128
SELF = {
    "attention_norm": ("layer.0.layer_norm",),
    "attention.qkv": tuple(f"layer.0.SelfAttention.{part}" for part in "qkv"),
    "attention.output": ("layer.0.SelfAttention.o",),
}
CROSS = {
    "cross_norm": ("layer.1.layer_norm",),
    "cross.query": ("layer.1.EncDecAttention.q",),
    "cross.key_value": ("layer.1.EncDecAttention.k", "layer.1.EncDecAttention.v"),
    "cross.output": ("layer.1.EncDecAttention.o",),
}
ACTIVATIONS: Mapping[bool, tuple[ActivationName, str]] = {True: ("relu", "relu"), False: ("geglu", "gated-gelu")}
"""Whether it is version 1.0 → the activation, under our name and that of ``feed_forward_proj``."""
SIZES: FieldTable = {"n_positions": 512, "layer_norm_epsilon": 1e-6}
"""The values of the class for sizes that a config.json leaves out."""


def bias_name(layer: int) -> str:
    """Returns the name of a layer's table of biases in its stack at Hugging Face."""
    return f"block.{layer}.layer.0.SelfAttention.relative_attention_bias"


class T5(Family):
    """Two stacks with one embedding, a learned bias by distance for each stack, RMSNorm, no biases, unscaled logits."""

    model_type = "t5"
    architecture = "T5ForConditionalGeneration"
    parts: ClassVar[FieldTable] = {
        "stack": "encoder_decoder",
        "positions": "t5",
        "norm": "rmsnorm",
        "bias": False,
        "attention_scale_width": 1,
    }
    free: ClassVar[tuple[str, ...]] = (
        "activation",
        "attention_width",
        "encoder_layers",
        "initialization",
        "scaled_output",
    )
    sizes: ClassVar[FieldNames] = {
        "width": "d_model",
        "heads": "num_heads",
        "mlp_width": "d_ff",
        "context": "n_positions",
        "norm_epsilon": "layer_norm_epsilon",
    }
    fixed: ClassVar[FieldTable] = {
        "is_encoder_decoder": True,
        "relative_attention_num_buckets": T5_BUCKETS,
        "relative_attention_max_distance": 128,
    }
    dropout_fields: ClassVar[tuple[str, ...]] = ("dropout_rate",)
    stacks: ClassVar[tuple[StackName, ...]] = ("encoder_decoder",)
    always_ties = True
    defaults: ClassVar[FieldTable] = SIZES | {"feed_forward_proj": "relu"}
    presets: ClassVar[Mapping[str, Preset]] = {
        "t5_small": Preset(VOCABULARY, 60_506_624),
        "t5_base": Preset(VOCABULARY, 222_903_552),
        "t5_large": Preset(VOCABULARY, 737_668_096),
        "t5_3b": Preset(VOCABULARY, 2_851_598_336),
        "t5_11b": Preset(VOCABULARY, 11_307_321_344),
        "t5_v1_1_small": Preset(VOCABULARY, 76_961_152),
        "t5_v1_1_base": Preset(VOCABULARY, 247_577_856),
        "t5_v1_1_large": Preset(VOCABULARY, 783_150_080),
        "t5_v1_1_xl": Preset(VOCABULARY, 2_849_757_184),
        "t5_v1_1_xxl": Preset(VOCABULARY, 11_135_332_352),
    }

    def names(self, config: ModelConfig) -> WeightNames:
        """Returns the names of the weights; a gated activation has two matrices where the other has one."""
        ups = ("wi",) if config.activation == "relu" else ("wi_0", "wi_1")
        stacks = {}
        parts = (("encoder", SELF, 1, config.encoder.layers), ("decoder", SELF | CROSS, 2, config.layers))
        for stack, attention, layer, layers in parts:
            dense = f"layer.{layer}.DenseReluDense"
            feed_forward = {
                "mlp_norm": (f"layer.{layer}.layer_norm",),
                "mlp.up": tuple(f"{dense}.{up}" for up in ups),
                "mlp.down": (f"{dense}.wo",),
            }
            outer = {
                **{ours: f"{stack}.{theirs}" for ours, theirs in self.bias_names(layers).items()},
                "embedding": "shared",
                "norm": f"{stack}.final_layer_norm",
                "head": "lm_head",
            }
            stacks[stack] = WeightNames(
                block=f"{stack}.block",
                inner=attention | feed_forward,
                outer=outer,
                prefix="transformer",
                further={"shared.weight": ("encoder.embed_tokens.weight", "decoder.embed_tokens.weight")},
            )
        return dataclasses.replace(stacks["decoder"], encoder=stacks["encoder"])

    def bias_names(self, layers: int) -> Mapping[str, str]:
        """Returns the names of a stack's tables of biases, ours → at Hugging Face."""
        return {"positions.table": bias_name(0)}

    def context_form(self, start: int, ids: Mapping[str, int]) -> ContextForm:
        """Returns the form in which the continuation is the span of the first sentinel, if the tokenizer has any."""
        form = super().context_form(start, ids)
        first, second = (ids.get(sentinel) for sentinel in ("<extra_id_0>", "<extra_id_1>"))
        if first is None or second is None:
            return form
        return dataclasses.replace(form, ending=(first, *form.ending), given=(start, first), stops=(second,))

    def computes(self, config: ModelConfig) -> bool:
        activation = ACTIVATIONS[config.scaled_output][0]
        return (config.tied, config.activation) == (config.scaled_output, activation) and super().computes(config)

    def further_to_hf(self, config: ModelConfig) -> dict[str, Any]:
        return {
            "num_layers": config.encoder.layers,
            "num_decoder_layers": config.layers,
            "d_kv": config.head_width,
            "feed_forward_proj": ACTIVATIONS[config.scaled_output][1],
        }

    def further_from_hf(self, hf_config: Mapping[str, Any], folder: Path) -> dict[str, Any]:
        is_first = hf_config.get("scale_decoder_outputs", hf_config.get("tie_word_embeddings") is not False)
        activation, feed_forward = ACTIVATIONS[is_first]
        require(folder, hf_config, {"feed_forward_proj": feed_forward})
        layers, width = hf_config["num_layers"], hf_config["num_heads"] * hf_config["d_kv"]
        decoder_layers = hf_config.get("num_decoder_layers") or layers
        return {
            "activation": activation,
            "tied": is_first,
            "scaled_output": is_first,
            "layers": decoder_layers,
            "encoder_layers": None if layers == decoder_layers else layers,
            "attention_width": None if width == hf_config["d_model"] else width,
            "initialization": "t5",
        }

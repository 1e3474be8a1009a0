"""BART (Lewis et al. 2020): ``BartForConditionalGeneration``."""

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

from headrace.data_prep.tokenization.special_tokens import document_end
from headrace.train.config import ModelConfig
from headrace.train.context import ContextForm, whole_text_form
from headrace.train.families.family import Family, Preset, WeightNames, common_fields, has_parts, require
from headrace.train.families.opt import Opt
from headrace.train.families.task_heads import TaskHead, TaskKind, dense
from headrace.train.parts import StackName

VOCABULARY = 50_265
SHARED: Mapping[str, Any] = {
    "stack": "encoder_decoder",
    "position_offset": 2,
    "norm_place": "post",
    "embedding_norm": True,
    "activation": "gelu_exact",
}
"""The parts of all sizes that are not the default."""
EPSILON = 1e-5
"""The class has no setting for it."""
CROSS = {
    "cross_norm": ("encoder_attn_layer_norm",),
    "cross.query": ("encoder_attn.q_proj",),
    "cross.key_value": ("encoder_attn.k_proj", "encoder_attn.v_proj"),
    "cross.output": ("encoder_attn.out_proj",),
}


def stack_names(stack: str, inner: Mapping[str, tuple[str, ...]]) -> WeightNames:
    """Returns the names of the weights of one stack."""
    outer = {
        "embedding": "model.shared",
        "positions": f"model.{stack}.embed_positions",
        "embedding_norm": f"model.{stack}.layernorm_embedding",
        "head": "lm_head",
    }
    further = {"model.shared.weight": ("model.encoder.embed_tokens.weight", "model.decoder.embed_tokens.weight")}
    return WeightNames(block=f"model.{stack}.layers", inner=inner, outer=outer, prefix="model", further=further)


class Bart(Family):
    """Two stacks with one embedding, learned positions for each, LayerNorm after embedding and parts, biases."""

    model_type = "bart"
    stacks: ClassVar[tuple[StackName, ...]] = ("encoder_decoder",)
    weight_names = dataclasses.replace(
        stack_names("decoder", {**Opt.weight_names.inner, **CROSS}),
        encoder=stack_names("encoder", Opt.weight_names.inner),
    )
    zero_weights = ("final_logits_bias",)
    width_and_heads = ("d_model", "encoder_attention_heads")
    task_heads: ClassVar[Mapping[TaskKind, TaskHead]] = {
        "classification": dense("BartForSequenceClassification", "classification_head"),
    }
    defaults: ClassVar[Mapping[str, Any]] = {"decoder_attention_heads": 16, "decoder_ffn_dim": 4096}
    presets: ClassVar[Mapping[str, Preset]] = {  # huggingface.co/facebook/bart-base, and bart-large
        "bart_base": Preset(VOCABULARY, 139_420_416),
        "bart_large": Preset(VOCABULARY, 406_291_456),
    }

    def computes(self, config: ModelConfig) -> bool:
        has_sizes = config.kv_heads == config.heads and config.norm_epsilon == EPSILON and config.tied
        return has_sizes and has_parts(config, "rope_theta", "encoder_layers", **SHARED)

    def to_hf_config(self, config: ModelConfig) -> dict[str, Any]:
        of_stacks = {"encoder": config.encoder.layers, "decoder": config.layers}
        sizes = {f"{stack}_layers": layers for stack, layers in of_stacks.items()}
        sizes |= {f"{stack}_attention_heads": config.heads for stack in of_stacks}
        sizes |= {f"{stack}_ffn_dim": config.mlp_width for stack in of_stacks}
        return {
            **common_fields(self.model_type, "BartForConditionalGeneration", config),
            "is_encoder_decoder": True,
            **sizes,
            "d_model": config.width,
            "max_position_embeddings": config.context,
            "activation_function": "gelu",
            "scale_embedding": False,
            "forced_eos_token_id": None,
            **dict.fromkeys(("dropout", "attention_dropout"), config.dropout),
            **({"activation_dropout": config.dropout} if "feed_forward" in config.dropout_places else {}),
        }

    def from_hf_config(self, hf_config: Mapping[str, Any], folder: Path) -> ModelConfig:
        heads, mlp_width = hf_config["encoder_attention_heads"], hf_config["encoder_ffn_dim"]
        fixed = {"activation_function": "gelu", "scale_embedding": False, "tie_word_embeddings": True}
        fixed |= {"is_encoder_decoder": True, "normalize_before": False, "add_final_layer_norm": False}
        fixed |= {"static_position_embeddings": False, "normalize_embedding": True}
        require(folder, hf_config, {**fixed, "decoder_attention_heads": heads, "decoder_ffn_dim": mlp_width})
        layers, encoder_layers = hf_config["decoder_layers"], hf_config["encoder_layers"]
        return ModelConfig(
            **SHARED,
            layers=layers,
            encoder_layers=None if encoder_layers == layers else encoder_layers,
            width=hf_config["d_model"],
            heads=heads,
            kv_heads=heads,
            mlp_width=mlp_width,
            context=hf_config["max_position_embeddings"],
        )

    def decoder_start(self, ids: Mapping[str, int]) -> str | None:
        return document_end(ids)

    def context_form(self, start: int, ids: Mapping[str, int]) -> ContextForm:
        """Returns the form of the pretraining, where the tokenizer has its tokens."""
        begin, end, mask = (ids.get(token) for token in ("<s>", "</s>", "<mask>"))
        if begin is None or end is None or mask is None:
            return super().context_form(start, ids)
        return whole_text_form(begin, end, mask)

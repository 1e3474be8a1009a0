"""BART (Lewis et al. 2020): ``BartForConditionalGeneration``."""

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

from headrace.data_prep.tokenization.special_tokens import document_end
from headrace.train.config import ModelConfig
from headrace.train.context import ContextForm, whole_text_form
from headrace.train.families.family import Family, FieldNames, FieldTable, Preset, WeightNames, require
from headrace.train.families.opt import Opt
from headrace.train.families.task_heads import TaskHead, TaskKind, dense
from headrace.train.parts import StackName

VOCABULARY = 50_265
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
    architecture = "BartForConditionalGeneration"
    parts: ClassVar[FieldTable] = {
        "stack": "encoder_decoder",
        "position_offset": 2,
        "norm_place": "post",
        "embedding_norm": True,
        "activation": "gelu_exact",
    }
    free: ClassVar[tuple[str, ...]] = ("encoder_layers",)
    sizes: ClassVar[FieldNames] = {
        "layers": "decoder_layers",
        "width": "d_model",
        "heads": "encoder_attention_heads",
        "context": "max_position_embeddings",
        "mlp_width": "encoder_ffn_dim",
    }
    ties = True
    fixed: ClassVar[FieldTable] = {
        "activation_function": "gelu",
        "scale_embedding": False,
        "is_encoder_decoder": True,
    }
    expected: ClassVar[FieldTable] = {
        **dict.fromkeys(("normalize_before", "add_final_layer_norm", "static_position_embeddings"), False),
        "normalize_embedding": True,
    }
    dropout_fields: ClassVar[tuple[str, ...]] = ("dropout", "attention_dropout")
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
    defaults: ClassVar[FieldTable] = {"decoder_attention_heads": 16, "decoder_ffn_dim": 4096}
    presets: ClassVar[Mapping[str, Preset]] = {  # huggingface.co/facebook/bart-base, and bart-large
        "bart_base": Preset(VOCABULARY, 139_420_416),
        "bart_large": Preset(VOCABULARY, 406_291_456),
    }

    def further_to_hf(self, config: ModelConfig) -> dict[str, Any]:
        return {
            "encoder_layers": config.encoder.layers,
            "decoder_attention_heads": config.heads,
            "decoder_ffn_dim": config.mlp_width,
            "forced_eos_token_id": None,
            **({"activation_dropout": config.dropout} if "feed_forward" in config.dropout_places else {}),
        }

    def further_from_hf(self, hf_config: Mapping[str, Any], folder: Path) -> dict[str, Any]:
        of_encoder = {"decoder_attention_heads": "encoder_attention_heads", "decoder_ffn_dim": "encoder_ffn_dim"}
        require(folder, hf_config, {name: hf_config[other] for name, other in of_encoder.items()})
        layers = hf_config["encoder_layers"]
        return {"encoder_layers": None if layers == hf_config["decoder_layers"] else layers}

    def decoder_start(self, ids: Mapping[str, int]) -> str | None:
        return document_end(ids)

    def context_form(self, start: int, ids: Mapping[str, int]) -> ContextForm:
        """Returns the form of the pretraining, where the tokenizer has its tokens."""
        begin, end, mask = (ids.get(token) for token in ("<s>", "</s>", "<mask>"))
        if begin is None or end is None or mask is None:
            return super().context_form(start, ids)
        return whole_text_form(begin, end, mask)

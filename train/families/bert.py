"""BERT (Devlin et al. 2019): ``BertForMaskedLM``, and ``BertForPreTraining`` where the model has a pair head."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

from headrace.train.config import ModelConfig
from headrace.train.families.family import Family, Preset, WeightNames, common_fields, has_parts, require
from headrace.train.families.task_heads import TaskHead, TaskKind, pooled, spans, tags
from headrace.train.parts import ActivationName, StackName

VOCABULARY = 30522
BOTH_HEADS = "BertForPreTraining"
ACTIVATIONS: Mapping[str, ActivationName] = {"gelu": "gelu_exact", "gelu_new": "gelu", "relu": "relu"}
"""Name in config.json → ours."""


class Bert(Family):
    """Learned positions, LayerNorm after the embedding and after each part, biases, a transform before the output."""

    model_type = "bert"
    stacks: ClassVar[tuple[StackName, ...]] = ("encoder",)
    weight_names = WeightNames(
        block="bert.encoder.layer",
        prefix="bert",
        further={f"cls.predictions.{leaf}": (f"cls.predictions.decoder.{leaf}",) for leaf in ("weight", "bias")},
        inner={
            "attention.qkv": ("attention.self.query", "attention.self.key", "attention.self.value"),
            "attention.output": ("attention.output.dense",),
            "attention_norm": ("attention.output.LayerNorm",),
            "mlp.up": ("intermediate.dense",),
            "mlp.down": ("output.dense",),
            "mlp_norm": ("output.LayerNorm",),
        },
        outer={
            "embedding": "bert.embeddings.word_embeddings",
            "positions": "bert.embeddings.position_embeddings",
            "segments": "bert.embeddings.token_type_embeddings",
            "embedding_norm": "bert.embeddings.LayerNorm",
            "transform.dense": "cls.predictions.transform.dense",
            "transform.norm": "cls.predictions.transform.LayerNorm",
            "head": "cls.predictions",
            "pair_head.pooler": "bert.pooler.dense",
            "pair_head.output": "cls.seq_relationship",
        },
    )
    width_and_heads = ("hidden_size", "num_attention_heads")
    task_heads: ClassVar[Mapping[TaskKind, TaskHead]] = {
        "classification": pooled("BertForSequenceClassification", "bert.pooler.dense"),
        "multiple_choice": pooled("BertForMultipleChoice", "bert.pooler.dense"),
        "span": spans("BertForQuestionAnswering"),
        "token_classification": tags("BertForTokenClassification"),
    }
    presets: ClassVar[Mapping[str, Preset]] = {  # with the head of masked language modelling alone
        "bert_tiny": Preset(VOCABULARY, 4_416_698),
        "bert_mini": Preset(VOCABULARY, 11_201_594),
        "bert_base": Preset(VOCABULARY, 109_514_298),
        "bert_large": Preset(VOCABULARY, 335_174_458),
    }

    def computes(self, config: ModelConfig) -> bool:
        return has_bert_parts(config, "pair_head")

    def to_hf_config(self, config: ModelConfig) -> dict[str, Any]:
        common = common_fields(self.model_type, BOTH_HEADS if config.pair_head else "BertForMaskedLM", config)
        return {**common, **bert_sizes_to_hf(config), "max_position_embeddings": config.context}

    def from_hf_config(self, hf_config: Mapping[str, Any], folder: Path) -> ModelConfig:
        sizes = bert_sizes_from_hf(hf_config, folder)
        has_both = BOTH_HEADS in (hf_config.get("architectures") or ())
        return ModelConfig(**sizes, context=hf_config["max_position_embeddings"], pair_head=has_both)


def has_bert_parts(config: ModelConfig, *free: str, **parts: object) -> bool:
    """Whether ``config`` has the parts that BERT and RoBERTa share, besides these ``parts``; fields ``free`` may be
    any."""
    shared: dict[str, object] = {"stack": "encoder", "positions": "learned", "norm": "layernorm", "norm_place": "post"}
    shared |= {"bias": True, "embedding_norm": True, "output_transform": True, **parts}
    sizes = config.kv_heads == config.heads and config.segments > 0 and config.tied
    is_known = config.activation in ACTIVATIONS.values()
    return has_parts(config, "rope_theta", "activation", "segments", *free, **shared) and sizes and is_known


def bert_sizes_to_hf(config: ModelConfig) -> dict[str, Any]:
    """Returns the fields of config.json that BERT and RoBERTa share."""
    names = {ours: theirs for theirs, ours in ACTIVATIONS.items()}
    return {
        "num_hidden_layers": config.layers,
        "hidden_size": config.width,
        "num_attention_heads": config.heads,
        "intermediate_size": config.mlp_width,
        "type_vocab_size": config.segments,
        "layer_norm_eps": config.norm_epsilon,
        "hidden_act": names[config.activation],
        "position_embedding_type": "absolute",
        **dict.fromkeys(("hidden_dropout_prob", "attention_probs_dropout_prob"), config.dropout),
    }


def bert_sizes_from_hf(hf_config: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """Returns the settings that BERT and RoBERTa share."""
    absent = {"is_decoder": False, "position_embedding_type": "absolute", "tie_word_embeddings": True}
    require(folder, hf_config, absent)
    activation = hf_config.get("hidden_act") or "gelu"
    if activation not in ACTIVATIONS:
        require(folder, hf_config, {"hidden_act": "gelu"})
    return {
        "layers": hf_config["num_hidden_layers"],
        "width": hf_config["hidden_size"],
        "heads": hf_config["num_attention_heads"],
        "kv_heads": hf_config["num_attention_heads"],
        "mlp_width": hf_config["intermediate_size"],
        "segments": hf_config.get("type_vocab_size", 2),
        "norm_place": "post",
        "norm_epsilon": hf_config.get("layer_norm_eps", 1e-12),
        "activation": ACTIVATIONS[activation],
        "stack": "encoder",
        "embedding_norm": True,
        "output_transform": True,
    }

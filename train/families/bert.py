"""BERT (Devlin et al. 2019): ``BertForMaskedLM``, and ``BertForPreTraining`` where the model has a pair head."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

from headrace.train.config import ModelConfig
from headrace.train.families.family import Family, FieldNames, FieldTable, Preset, WeightNames
from headrace.train.families.task_heads import TaskHead, TaskKind, pooled, spans, tags
from headrace.train.parts import ActivationName, StackName

VOCABULARY = 30522


class Bert(Family):
    """Learned positions, LayerNorm after the embedding and after each part, biases, a transform before the output."""

    model_type = "bert"
    architecture = "BertForMaskedLM"
    parts: ClassVar[FieldTable] = {
        "stack": "encoder",
        "norm_place": "post",
        "embedding_norm": True,
        "output_transform": True,
    }
    free: ClassVar[tuple[str, ...]] = ("segments", "pair_head")
    sizes: ClassVar[FieldNames] = {
        "layers": "num_hidden_layers",
        "width": "hidden_size",
        "heads": "num_attention_heads",
        "context": "max_position_embeddings",
        "mlp_width": "intermediate_size",
        "norm_epsilon": "layer_norm_eps",
        "segments": "type_vocab_size",
    }
    ties = True
    activation_field = "hidden_act"
    activations: ClassVar[Mapping[str, ActivationName]] = {"gelu": "gelu_exact", "gelu_new": "gelu", "relu": "relu"}
    fixed: ClassVar[FieldTable] = {"position_embedding_type": "absolute"}
    expected: ClassVar[FieldTable] = {"is_decoder": False}
    dropout_fields: ClassVar[tuple[str, ...]] = ("hidden_dropout_prob", "attention_probs_dropout_prob")
    defaults: ClassVar[FieldTable] = {"type_vocab_size": 2, "layer_norm_eps": 1e-12}
    both_heads: ClassVar[str] = "BertForPreTraining"
    """The class with a pair head; empty: there is none."""
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
        return config.segments > 0 and super().computes(config)

    def further_to_hf(self, config: ModelConfig) -> dict[str, Any]:
        return {"architectures": [self.both_heads]} if config.pair_head else {}

    def further_from_hf(self, hf_config: Mapping[str, Any], folder: Path) -> dict[str, Any]:
        architectures = hf_config.get("architectures") or ()
        return {"pair_head": True} if self.both_heads and self.both_heads in architectures else {}

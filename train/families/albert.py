"""ALBERT (Lan et al. 2020): ``AlbertForMaskedLM``, and ``AlbertForPreTraining`` where the model has a pair head."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

from headrace.train.config import ModelConfig
from headrace.train.families.bert import Bert
from headrace.train.families.family import FieldNames, FieldTable, Preset, WeightNames, require
from headrace.train.families.task_heads import TaskHead, TaskKind, pooled, spans, tags

VOCABULARY = 30000


class Albert(Bert):
    """BERT's parts with one block for all layers, and a narrower embedding that a dense layer widens."""

    model_type = "albert"
    architecture = "AlbertForMaskedLM"
    parts: ClassVar[FieldTable] = Bert.parts | {"shared_layers": True}
    free: ClassVar[tuple[str, ...]] = (*Bert.free, "embedding_width")
    sizes: ClassVar[FieldNames] = Bert.sizes | {"embedding_width": "embedding_size"}
    expected: ClassVar[FieldTable] = Bert.expected | {"num_hidden_groups": 1, "inner_group_num": 1}
    both_heads = "AlbertForPreTraining"
    weight_names = WeightNames(
        block="albert.encoder.albert_layer_groups.0.albert_layers",
        prefix="albert",
        further={f"predictions.{leaf}": (f"predictions.decoder.{leaf}",) for leaf in ("weight", "bias")},
        inner={
            "attention.qkv": ("attention.query", "attention.key", "attention.value"),
            "attention.output": ("attention.dense",),
            "attention_norm": ("attention.LayerNorm",),
            "mlp.up": ("ffn",),
            "mlp.down": ("ffn_output",),
            "mlp_norm": ("full_layer_layer_norm",),
        },
        outer={
            "embedding": "albert.embeddings.word_embeddings",
            "positions": "albert.embeddings.position_embeddings",
            "segments": "albert.embeddings.token_type_embeddings",
            "embedding_norm": "albert.embeddings.LayerNorm",
            "projection": "albert.encoder.embedding_hidden_mapping_in",
            "transform.dense": "predictions.dense",
            "transform.norm": "predictions.LayerNorm",
            "head": "predictions",
            "pair_head.pooler": "albert.pooler",
            "pair_head.output": "sop_classifier.classifier",
        },
    )
    task_heads: ClassVar[Mapping[TaskKind, TaskHead]] = {
        "classification": pooled("AlbertForSequenceClassification", "albert.pooler"),
        "multiple_choice": pooled("AlbertForMultipleChoice", "albert.pooler"),
        "span": spans("AlbertForQuestionAnswering"),
        "token_classification": tags("AlbertForTokenClassification"),
    }
    defaults: ClassVar[FieldTable] = Bert.defaults | {"hidden_act": "gelu_new", "embedding_size": 128}
    presets: ClassVar[Mapping[str, Preset]] = {  # with the head of masked language modelling, without the pooler
        "albert_base": Preset(VOCABULARY, 11_221_680),
        "albert_large": Preset(VOCABULARY, 16_795_824),
        "albert_xlarge": Preset(VOCABULARY, 54_821_040),
        "albert_xxlarge": Preset(VOCABULARY, 206_368_944),
    }

    def computes(self, config: ModelConfig) -> bool:
        return config.embedding_width not in (None, config.width) and super().computes(config)

    def further_from_hf(self, hf_config: Mapping[str, Any], folder: Path) -> dict[str, Any]:
        if (width := hf_config["embedding_size"]) == hf_config["hidden_size"]:
            require(folder, {"embedding_size": width}, {"embedding_size": f"a width below {width}"})
        return super().further_from_hf(hf_config, folder)

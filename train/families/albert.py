"""ALBERT (Lan et al. 2020): ``AlbertForMaskedLM``, and ``AlbertForPreTraining`` where the model has a pair head."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

from headrace.train.config import ModelConfig
from headrace.train.families.bert import bert_sizes_from_hf, bert_sizes_to_hf, has_bert_parts
from headrace.train.families.family import Family, Preset, WeightNames, common_fields, require
from headrace.train.families.task_heads import TaskHead, TaskKind, pooled, spans, tags
from headrace.train.parts import StackName

VOCABULARY = 30000
BOTH_HEADS = "AlbertForPreTraining"


class Albert(Family):
    """BERT's parts with one block for all layers, and a narrower embedding that a dense layer widens."""

    model_type = "albert"
    stacks: ClassVar[tuple[StackName, ...]] = ("encoder",)
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
    width_and_heads = ("hidden_size", "num_attention_heads")
    task_heads: ClassVar[Mapping[TaskKind, TaskHead]] = {
        "classification": pooled("AlbertForSequenceClassification", "albert.pooler"),
        "multiple_choice": pooled("AlbertForMultipleChoice", "albert.pooler"),
        "span": spans("AlbertForQuestionAnswering"),
        "token_classification": tags("AlbertForTokenClassification"),
    }
    defaults: ClassVar[Mapping[str, Any]] = {"hidden_act": "gelu_new"}
    presets: ClassVar[Mapping[str, Preset]] = {  # with the head of masked language modelling, without the pooler
        "albert_base": Preset(VOCABULARY, 11_221_680),
        "albert_large": Preset(VOCABULARY, 16_795_824),
        "albert_xlarge": Preset(VOCABULARY, 54_821_040),
        "albert_xxlarge": Preset(VOCABULARY, 206_368_944),
    }

    def computes(self, config: ModelConfig) -> bool:
        is_narrow = config.embedding_width not in (None, config.width)
        return is_narrow and has_bert_parts(config, "embedding_width", "pair_head", shared_layers=True)

    def to_hf_config(self, config: ModelConfig) -> dict[str, Any]:
        common = common_fields(self.model_type, BOTH_HEADS if config.pair_head else "AlbertForMaskedLM", config)
        sizes = {"max_position_embeddings": config.context, "embedding_size": config.embedding_width}
        return {**common, **bert_sizes_to_hf(config), **sizes}

    def from_hf_config(self, hf_config: Mapping[str, Any], folder: Path) -> ModelConfig:
        require(folder, hf_config, {"num_hidden_groups": 1, "inner_group_num": 1})
        sizes = bert_sizes_from_hf(hf_config, folder)
        width = hf_config.get("embedding_size", 128)
        if width == sizes["width"]:
            require(folder, {"embedding_size": width}, {"embedding_size": f"a width below {width}"})
        return ModelConfig(
            **sizes,
            context=hf_config["max_position_embeddings"],
            shared_layers=True,
            embedding_width=width,
            pair_head=BOTH_HEADS in (hf_config.get("architectures") or ()),
        )

"""RoBERTa (Liu et al. 2019): ``RobertaForMaskedLM``."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

from headrace.train.config import ModelConfig
from headrace.train.families.bert import Bert, bert_sizes_from_hf, bert_sizes_to_hf, has_bert_parts
from headrace.train.families.family import Family, Preset, WeightNames, common_fields, require
from headrace.train.families.task_heads import TaskHead, TaskKind, dense, pooled, spans, tags
from headrace.train.parts import StackName

VOCABULARY = 50265
OFFSET = 2
"""The first position has number 2: fairseq counts from the id of the padding token, 1, which has none."""


class Roberta(Family):
    """BERT's parts, with two rows before those of the positions and one segment."""

    model_type = "roberta"
    stacks: ClassVar[tuple[StackName, ...]] = ("encoder",)
    weight_names = WeightNames(
        block="roberta.encoder.layer",
        prefix="roberta",
        further={f"lm_head.{leaf}": (f"lm_head.decoder.{leaf}",) for leaf in ("weight", "bias")},
        inner=Bert.weight_names.inner,
        outer={
            "embedding": "roberta.embeddings.word_embeddings",
            "positions": "roberta.embeddings.position_embeddings",
            "segments": "roberta.embeddings.token_type_embeddings",
            "embedding_norm": "roberta.embeddings.LayerNorm",
            "transform.dense": "lm_head.dense",
            "transform.norm": "lm_head.layer_norm",
            "head": "lm_head",
        },
    )
    padding_id = OFFSET - 1
    width_and_heads = ("hidden_size", "num_attention_heads")
    task_heads: ClassVar[Mapping[TaskKind, TaskHead]] = {
        "classification": dense("RobertaForSequenceClassification", "classifier"),
        "multiple_choice": pooled("RobertaForMultipleChoice", "roberta.pooler.dense"),
        "span": spans("RobertaForQuestionAnswering"),
        "token_classification": tags("RobertaForTokenClassification"),
    }
    presets: ClassVar[Mapping[str, Preset]] = {
        "roberta_base": Preset(VOCABULARY, 124_697_433),
        "roberta_large": Preset(VOCABULARY, 355_412_057),
    }

    def computes(self, config: ModelConfig) -> bool:
        return has_bert_parts(config, position_offset=OFFSET)

    def to_hf_config(self, config: ModelConfig) -> dict[str, Any]:
        common = common_fields(self.model_type, "RobertaForMaskedLM", config)
        numbers = {"max_position_embeddings": config.context + OFFSET, "pad_token_id": self.padding_id}
        return {**common, **bert_sizes_to_hf(config), **numbers}

    def from_hf_config(self, hf_config: Mapping[str, Any], folder: Path) -> ModelConfig:
        require(folder, hf_config, {"pad_token_id": self.padding_id})
        sizes = bert_sizes_from_hf(hf_config, folder)
        return ModelConfig(**sizes, context=hf_config["max_position_embeddings"] - OFFSET, position_offset=OFFSET)

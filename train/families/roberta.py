"""RoBERTa (Liu et al. 2019): ``RobertaForMaskedLM``."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

from headrace.train.config import ModelConfig
from headrace.train.families.bert import Bert
from headrace.train.families.family import FieldTable, Preset, WeightNames
from headrace.train.families.task_heads import TaskHead, TaskKind, dense, pooled, spans, tags

VOCABULARY = 50265
OFFSET = 2
"""The first position has number 2: fairseq counts from the id of the padding token, 1, which has none."""


class Roberta(Bert):
    """BERT's parts, with two rows before those of the positions and one segment."""

    model_type = "roberta"
    architecture = "RobertaForMaskedLM"
    parts: ClassVar[FieldTable] = Bert.parts | {"position_offset": OFFSET}
    free: ClassVar[tuple[str, ...]] = ("segments",)
    fixed: ClassVar[FieldTable] = Bert.fixed | {"pad_token_id": OFFSET - 1}
    both_heads = ""
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

    def further_to_hf(self, config: ModelConfig) -> dict[str, Any]:
        return {"max_position_embeddings": config.context + OFFSET}

    def further_from_hf(self, hf_config: Mapping[str, Any], folder: Path) -> dict[str, Any]:
        return {"context": hf_config["max_position_embeddings"] - OFFSET}

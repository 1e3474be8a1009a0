"""ELECTRA (Clark et al. 2020): discriminators (``ElectraForPreTraining``) and generators (``ElectraForMaskedLM``)."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

from headrace.train.config import ModelConfig
from headrace.train.families.bert import Bert
from headrace.train.families.family import Preset, WeightNames, require
from headrace.train.families.task_heads import TaskHead, TaskKind, dense, spans, tags
from headrace.train.parts import StackName

GENERATOR = "ElectraForMaskedLM"


class Electra(Bert):
    """BERT's parts with an embedding of its own width; config.json of both models has one type."""

    model_type = "electra"
    architecture = "ElectraForPreTraining"
    free: ClassVar[tuple[str, ...]] = ("segments", "embedding_width", "stack", "output_transform")
    both_heads = ""
    stacks: ClassVar[tuple[StackName, ...]] = ("discriminator", "encoder")
    weight_names = WeightNames(
        block="electra.encoder.layer",
        prefix="electra",
        inner=Bert.weight_names.inner,
        outer={
            "embedding": "electra.embeddings.word_embeddings",
            "positions": "electra.embeddings.position_embeddings",
            "segments": "electra.embeddings.token_type_embeddings",
            "embedding_norm": "electra.embeddings.LayerNorm",
            "projection": "electra.embeddings_project",
            "head.dense": "discriminator_predictions.dense",
            "head.output": "discriminator_predictions.dense_prediction",
            "transform.dense": "generator_predictions.dense",
            "transform.norm": "generator_predictions.LayerNorm",
            "head": "generator_lm_head",
        },
    )
    presets: ClassVar[Mapping[str, Preset]] = {}
    task_heads: ClassVar[Mapping[TaskKind, TaskHead]] = {
        "classification": dense("ElectraForSequenceClassification", "classifier", "gelu_exact"),
        "span": spans("ElectraForQuestionAnswering"),
        "token_classification": tags("ElectraForTokenClassification"),
    }

    def computes(self, config: ModelConfig) -> bool:
        is_generator = config.embedding_width is not None and config.activation == "gelu_exact"
        fits = is_generator if config.stack == "encoder" else not config.output_transform
        return fits and super().computes(config)

    def further_to_hf(self, config: ModelConfig) -> dict[str, Any]:
        architecture = {} if config.stack == "discriminator" else {"architectures": [GENERATOR]}
        return architecture | {"embedding_size": config.embedding_width or config.width}

    def further_from_hf(self, hf_config: Mapping[str, Any], folder: Path) -> dict[str, Any]:
        architecture = (hf_config.get("architectures") or [self.architecture])[0]
        if architecture not in (self.architecture, GENERATOR):
            require(folder, {"architectures": architecture}, {"architectures": self.architecture})
        discriminates, width = architecture == self.architecture, hf_config.get("embedding_size", 128)
        if not discriminates:
            require(folder, hf_config, {"hidden_act": "gelu"})
        return {
            "stack": "discriminator" if discriminates else "encoder",
            "output_transform": not discriminates,
            "embedding_width": None if discriminates and width == hf_config["hidden_size"] else width,
        }

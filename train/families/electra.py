"""ELECTRA (Clark et al. 2020): discriminators (``ElectraForPreTraining``) and generators (``ElectraForMaskedLM``)."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

from headrace.train.config import ModelConfig
from headrace.train.families.bert import Bert, bert_sizes_from_hf, bert_sizes_to_hf, has_bert_parts
from headrace.train.families.family import Family, WeightNames, common_fields, require
from headrace.train.families.task_heads import TaskHead, TaskKind, dense, spans, tags
from headrace.train.parts import StackName

DISCRIMINATOR, GENERATOR = "ElectraForPreTraining", "ElectraForMaskedLM"


class Electra(Family):
    """BERT's parts with an embedding of its own width; config.json of both models has one type."""

    model_type = "electra"
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
    width_and_heads = ("hidden_size", "num_attention_heads")
    task_heads: ClassVar[Mapping[TaskKind, TaskHead]] = {
        "classification": dense("ElectraForSequenceClassification", "classifier", "gelu_exact"),
        "span": spans("ElectraForQuestionAnswering"),
        "token_classification": tags("ElectraForTokenClassification"),
    }

    def computes(self, config: ModelConfig) -> bool:
        if config.stack == "discriminator":
            return has_bert_parts(config, "embedding_width", stack="discriminator", output_transform=False)
        is_generator = config.embedding_width is not None and config.activation == "gelu_exact"
        return is_generator and has_bert_parts(config, "embedding_width")

    def to_hf_config(self, config: ModelConfig) -> dict[str, Any]:
        discriminates = config.stack == "discriminator"
        common = common_fields(self.model_type, DISCRIMINATOR if discriminates else GENERATOR, config)
        sizes = {"max_position_embeddings": config.context, "embedding_size": config.embedding_width or config.width}
        return {**common, **bert_sizes_to_hf(config), **sizes}

    def from_hf_config(self, hf_config: Mapping[str, Any], folder: Path) -> ModelConfig:
        architecture = (hf_config.get("architectures") or [DISCRIMINATOR])[0]
        if architecture not in (DISCRIMINATOR, GENERATOR):
            require(folder, {"architectures": architecture}, {"architectures": DISCRIMINATOR})
        discriminates = architecture == DISCRIMINATOR
        if not discriminates:
            require(folder, hf_config, {"hidden_act": "gelu"})
        sizes = bert_sizes_from_hf(hf_config, folder) | {"output_transform": not discriminates}
        sizes |= {"stack": "discriminator" if discriminates else "encoder"}
        width, embedding_width = hf_config["hidden_size"], hf_config.get("embedding_size", 128)
        is_usual = discriminates and embedding_width == width
        context = hf_config["max_position_embeddings"]
        return ModelConfig(**sizes, context=context, embedding_width=None if is_usual else embedding_width)

"""The heads that Hugging Face's classes of a family put on the model for a task, and the names of their weights.

    the vector at one position ── [dropout] ─ dense ─ activation ─ [norm] ─ dropout ─ output ──> logits

    BERT, ALBERT                   pooler (dense, tanh), dropout, output              the first position, [CLS]
    RoBERTa, ELECTRA               dropout, dense, tanh | GELU, dropout, output       the first position
    ModernBERT                     dense, GELU, norm, dropout, output                 the first position
    BART                           dropout, dense, tanh, dropout, output              the last position of the decoder
    decoders                       output, without a bias                             the last position
    all, tags of words             [dense, GELU, norm in ModernBERT], dropout, output every position

Multiple choice has one output, computed for each choice with the same weights (the shared vector of SWAG in Devlin et
al. 2019, section 4.4). Answers in a text have two outputs at every position, of its start and of its end (section 4.2).
Tags of words have one output for each tag at every position (section 5.3).
"""

import dataclasses
from collections.abc import Mapping
from typing import Literal

from headrace.train.parts import HeadActivation

TaskKind = Literal["classification", "multiple_choice", "span", "token_classification"]
"""The kind of a head's predictions. Regression has the head of classification with one output."""


@dataclasses.dataclass(frozen=True)
class TaskHead:
    """The layers of a head after the vectors of the model."""

    architecture: str | None = None
    """The class at Hugging Face that computes it; None: the folder has our own format."""
    output_name: str = "head.output"
    """The Hugging Face name of the output layer."""
    dense_name: str | None = None
    """The Hugging Face name of the dense layer; None: there is none."""
    norm_name: str | None = None
    """The Hugging Face name of the norm after the activation; None: there is none."""
    drops_first: bool = False
    """Whether there is dropout before the dense layer; there always is one before the output layer, but in a span's."""
    activation: HeadActivation = "none"
    dense_bias: bool = True
    bias: bool = True
    """Whether the output layer has a bias."""
    drops_last: bool = True


def pooled(architecture: str | None, dense_name: str, output_name: str = "classifier") -> TaskHead:
    """Returns BERT's head: a pooler, dropout, and the output layer."""
    return TaskHead(architecture, output_name, dense_name, activation="tanh")


def dense(architecture: str | None, prefix: str, activation: HeadActivation = "tanh") -> TaskHead:
    """Returns RoBERTa's head: dropout, a dense layer, dropout, and the output layer."""
    return TaskHead(architecture, f"{prefix}.out_proj", f"{prefix}.dense", drops_first=True, activation=activation)


def spans(architecture: str | None, output_name: str = "qa_outputs") -> TaskHead:
    """Returns the head of answers in a text: one linear layer, without dropout."""
    return TaskHead(architecture, output_name, drops_last=False)


def tags(architecture: str | None, output_name: str = "classifier") -> TaskHead:
    """Returns the head of tags of words: dropout, and the output layer."""
    return TaskHead(architecture, output_name)


def scored(architecture: str | None) -> TaskHead:
    """Returns the head of decoders: one linear layer without a bias."""
    return TaskHead(architecture, "score", bias=False, drops_last=False)


POOLED = pooled(None, "head.dense", "head.output")
"""The head of a model whose family has no class for the task: BERT's."""
SPANS = spans(None, "head.output")
TAGS = tags(None, "head.output")
OWN_HEADS: Mapping[TaskKind, TaskHead] = {
    "classification": POOLED,
    "multiple_choice": POOLED,
    "span": SPANS,
    "token_classification": TAGS,
}
"""The heads in our own format: those of BERT."""

"""Training a student on the distributions of a teacher: the terms of the loss, and the teacher.

    batch ── objective.losses ──> student(tokens, …, targets)
                                     │ the same tokens, no gradient
                                     └──> teacher ── states ──> SoftTargets ──> the student's output layer

Any objective whose model has one output layer can be distilled: the teacher reads what the student reads, and both
predict at the same positions (Sanh et al. 2019, DistilBERT, with ``--restrict_ce_to_mask``).
"""

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from headrace.train.data.batches import Arrays, Tensors
from headrace.train.distributed.processes import Ranks
from headrace.train.engine.engine import DTYPES
from headrace.train.families import initial_weights
from headrace.train.families.hf_folder import load
from headrace.train.model.execution import prepare
from headrace.train.model.head import Head
from headrace.train.model.soft_targets import SoftTargets
from headrace.train.model.transformer import Transformer
from headrace.train.objectives.base import Objective
from headrace.train.training_config import Distillation, TrainingConfig

TERM = "distillation"
"""The name of the term: the mean of KL(p ‖ q) at the temperature, in nats. It is logged and no part of the loss."""
READING = ("visibility", "prefix_BT", "at_BK", "source", "segments_BT")
"""The arguments of ``Transformer.forward`` that decide what is read and where is predicted."""


@dataclasses.dataclass(frozen=True)
class Teacher:
    """A trained model without gradients, on one rank."""

    body: nn.Module
    """The model without its output layer: it returns the vectors that this reads."""
    output_layer: nn.Module

    @classmethod
    def open(
        cls, folder: Path, training: TrainingConfig, tokenizer_file: Path, vocabulary: int, ranks: Ranks
    ) -> "Teacher":
        """Loads the Hugging Face ``folder``, in the precision of the training.

        Raises:
            ConfigError: when its tokenizer is not that of the run.
            ArtifactError: when the folder holds no whole model.
        """
        initial_weights.check_tokenizer(folder, tokenizer_file, vocabulary, initial_weights.TEACHER)
        network = load(folder).requires_grad_(False).eval()
        prepare(network, dataclasses.replace(training, recompute="none"), ranks.device.type)
        network.to(ranks.device, DTYPES[training.precision])
        output_layer, network.head = network.head, nn.Identity()  # type: ignore[assignment]  # the states are its output
        return cls(network, output_layer)

    def soft_targets(
        self, settings: Distillation, inputs: tuple[Tensor, ...], options: Mapping[str, Any]
    ) -> SoftTargets:
        """Returns what the student's output layer needs for the arguments of its call."""
        tokens_BT, positions_BT, documents_BT, *_ = inputs
        reading = {name: options[name] for name in READING if name in options}
        with torch.no_grad():
            states_BTE = self.body(tokens_BT, positions_BT, documents_BT, **reading)
        weights = settings.temperature, settings.soft_weight, settings.hard_weight
        return SoftTargets(states_BTE, self.output_layer, *weights)


@dataclasses.dataclass(frozen=True)
class Distilled:
    """The terms of ``objective``, whose gradient is that of a student of ``teacher``."""

    objective: Objective
    teacher: Teacher
    student_head: Head
    settings: Distillation

    @property
    def weights(self) -> Mapping[str, float]:
        return {**self.objective.weights, TERM: 0.0}

    def counts(self, batch: Arrays) -> dict[str, int]:
        counts = self.objective.counts(batch)
        return {**counts, TERM: next(iter(counts.values()))}

    def losses(self, model: nn.Module, batch: Tensors) -> dict[str, Tensor]:
        def with_teacher(*inputs: Tensor, **options: Any) -> Any:
            self.student_head.soft_targets = self.teacher.soft_targets(self.settings, inputs, options)
            return model(*inputs, **options)

        losses = self.objective.losses(with_teacher, batch)  # type: ignore[arg-type]  # it only calls it
        soft, self.student_head.soft_targets = self.student_head.soft_targets, None
        assert soft is not None  # the objective has called the model
        return {**losses, TERM: soft.divergence}


def of(objective: Objective, student: nn.Module, teacher: Teacher, settings: Distillation) -> Distilled:
    """Returns the terms of a ``student`` of ``teacher``."""
    assert isinstance(student, Transformer)  # initial_weights.teacher_files refuses discriminators
    assert isinstance(student.head, Head)
    return Distilled(objective, teacher, student.head, settings)

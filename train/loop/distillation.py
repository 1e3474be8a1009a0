"""Training a student on a teacher: the terms of the loss, the teacher, and the first weights of the student.

    batch ── objective.losses ──> student(tokens, …, targets)
                                     │ the same tokens, no gradient
                                     └──> teacher ── states ──> SoftTargets ──> the student's output layer
                                                  └─ last states ──> cosine with the student's

Any objective whose model has one output layer can be distilled: the teacher reads what the student reads, and both
predict at the same positions (Sanh et al. 2019, DistilBERT, with ``--restrict_ce_to_mask``). Of two stacks, the last
states are those of the decoder.
"""

import dataclasses
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from headrace.train.data.batches import Arrays, Tensors
from headrace.train.distillation_config import TEACHER, Distillation
from headrace.train.distributed.processes import Ranks
from headrace.train.engine.engine import DTYPES
from headrace.train.families import initial_weights
from headrace.train.families.hf_config import read_model_config
from headrace.train.families.hf_folder import load, read_weights
from headrace.train.model.execution import prepare
from headrace.train.model.head import Head, SoftTargets
from headrace.train.model.transformer import Transformer, build_empty
from headrace.train.objectives.base import Objective
from headrace.train.training_config import TrainingConfig

TERM = "distillation"
"""The name of the term: the mean of KL(p ‖ q) at the temperature, in nats. It is logged and no part of the loss."""
COSINE = "cosine"
"""The name of the term: the sum over positions of text of 1 - cos of the last states of student and teacher."""
READING = ("visibility", "prefix_BT", "at_BK", "source", "segments_BT")
"""The arguments of ``Transformer.forward`` that decide what is read and where is predicted."""


@dataclasses.dataclass(frozen=True)
class Teacher:
    """A trained model without gradients, on one rank."""

    body: Transformer
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
        initial_weights.check_tokenizer(folder, tokenizer_file, vocabulary, TEACHER)
        network = load(folder).requires_grad_(False).eval()
        prepare(network, dataclasses.replace(training, recompute="none"), ranks.device.type)
        network.to(ranks.device, DTYPES[training.precision])
        output_layer, network.head = network.head, nn.Identity()  # type: ignore[assignment]  # the states are its output
        return cls(network, output_layer)

    def read(self, settings: Distillation, inputs: tuple[Tensor, ...], options: Mapping[str, Any]) -> SoftTargets:
        """Reads what a student is called with, and returns what its output layer needs."""
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
    student: Transformer
    settings: Distillation

    @property
    def weights(self) -> Mapping[str, float]:
        """The terms of the printed loss, which is that of the tokens; those of the teacher are logged."""
        return {**self.objective.weights, TERM: 0.0, **dict.fromkeys(self._cosine_weight, 0.0)}

    @property
    def trained_weights(self) -> Mapping[str, float]:
        """The weights of the gradient. That of the first term holds the teacher's distributions (SoftTargets)."""
        return {**self.weights, **self._cosine_weight}

    def counts(self, batch: Arrays) -> dict[str, int]:
        counts = self.objective.counts(batch)
        positions = int((batch["documents"] >= 0).sum())
        return {**counts, TERM: next(iter(counts.values())), **dict.fromkeys(self._cosine_weight, positions)}

    @property
    def _cosine_weight(self) -> dict[str, float]:
        return {COSINE: self.settings.cosine_weight} if self.settings.cosine_weight else {}

    def losses(self, model: nn.Module, batch: Tensors) -> dict[str, Tensor]:
        head, networks = self.student.head, (self.student, self.teacher.body)
        assert isinstance(head, Head)  # pretraining.py refuses objectives that add modules
        for network in networks:
            network.keeps_last = self.settings.cosine_weight > 0

        def with_teacher(*inputs: Tensor, **options: Any) -> Any:
            head.soft_targets = self.teacher.read(self.settings, inputs, options)
            return model(*inputs, **options)

        losses = self.objective.losses(with_teacher, batch)  # type: ignore[arg-type]  # it only calls it
        soft, head.soft_targets = head.soft_targets, None
        assert soft is not None  # the objective has called the model
        losses = {**losses, TERM: soft.divergence}
        last_BTM, their_last_BTM = (network.last_BTM for network in networks)
        if last_BTM is not None and their_last_BTM is not None:
            cosine_BT = functional.cosine_similarity(last_BTM.float(), their_last_BTM.float(), dim=-1)
            losses[COSINE] = ((1 - cosine_BT) * (batch["documents"] >= 0)).sum()
        for network in networks:
            network.keeps_last, network.last_BTM = False, None
        return losses


def initial_values(vocabulary: int, settings: Distillation) -> Iterator[tuple[str, Tensor]]:
    """Yields name and value of the first weights of a student with ``vocabulary`` tokens: those of the teacher's
    ``initial_layers``, and of its other parts."""
    folder = Path(str(settings.teacher))
    shape, _ = read_model_config(folder)
    for name, value in read_weights(build_empty(shape, vocabulary), folder):
        stack, _, rest = name.partition(".")
        if stack != "blocks":
            yield name, value
        number, _, leaf = rest.partition(".")
        for layer, chosen in enumerate(settings.initial_layers) if stack == "blocks" else ():
            if str(chosen - 1) == number:
                yield f"blocks.{layer}.{leaf}", value

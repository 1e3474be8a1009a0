"""Multiple choice: a score for each choice after the text, by one shared vector, and softmax over them (Devlin et al.
2019, section 4.4, SWAG). COPA, SWAG (whose second sentence begins each choice).

    [CLS] text [SEP] choice 1 [SEP] ── score ──┐
    [CLS] text [SEP] choice 2 [SEP] ── score ──┴── softmax ──> p(choice)
"""

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from headrace.pipeline.core.errors import ConfigError
from headrace.pipeline.core.settings import settings
from headrace.train.data.batches import IGNORED, Arrays, Tensors
from headrace.train.evaluation.metrics import share_equal
from headrace.train.families.task_heads import TaskKind
from headrace.train.finetune.files.examples import Example
from headrace.train.finetune.tasks.classification import softmax
from headrace.train.finetune.tasks.sequences import Form
from headrace.train.finetune.tasks.task import Fitted, Prediction, Row, task_outputs
from headrace.train.finetune.tasks.task_files import FileTask, check_labelled

if TYPE_CHECKING:
    from torch import Tensor, nn


@settings
class MultipleChoiceTask(FileTask):
    """Predicts which of several texts goes on best. The texts before the choices are joined with a space."""

    type: Literal["multiple_choice"] = "multiple_choice"
    result: ClassVar[str] = "gold"

    @property
    def metric(self) -> str:
        return "accuracy"

    def check(self, training: Sequence[Example], validation: Sequence[Example]) -> None:
        check_labelled(training, "gold", "right choice", "train")
        check_labelled(validation, "gold", "right choice", "validation")
        for example in training:
            if len(example.choices) < 2:
                problem = f"example {example.id} has {len(example.choices)} choices"
                raise ConfigError("finetune.train", problem, "give a format that names the fields of at least two")

    def fitted(self, training: Sequence[Example], form: Form) -> "Choices":
        return Choices(form=form, task=self)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Choices(Fitted):
    """Multiple choice; an example may have fewer choices than others."""

    task: MultipleChoiceTask
    kind: ClassVar[TaskKind | None] = "multiple_choice"

    def rows(self, examples: Sequence[Example], is_training: bool) -> list[Row]:
        rows = []
        for index, example in enumerate(examples):
            first, *choices = self.form.ids([" ".join(self.task.texts_of(example)), *example.choices])
            sequences = tuple(self.form.framed([first, choice]) for choice in choices)
            gold = IGNORED if example.gold is None else example.gold
            rows.append(Row(index, sequences, {"labels": np.array(gold, np.int64)}))
        return rows

    def counts(self, batch: Arrays) -> dict[str, int]:
        return {self.term: int((batch["labels"] != IGNORED).sum())}

    def outputs(self, model: "nn.Module", batch: Tensors) -> "Tensor":
        """Returns logits_BC, -inf for a choice that an example lacks."""
        is_choice_BC = batch["documents"][:, :, 0] >= 0
        return task_outputs(self.form, model, batch)[:, :, 0].masked_fill(~is_choice_BC, float("-inf"))

    def sums(self, outputs: "Tensor", batch: Tensors) -> "dict[str, Tensor]":
        from torch.nn import functional

        return {self.term: functional.cross_entropy(outputs, batch["labels"], reduction="sum")}

    def predictions(
        self, examples: Sequence[Example], rows: Sequence[Row], outputs: Sequence[NDArray[Any]]
    ) -> list[Prediction]:
        predicted = []
        for example, logits in zip(examples, outputs, strict=True):
            chosen = logits[: len(example.choices)]
            label = {} if example.gold is None else {"label": example.gold}
            probabilities = softmax(chosen)
            predicted.append(
                {"id": example.id, "prediction": int(chosen.argmax()), **label, "probabilities": probabilities}
            )
        return predicted

    def scores(self, examples: Sequence[Example], predictions: Sequence[Prediction]) -> dict[str, float]:
        truth = [str(example.gold) for example in examples]
        return {"accuracy": share_equal(truth, [str(prediction["prediction"]) for prediction in predictions])}

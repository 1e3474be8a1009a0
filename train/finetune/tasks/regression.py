"""Regression: a number for one text or for a pair, by least squares: the similarity of STS-B, from 0 to 5."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from headrace.pipeline.core.settings import settings
from headrace.train.data.batches import Arrays, Tensors
from headrace.train.evaluation.metrics import pearson, spearman
from headrace.train.families.task_heads import TaskKind
from headrace.train.finetune.files.examples import Example
from headrace.train.finetune.tasks.sequences import Form
from headrace.train.finetune.tasks.task import Fitted, Prediction, Row, task_outputs
from headrace.train.finetune.tasks.task_files import FileTask, check_labelled

if TYPE_CHECKING:
    from torch import Tensor, nn


@settings
class Regression(FileTask):
    """Predicts a number of one text or of a pair; scored by Pearson's and Spearman's correlations."""

    type: Literal["regression"] = "regression"
    result: ClassVar[str] = "value"

    @property
    def metric(self) -> str:
        return "pearson"

    def check(self, training: Sequence[Example], validation: Sequence[Example]) -> None:
        check_labelled(training, "value", "number", "train")
        check_labelled(validation, "value", "number", "validation")

    def fitted(self, training: Sequence[Example], form: Form) -> "PredictedNumbers":
        return PredictedNumbers(form=form, task=self)


@dataclasses.dataclass(frozen=True, kw_only=True)
class PredictedNumbers(Fitted):
    """A regression; its term is the sum of squared errors."""

    task: Regression
    kind: ClassVar[TaskKind | None] = "classification"
    term: ClassVar[str] = "squared_error"

    @property
    def hf_fields(self) -> Mapping[str, Any]:
        return {"id2label": {"0": "value"}, "label2id": {"value": 0}, "problem_type": "regression"}

    def rows(self, examples: Sequence[Example], is_training: bool) -> list[Row]:
        rows = []
        for index, example in enumerate(examples):
            value = np.array(np.nan if example.value is None else example.value, np.float32)
            sequence = self.form.framed(self.form.ids(self.task.texts_of(example)))
            rows.append(Row(index, (sequence,), {"values": value}))
        return rows

    def counts(self, batch: Arrays) -> dict[str, int]:
        return {self.term: int(np.isfinite(batch["values"]).sum())}

    def outputs(self, model: "nn.Module", batch: Tensors) -> "Tensor":
        """Returns predicted_B."""
        return task_outputs(self.form, model, batch)[:, 0, 0]

    def sums(self, outputs: "Tensor", batch: Tensors) -> "dict[str, Tensor]":
        return {self.term: (outputs - batch["values"]).square().nansum()}

    def predictions(
        self, examples: Sequence[Example], rows: Sequence[Row], outputs: Sequence[NDArray[Any]]
    ) -> list[Prediction]:
        return [
            {
                "id": example.id,
                "prediction": float(value),
                **({} if example.value is None else {"label": example.value}),
            }
            for example, value in zip(examples, outputs, strict=True)
        ]

    def scores(self, examples: Sequence[Example], predictions: Sequence[Prediction]) -> dict[str, float]:
        truth, predicted = (
            [float(example.value or 0) for example in examples],
            [prediction["prediction"] for prediction in predictions],
        )
        return {"pearson": pearson(truth, predicted), "spearman": spearman(truth, predicted)}

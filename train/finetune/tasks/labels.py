"""Labels of one text, of a pair, or of several choices, by a head: classes, numbers, choices.

    classification     [CLS] text [SEP] pair [SEP] ── a logit for each class     SST-2, MNLI, BoolQ
    regression         [CLS] text [SEP] pair [SEP] ── a number, by least squares  STS-B, from 0 to 5
    multiple_choice    [CLS] text [SEP] choice 1 [SEP] ── score ──┐
                       [CLS] text [SEP] choice 2 [SEP] ── score ──┴── softmax ──> p(choice)

As Devlin et al. 2019, sections 4.1 and 4.4. SWAG's second sentence begins each choice.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from headrace.pipeline.core.errors import ConfigError
from headrace.pipeline.core.settings import settings
from headrace.train.data.batches import IGNORED, Arrays, Tensors
from headrace.train.evaluation.metrics import (
    exact_groups,
    f1_binary,
    f1_macro,
    matthews,
    pearson,
    share_equal,
    spearman,
)
from headrace.train.families.task_heads import TaskKind
from headrace.train.finetune.files.examples import Example
from headrace.train.finetune.tasks.sequences import Form, Framed
from headrace.train.finetune.tasks.task import FileTask, Fitted, Prediction, Row, task_outputs

if TYPE_CHECKING:
    from torch import Tensor, nn

ClassMetric = Literal["accuracy", "f1", "macro_f1", "matthews", "exact_match"]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Labelled(Fitted):
    """A task whose examples have one label each: a class or a choice by its number, or a number."""

    task: FileTask
    kind: ClassVar[TaskKind | None] = "classification"
    field: ClassVar[str] = "label"
    """The field of ``Example`` that has the label."""

    def sequences(self, example: Example) -> tuple[Framed, ...]:
        """Returns what the model reads of ``example``."""
        return (self.form.framed(self.form.ids(self.task.texts_of(example))),)

    def target(self, label: Any) -> NDArray[Any]:
        """Returns what the loss compares with, of an example with this ``label``; None: it has none."""
        return np.array(IGNORED if label is None else label, np.int64)

    def rows(self, examples: Sequence[Example], is_training: bool) -> list[Row]:
        return [
            Row(index, self.sequences(example), {"labels": self.target(getattr(example, self.field))})
            for index, example in enumerate(examples)
        ]

    def counts(self, batch: Arrays) -> dict[str, int]:
        return {self.term: int((batch["labels"] != IGNORED).sum())}

    def outputs(self, model: "nn.Module", batch: Tensors) -> "Tensor":
        """Returns logits_BO."""
        return task_outputs(self.form, model, batch)[:, 0]

    def sums(self, outputs: "Tensor", batch: Tensors) -> "dict[str, Tensor]":
        from torch.nn import functional

        return {self.term: functional.cross_entropy(outputs, batch["labels"], reduction="sum")}

    def predictions(
        self, examples: Sequence[Example], rows: Sequence[Row], outputs: Sequence[NDArray[Any]]
    ) -> list[Prediction]:
        return [self._prediction(example, output) for example, output in zip(examples, outputs, strict=True)]

    def _prediction(self, example: Example, output: NDArray[Any]) -> Prediction:
        predicted, more = self.predicted(example, output)
        label = getattr(example, self.field)
        return {"id": example.id, "prediction": predicted} | ({} if label is None else {"label": label}) | more

    def predicted(self, example: Example, output: NDArray[Any]) -> tuple[Any, dict[str, Any]]:
        """Returns the prediction from the ``output`` for ``example``, and what is written with it."""
        raise NotImplementedError

    def scores(self, examples: Sequence[Example], predictions: Sequence[Prediction]) -> dict[str, float]:
        truth = [str(getattr(example, self.field)) for example in examples]
        return {"accuracy": share_equal(truth, [str(prediction["prediction"]) for prediction in predictions])}


@settings
class Classification(FileTask):
    """Predicts a class of one text or of a pair."""

    type: Literal["classification"] = "classification"
    metrics: Annotated[tuple[ClassMetric, ...], Field(min_length=1)] = ("accuracy",)
    """The metrics; checkpoints and seeds are compared by the first one. f1 is that of the last class (MRPC, QQP).
    exact_match is the share of groups without a mistake: of the questions of MultiRC."""
    result: ClassVar[str] = "label"
    labels: ClassVar[tuple[str, str]] = ("label", "class")

    @property
    def metric(self) -> str:
        return self.metrics[0]

    def check(self, training: Sequence[Example], validation: Sequence[Example]) -> None:
        super().check(training, validation)
        known = {example.label for example in training}
        if len(known) < 2:
            problem = f"all {len(training)} examples have the class {training[0].label!r}"
            raise ConfigError("finetune.train", problem, "give examples of at least two classes")
        for example in validation:
            if example.label not in known:
                problem = f"example {example.id} has the class {example.label!r}, which no training example has"
                remedy = f"correct the files; the classes of finetune.train are {', '.join(sorted(map(str, known)))}"
                raise ConfigError("finetune.validation", problem, remedy)

    def fitted(self, training: Sequence[Example], form: Form) -> "Classes":
        labels = sorted({str(example.label) for example in training})
        return Classes(form=form, task=self, classes=self.format.classes or tuple(labels))


@dataclasses.dataclass(frozen=True, kw_only=True)
class Classes(Labelled):
    """A classification with its classes, in the order of the outputs."""

    task: Classification
    classes: tuple[str, ...]

    @property
    def outputs_per_position(self) -> int:
        return len(self.classes)

    @property
    def hf_fields(self) -> Mapping[str, Any]:
        numbered = dict(enumerate(self.classes))
        return {
            "id2label": {str(number): name for number, name in numbered.items()},
            "label2id": {name: number for number, name in numbered.items()},
            "problem_type": "single_label_classification",
        }

    def target(self, label: Any) -> NDArray[Any]:
        return super().target(None if label is None else self.classes.index(label))

    def predicted(self, example: Example, output: NDArray[Any]) -> tuple[Any, dict[str, Any]]:
        probabilities = dict(zip(self.classes, softmax(output), strict=True))
        return self.classes[int(output.argmax())], {"probabilities": probabilities}

    def scores(self, examples: Sequence[Example], predictions: Sequence[Prediction]) -> dict[str, float]:
        truth = [str(example.label) for example in examples]
        predicted = [str(prediction["prediction"]) for prediction in predictions]
        computed = {
            "accuracy": lambda: share_equal(truth, predicted),
            "f1": lambda: f1_binary(truth, predicted, positive=self.classes[-1]),
            "macro_f1": lambda: f1_macro(truth, predicted),
            "matthews": lambda: matthews(truth, predicted),
            "exact_match": lambda: exact_groups(truth, predicted, [example.group for example in examples]),
        }
        return {name: computed[name]() for name in self.task.metrics}


def softmax(logits_O: NDArray[Any]) -> list[float]:
    """Returns the probabilities of ``logits_O``, in fp64."""
    powers = np.exp(logits_O.astype(np.float64) - logits_O.max())
    return [float(value) for value in powers / powers.sum()]


@settings
class Regression(FileTask):
    """Predicts a number of one text or of a pair; scored by Pearson's and Spearman's correlations."""

    type: Literal["regression"] = "regression"
    result: ClassVar[str] = "value"
    labels: ClassVar[tuple[str, str]] = ("value", "number")

    @property
    def metric(self) -> str:
        return "pearson"

    def fitted(self, training: Sequence[Example], form: Form) -> "PredictedNumbers":
        return PredictedNumbers(form=form, task=self)


@dataclasses.dataclass(frozen=True, kw_only=True)
class PredictedNumbers(Labelled):
    """A regression; its term is the sum of squared errors."""

    term: ClassVar[str] = "squared_error"
    field: ClassVar[str] = "value"

    @property
    def hf_fields(self) -> Mapping[str, Any]:
        return {"id2label": {"0": "value"}, "label2id": {"value": 0}, "problem_type": "regression"}

    def target(self, label: Any) -> NDArray[Any]:
        return np.array(np.nan if label is None else label, np.float32)

    def counts(self, batch: Arrays) -> dict[str, int]:
        return {self.term: int(np.isfinite(batch["labels"]).sum())}

    def outputs(self, model: "nn.Module", batch: Tensors) -> "Tensor":
        """Returns predicted_B."""
        return task_outputs(self.form, model, batch)[:, 0, 0]

    def sums(self, outputs: "Tensor", batch: Tensors) -> "dict[str, Tensor]":
        return {self.term: (outputs - batch["labels"]).square().nansum()}

    def predicted(self, example: Example, output: NDArray[Any]) -> tuple[Any, dict[str, Any]]:
        return float(output), {}

    def scores(self, examples: Sequence[Example], predictions: Sequence[Prediction]) -> dict[str, float]:
        truth = [float(example.value or 0) for example in examples]
        predicted = [prediction["prediction"] for prediction in predictions]
        return {"pearson": pearson(truth, predicted), "spearman": spearman(truth, predicted)}


@settings
class MultipleChoiceTask(FileTask):
    """Predicts which of several texts goes on best. The texts before the choices are joined with a space."""

    type: Literal["multiple_choice"] = "multiple_choice"
    result: ClassVar[str] = "gold"
    labels: ClassVar[tuple[str, str]] = ("gold", "right choice")

    @property
    def metric(self) -> str:
        return "accuracy"

    def check(self, training: Sequence[Example], validation: Sequence[Example]) -> None:
        super().check(training, validation)
        for example in training:
            if len(example.choices) < 2:
                problem = f"example {example.id} has {len(example.choices)} choices"
                raise ConfigError("finetune.train", problem, "give a format that names the fields of at least two")

    def fitted(self, training: Sequence[Example], form: Form) -> "Choices":
        return Choices(form=form, task=self)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Choices(Labelled):
    """Multiple choice; an example may have fewer choices than others."""

    kind: ClassVar[TaskKind | None] = "multiple_choice"
    field: ClassVar[str] = "gold"

    def sequences(self, example: Example) -> tuple[Framed, ...]:
        first, *choices = self.form.ids([" ".join(self.task.texts_of(example)), *example.choices])
        return tuple(self.form.framed([first, choice]) for choice in choices)

    def outputs(self, model: "nn.Module", batch: Tensors) -> "Tensor":
        """Returns logits_BC, -inf for a choice that an example lacks."""
        is_choice_BC = batch["documents"][:, :, 0] >= 0
        return task_outputs(self.form, model, batch)[:, :, 0].masked_fill(~is_choice_BC, float("-inf"))

    def predicted(self, example: Example, output: NDArray[Any]) -> tuple[Any, dict[str, Any]]:
        chosen = output[: len(example.choices)]
        return int(chosen.argmax()), {"probabilities": softmax(chosen)}

"""Classification of one text or of a pair, with any number of classes: SST-2, MNLI, BoolQ (Devlin et al. 2019, 4.1)."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from headrace.pipeline.core.errors import ConfigError
from headrace.pipeline.core.settings import settings
from headrace.train.data.batches import IGNORED, Arrays, Tensors
from headrace.train.evaluation.metrics import exact_groups, f1_binary, f1_macro, matthews, share_equal
from headrace.train.families.task_heads import TaskKind
from headrace.train.finetune.files.examples import Example
from headrace.train.finetune.tasks.sequences import Form
from headrace.train.finetune.tasks.task import Fitted, Prediction, Row, task_outputs
from headrace.train.finetune.tasks.task_files import FileTask, check_labelled

if TYPE_CHECKING:
    from torch import Tensor, nn

ClassMetric = Literal["accuracy", "f1", "macro_f1", "matthews", "exact_match"]


@settings
class Classification(FileTask):
    """Predicts a class of one text or of a pair."""

    type: Literal["classification"] = "classification"
    metrics: Annotated[tuple[ClassMetric, ...], Field(min_length=1)] = ("accuracy",)
    """The metrics; checkpoints and seeds are compared by the first one. f1 is that of the last class (MRPC, QQP).
    exact_match is the share of groups without a mistake: of the questions of MultiRC."""
    result: ClassVar[str] = "label"

    @property
    def metric(self) -> str:
        return self.metrics[0]

    def check(self, training: Sequence[Example], validation: Sequence[Example]) -> None:
        check_labelled(training, "label", "class", "train")
        check_labelled(validation, "label", "class", "validation")
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
class Classes(Fitted):
    """A classification with its classes, in the order of the outputs."""

    task: Classification
    classes: tuple[str, ...]
    kind: ClassVar[TaskKind | None] = "classification"

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

    def rows(self, examples: Sequence[Example], is_training: bool) -> list[Row]:
        numbers = {name: number for number, name in enumerate(self.classes)}
        rows = []
        for index, example in enumerate(examples):
            label = IGNORED if example.label is None else numbers[example.label]
            sequence = self.form.framed(self.form.ids(self.task.texts_of(example)))
            rows.append(Row(index, (sequence,), {"labels": np.array(label, np.int64)}))
        return rows

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
        return [
            {
                "id": example.id,
                "prediction": self.classes[int(logits.argmax())],
                **({} if example.label is None else {"label": example.label}),
                "probabilities": dict(zip(self.classes, softmax(logits), strict=True)),
            }
            for example, logits in zip(examples, outputs, strict=True)
        ]

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

"""Cloze questions: a query with a gap, and texts that may fill it, as multiple choice (ReCoRD of SuperGLUE).

    [CLS] passage [SEP] query with Ann in the gap [SEP] ── score ──┐
    [CLS] passage [SEP] query with Bob in the gap [SEP] ── score ──┴── softmax ──> p(text)

A query may have several right texts, which name the same thing. A row of training has the first one and the wrong ones,
so that no right text is learned to be wrong; a prediction is right if it is any of them.
"""

import dataclasses
from collections.abc import Sequence
from typing import Any, ClassVar, Literal

from numpy.typing import NDArray

from headrace.pipeline.core.errors import ConfigError
from headrace.pipeline.core.settings import settings
from headrace.train.evaluation.metrics import squad_scores
from headrace.train.finetune.files.examples import Example
from headrace.train.finetune.tasks.labels import Choices, MultipleChoiceTask
from headrace.train.finetune.tasks.sequences import Form
from headrace.train.finetune.tasks.task import FileTask, Prediction, Row

GAP = "@placeholder"
QUERY = "query"


@settings
class Cloze(MultipleChoiceTask):
    """Predicts which of several texts fills the gap of a query. The other texts come before the query."""

    type: Literal["cloze"] = "cloze"  # type: ignore[assignment]  # it is another type of the union
    result: ClassVar[str] = ""
    labels: ClassVar[tuple[str, str]] = ("answers", "answer")

    @property
    def metric(self) -> str:
        return "word_f1"

    def check(self, training: Sequence[Example], validation: Sequence[Example]) -> None:
        if QUERY not in training[0].texts:
            problem = f"has no text {QUERY!r} with a gap"
            raise ConfigError("finetune.task.format", problem, "give files of ReCoRD: {type: superglue, task: record}")
        FileTask.check(self, training, validation)

    def texts_of(self, example: Example) -> list[str]:
        return [example.texts[name] for name in self.texts or example.texts if name != QUERY]

    def fitted(self, training: Sequence[Example], form: Form) -> "FilledGaps":
        return FilledGaps(form=form, task=self)


@dataclasses.dataclass(frozen=True, kw_only=True)
class FilledGaps(Choices):
    """Cloze questions as multiple choice."""

    task: Cloze

    def rows(self, examples: Sequence[Example], is_training: bool) -> list[Row]:
        return super().rows([self._filled(example, is_training) for example in examples], is_training)

    def predictions(
        self, examples: Sequence[Example], rows: Sequence[Row], outputs: Sequence[NDArray[Any]]
    ) -> list[Prediction]:
        """Returns the predicted texts; as labels, the right ones."""
        chosen = super().predictions(examples, rows, outputs)
        return [
            {
                "id": example.id,
                "prediction": example.choices[prediction["prediction"]],
                **({} if example.answers is None else {"label": sorted(_right(example))}),
                "probabilities": dict(zip(example.choices, prediction["probabilities"], strict=True)),
            }
            for example, prediction in zip(examples, chosen, strict=True)
        ]

    def scores(self, examples: Sequence[Example], predictions: Sequence[Prediction]) -> dict[str, float]:
        right = [sorted(_right(example)) for example in examples]
        scores = squad_scores(right, [str(prediction["prediction"]) for prediction in predictions])
        return {"word_f1": scores["f1"], "exact_match": scores["exact_match"]}

    def _filled(self, example: Example, is_training: bool) -> Example:
        """Returns ``example`` as a question of multiple choice, whose choices are whole queries."""
        right = _right(example)
        first = next((choice for choice in example.choices if choice in right), None)
        choices = [choice for choice in example.choices if not is_training or choice == first or choice not in right]
        return dataclasses.replace(
            example,
            choices=tuple(example.texts[QUERY].replace(GAP, choice) for choice in choices),
            gold=None if first is None else choices.index(first),
        )


def _right(example: Example) -> set[str]:
    return {answer.text for answer in example.answers or ()}

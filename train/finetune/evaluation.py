"""The predictions of a model that is being fine-tuned, made by all ranks together.

rows, shortest first ── a micro-batch for each rank, round by round ── outputs ──> all ranks ──> predictions, scores
"""

import dataclasses
from collections.abc import Sequence
from typing import Any

from numpy.typing import NDArray
from torch import Tensor, nn

from headrace.train.data.batches import Tensors, to_device
from headrace.train.distributed.processes import gather
from headrace.train.engine.engine import Engine
from headrace.train.finetune.files.examples import Example
from headrace.train.finetune.tasks.task import Fitted, Prediction, Row
from headrace.train.loop.validation import add, losses, total_of
from headrace.train.objectives.row_reader import MicroBatch

NumberedOutputs = tuple[int, NDArray[Any]]
"""The number of a row and the outputs for it."""


@dataclasses.dataclass(frozen=True)
class RowsOfExamples:
    """Reads rows of a task as batches; see ``RowReader``."""

    task: Fitted
    length: int | None
    """The length of every sequence; None: that of the longest one of a batch."""

    def read(self, rows: Sequence[Row], numbers: Sequence[int], first_position: int, least_rows: int = 1) -> MicroBatch:
        """Returns the rows ``numbers``. They draw nothing, so their position does not matter."""
        chosen = [rows[number] for number in numbers]
        arrays = self.task.arrays(chosen, self.length)
        return MicroBatch(arrays, self.task.counts(arrays), sum(row.tokens for row in chosen))


@dataclasses.dataclass(frozen=True)
class Examination:
    """The examples of a split, and the model that predicts them."""

    engine: Engine
    task: Fitted
    reader: RowsOfExamples
    examples: Sequence[Example]
    rows: Sequence[Row]

    def values(self) -> dict[str, float]:
        """Returns the loss and the scores of the predictions; all ranks call it together."""
        predictions, loss = self._predicted(with_loss=True)
        scores = self.task.scores(self.examples, predictions)
        return loss | {f"validation_{name}": value for name, value in scores.items()}

    def predictions(self) -> list[Prediction]:
        """Returns the prediction of each example; all ranks call it together."""
        return self._predicted(with_loss=False)[0]

    def _predicted(self, with_loss: bool) -> tuple[list[Prediction], dict[str, float]]:
        ranks, plan = self.engine.ranks, self.engine.plan
        order = sorted(range(len(self.rows)), key=lambda number: self.rows[number].tokens)
        own_outputs: list[NumberedOutputs] = []
        sums, counts = dict.fromkeys(self.task.weights, 0.0), dict.fromkeys(self.task.weights, 0.0)
        for start in range(0, len(order), plan.micro_rows * plan.groups):
            first = start + plan.group(ranks.rank) * plan.micro_rows
            numbers = order[first : first + plan.micro_rows]
            part = self.reader.read(self.rows, numbers or order[:1], first)  # all ranks compute equally often
            outputs, own = self.engine.computed(self._computed, to_device(part.arrays, ranks.device))
            if numbers:
                own_outputs += zip(numbers, outputs.cpu().numpy(), strict=True)
                add(sums, {name: float(value) for name, value in own.items()})
                add(counts, part.counts)
        outputs_of = dict(numbered for part in gather(own_outputs) for numbered in part)
        outputs_in_order = [outputs_of[number] for number in range(len(self.rows))]
        predictions = self.task.predictions(self.examples, self.rows, outputs_in_order)
        if not with_loss:
            return predictions, {}
        return predictions, losses(self.task, "validation_loss", total_of(ranks, sums), total_of(ranks, counts))

    def _computed(self, model: nn.Module, batch: Tensors) -> tuple[Tensor, dict[str, Tensor]]:
        outputs = self.task.outputs(model, batch)
        return outputs, self.task.sums(outputs, batch)

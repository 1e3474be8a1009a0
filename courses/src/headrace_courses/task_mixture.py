"""Several text-to-text tasks at once, in T5's proportions (Raffel et al. 2020, section 3.5.2).

    examples e_m of each task ── min(e_m, limit)^(1 / temperature) ──> its share of the rows, in every stretch of them

The file number i of ``finetune.train``, and of validation and test, belongs to task number i. The order of the rows is
a pure function of seed and position: each task's rows come in the order of its own epochs (data/apportionment.py).
"""

import dataclasses
import itertools
import math
from collections.abc import Sequence
from typing import Any, ClassVar, Literal

from numpy.typing import NDArray

from headrace.pipeline.core.errors import ConfigError
from headrace.pipeline.core.settings import AnyText, Positive, PositiveNumber, settings
from headrace.train.context import ContextForm
from headrace.train.data.apportionment import MixedOrder, Stretch
from headrace.train.data.order import RowOrder
from headrace.train.evaluation.metrics import CORPUS
from headrace.train.finetune.files.examples import Example
from headrace.train.finetune.tasks.sequences import Form
from headrace.train.finetune.tasks.task import Prediction, Row, Task
from headrace.train.finetune.tasks.text_to_text import TextToText, WrittenTask
from headrace.train.finetune.tasks.token_rows import TokenTask
from headrace.train.parts import WRITING, StackName

CYCLE_ROWS = 10_000
"""Shares are rounded to one row in this number; each task gets at least one row."""
WHERE = "finetune.task"
HUNDRED = 100.0
"""The best BLEU and chrF, whose means with other metrics are those of shares."""


@settings
class TaskMixture(Task):
    """Several text-to-text tasks, with shares that follow from their numbers of examples."""

    type: Literal["mixture"] = "mixture"
    tasks: dict[AnyText, TextToText]
    """Name → task, in the order of the files."""
    limit: Positive | None = None
    """K: a task with more examples counts as one with this many; null: no limit."""
    temperature: PositiveNumber = 1.0
    """T: shares are proportional to the numbers of examples to the power of 1 / T; the larger, the more alike."""
    equal: bool = False
    """Gives every task the same share."""
    stacks: ClassVar[tuple[StackName, ...]] = WRITING

    def __post_init__(self) -> None:
        if self.equal and (self.limit is not None or self.temperature != 1):
            problem = f"is true with limit={self.limit} and temperature={self.temperature:g}, which then change nothing"
            raise ConfigError(f"{WHERE}.equal", problem, "leave these out")
        if not self.tasks:
            raise ConfigError(f"{WHERE}.tasks", "there is none", "give tasks of one form")
        for name in self._first.of_tokens:
            if len({getattr(task, name) for task in self.tasks.values()}) != 1:
                problem = f"{name} differs between {', '.join(self.tasks)}"
                raise ConfigError(f"{WHERE}.tasks", problem, "give tasks of one form")
        if named := next((name for name in self.tasks if not name or "/" in name), None):
            raise ConfigError(f"{WHERE}.tasks", f"{named!r} is no name of a task", "leave out the slash")

    @property
    def _first(self) -> TextToText:
        return next(iter(self.tasks.values()))

    @property
    def metric(self) -> str:
        return "mean"

    def read(self, paths: Sequence[str], labelled: bool = True) -> tuple[list[Example], dict[str, int]]:
        """Returns the examples of all tasks, whose ids begin with ``<task>/``.

        Raises:
            ConfigError: when there is not one file for each task.
        """
        if len(paths) != sum(task.files_together for task in self.tasks.values()):
            problem = f"there are {len(paths)} files and {len(self.tasks)} tasks ({', '.join(self.tasks)})"
            raise ConfigError("finetune", problem, "give one file for each task, in their order, for each split")
        examples, dropped, left = list[Example](), dict[str, int](), iter(paths)
        for name, task in self.tasks.items():
            own, reasons = task.read(list(itertools.islice(left, task.files_together)), labelled)
            examples += [dataclasses.replace(example, id=f"{name}/{example.id}") for example in own]
            dropped |= {f"{name}/{reason}": number for reason, number in reasons.items()}
        return examples, dropped

    def check(self, training: Sequence[Example], validation: Sequence[Example]) -> None:
        for name, task in self.tasks.items():
            for split, examples in (("train", training), ("validation", validation)):
                if not of_task(name, examples):
                    raise ConfigError(f"finetune.{split}", f"task {name!r} has no examples", "give its file")
            task.check(of_task(name, training), of_task(name, validation))

    def fitted(self, training: Sequence[Example], form: Form) -> "MixedTasks":
        parts = {name: task.fitted(of_task(name, training), form) for name, task in self.tasks.items()}
        most = max(part.answer_tokens for part in parts.values())
        parts = {name: dataclasses.replace(part, answer_tokens=most) for name, part in parts.items()}
        return MixedTasks(form=form, task=self, parts=parts, answer_tokens=most, **self._first.of_tokens)


@dataclasses.dataclass(frozen=True, kw_only=True)
class MixedTasks(TokenTask):
    """The tasks of a mixture, whose answers have one most number of tokens."""

    task: TaskMixture
    parts: dict[str, WrittenTask]

    @property
    def context_form(self) -> ContextForm | None:
        return next(iter(self.parts.values())).context_form

    def order(self, seed: int, rows: Sequence[Row]) -> RowOrder:
        names = [row.facts["task"] for row in rows]
        counts = [names.count(name) for name in self.parts]
        shares = rates(counts, self.task.limit, self.task.temperature, self.task.equal)
        return MixedOrder(seed, tuple(self.parts), counts, (Stretch(0, whole(shares)),))

    def rows(self, examples: Sequence[Example], is_training: bool) -> list[Row]:
        """Returns the rows of one task after the other."""
        rows = []
        for name, part in self.parts.items():
            numbers = [number for number, example in enumerate(examples) if task_of(example) == name]
            for row in part.rows([examples[number] for number in numbers], is_training):
                facts = {**row.facts, "task": name}
                rows.append(dataclasses.replace(row, example=numbers[row.example], facts=facts))
        return rows

    def predictions(
        self, examples: Sequence[Example], rows: Sequence[Row], outputs: Sequence[NDArray[Any]]
    ) -> list[Prediction]:
        predicted = {}
        for row, output in zip(rows, outputs, strict=True):
            part = self.parts[row.facts["task"]]
            (predicted[row.example],) = part.predictions([examples[row.example]], [row], [output])
        return [predicted[number] for number in range(len(examples))]

    def scores(self, examples: Sequence[Example], predictions: Sequence[Prediction]) -> dict[str, float]:
        """Returns the metrics of each task as ``<task>_<metric>``, after the mean over tasks of the mean of theirs."""
        scores, means = dict[str, float](), list[float]()
        for name, part in self.parts.items():
            numbers = [number for number, example in enumerate(examples) if task_of(example) == name]
            own = part.scores([examples[number] for number in numbers], [predictions[number] for number in numbers])
            scores |= {f"{name}_{metric}": value for metric, value in own.items()}
            means.append(
                math.fsum(value / HUNDRED if metric in CORPUS else value for metric, value in own.items()) / len(own)
            )
        return {"mean": math.fsum(means) / len(means), **scores}

    def signatures(self, examples: Sequence[Example], predictions: Sequence[Prediction]) -> dict[str, str]:
        signatures = dict[str, str]()
        for name, part in self.parts.items():
            numbers = [number for number, example in enumerate(examples) if task_of(example) == name]
            own = part.signatures([examples[number] for number in numbers], [predictions[number] for number in numbers])
            signatures |= {f"{name}_{metric}": signature for metric, signature in own.items()}
        return signatures


def rates(examples: Sequence[int], limit: int | None, temperature: float, equal: bool) -> list[float]:
    """Returns the share of each task with so many ``examples``: min(e_m, K)^(1 / T), normalized (section 3.5.2)."""
    counted = [1 if equal else number if limit is None else min(number, limit) for number in examples]
    powers = [number ** (1 / temperature) for number in counted]
    return [power / math.fsum(powers) for power in powers]


def whole(shares: Sequence[float]) -> tuple[int, ...]:
    """Returns ``shares`` as whole numbers without a common divisor, rounded to a part of ``CYCLE_ROWS``."""
    rounded = [max(1, round(share * CYCLE_ROWS)) for share in shares]
    divisor = math.gcd(*rounded)
    return tuple(number // divisor for number in rounded)


def task_of(example: Example) -> str:
    """Returns the name of the task of ``example``."""
    return example.id.partition("/")[0]


def of_task(name: str, examples: Sequence[Example]) -> list[Example]:
    """Returns those of ``examples`` that are of the task ``name``."""
    return [example for example in examples if task_of(example) == name]

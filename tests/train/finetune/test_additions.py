"""A new task and a new format of examples are two classes and one class: the stage trains and exports them unchanged.

They are made here, as CONTRIBUTING.md says, and take the place of those in the unions.
"""

import dataclasses
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from headrace.pipeline.core.json_files import read_json
from headrace.pipeline.core.settings import settings
from headrace.train.data.batches import Arrays, Tensors
from headrace.train.evaluation.file_records import RecordError
from headrace.train.families.task_heads import TaskKind
from headrace.train.finetune.files.examples import Collection, Example, Examples
from headrace.train.finetune.tasks.sequences import Form
from headrace.train.finetune.tasks.task import FileTask, Fitted, Prediction, Row, check_labelled, task_outputs
from tests.train.finetune.small_tasks import BAD, ENCODER, GOOD, stage, tokenizer_artifact

if TYPE_CHECKING:
    from torch import Tensor, nn


@settings
class Tagged:
    """Lines ``text # tag tag``."""

    type: Literal["tagged"] = "tagged"
    mark: str = "#"

    @property
    def classes(self) -> tuple[str, ...]:
        return ()

    def read(self, path: Path, labelled: bool = True) -> Examples:
        found = Collection(path)
        for number, line in enumerate(path.read_text().splitlines(), 1):
            text, mark, tags = line.partition(self.mark)
            if mark:
                found.add([Example(id=f"{path.name}:{number}", texts={"text": text}, label=tags.strip())], ())
            else:
                found.drop(RecordError("no_mark"))
        return found.close()


@settings
class Tagging(FileTask):
    """Predicts any number of tags of a text."""

    type: Literal["tagging"] = "tagging"
    format: Tagged

    @property
    def metric(self) -> str:
        return "right_tags"

    def check(self, training: Sequence[Example], validation: Sequence[Example]) -> None:
        check_labelled(training, "label", "tags", "train")

    def fitted(self, training: Sequence[Example], form: Form) -> "Tags":
        tags = sorted({tag for example in training for tag in str(example.label).split()})
        return Tags(form=form, task=self, tags=tuple(tags))


@dataclasses.dataclass(frozen=True, kw_only=True)
class Tags(Fitted):
    task: Tagging
    tags: tuple[str, ...]
    kind: ClassVar[TaskKind | None] = "classification"

    @property
    def outputs_per_position(self) -> int:
        return len(self.tags)

    @property
    def hf_fields(self) -> Mapping[str, Any]:
        return {"id2label": dict(enumerate(self.tags)), "problem_type": "multi_label_classification"}

    def rows(self, examples: Sequence[Example], is_training: bool) -> list[Row]:
        return [
            Row(index, (self.form.framed(self.form.ids(self.task.texts_of(example))),), {"tags": self._wanted(example)})
            for index, example in enumerate(examples)
        ]

    def _wanted(self, example: Example) -> NDArray[np.float32]:
        return np.array([tag in str(example.label).split() for tag in self.tags], np.float32)

    def counts(self, batch: Arrays) -> dict[str, int]:
        return {self.term: batch["tags"].size}

    def outputs(self, model: "nn.Module", batch: Tensors) -> "Tensor":
        return task_outputs(self.form, model, batch)[:, 0]

    def sums(self, outputs: "Tensor", batch: Tensors) -> "dict[str, Tensor]":
        from torch.nn import functional

        return {self.term: functional.binary_cross_entropy_with_logits(outputs, batch["tags"], reduction="sum")}

    def predictions(
        self, examples: Sequence[Example], rows: Sequence[Row], outputs: Sequence[NDArray[Any]]
    ) -> list[Prediction]:
        return [
            {"id": example.id, "prediction": [tag for tag, one in zip(self.tags, logits, strict=True) if one > 0]}
            for example, logits in zip(examples, outputs, strict=True)
        ]

    def scores(self, examples: Sequence[Example], predictions: Sequence[Prediction]) -> dict[str, float]:
        right = [
            (tag in one["prediction"]) == bool(wanted)
            for example, one in zip(examples, predictions, strict=True)
            for tag, wanted in zip(self.tags, self._wanted(example), strict=True)
        ]
        return {self.task.metric: float(np.mean(right))}


def test_a_task_and_a_format_of_ones_own_are_trained_scored_and_exported(run_stage, tmp_path) -> None:
    """A text has the tag ``good`` or ``bad`` for each word of that kind in it."""
    texts = [f"{a} {GOOD[n % 3]} {b} # good" for n, a in enumerate("abcdef") for b in "ghij"]
    texts += [f"{a} {BAD[n % 3]} {b} # bad" for n, a in enumerate("abcdef") for b in "ghij"]
    texts += [f"{a} {GOOD[n % 3]} {BAD[n % 3]} # good bad" for n, a in enumerate("abcdefghij")]
    held_out = ["k good l # good", "k dull l # bad", "m o fine dull # good bad", "a line of another form"]
    files = {"train": str(tmp_path / "train.txt"), "validation": str(tmp_path / "validation.txt")}
    for path, lines in zip(files.values(), (texts, held_out), strict=True):
        Path(path).write_text("\n".join(lines) + "\n")
    made = stage(ENCODER, files, epochs=8)
    made = dataclasses.replace(made, finetune=dataclasses.replace(made.finetune, task=Tagging(format=Tagged())))
    made.check_start()
    tokenizer = tokenizer_artifact(tmp_path / "tokenizer")
    found = run_stage(made, {"tokenizer": tokenizer}, tmp_path / "tuned")
    scores = read_json(found.path("scores.json"))
    assert (scores["task"], scores["metric"]) == ("tagging", "right_tags")
    assert scores["dropped"] == {"validation": {"no_mark": 1}}
    assert scores["scores"]["right_tags"]["mean"] == 1
    predictions = map(json.loads, found.path("seed_1/predictions.jsonl").read_text().splitlines())
    assert [one["prediction"] for one in predictions] == [["good"], ["bad"], ["bad", "good"]]
    assert read_json(found.path("hf/config.json"))["problem_type"] == "multi_label_classification"

"""The examples of a fine-tuning: read, limited, and checked against each other. Free of torch.

An example of training whose texts and choices are those of a validation example would teach the answer, so it is left
out and counted (``overlapping``). When most of validation is in training, the same file was probably given twice.
"""

import dataclasses
from collections import Counter
from collections.abc import Hashable, Iterator, Mapping, Sequence
from pathlib import Path

from headrace.pipeline.core.errors import ArtifactError, ConfigError
from headrace.pipeline.core.stage import RawFile, raw_file
from headrace.pipeline.core.text_files import stored_path
from headrace.train.data.order import Order
from headrace.train.finetune.files.examples import Example
from headrace.train.finetune.settings import Finetune

MOST_OVERLAP = 0.5
"""The share of validation above which an overlap is refused."""
PARTS = {"train": "training", "validation": "validation", "test": "test"}
"""Split → its examples in ``Splits``."""
REMEDY = "give files without common examples"


@dataclasses.dataclass(frozen=True)
class Splits:
    """The examples of each split."""

    training: list[Example]
    validation: list[Example]
    test: list[Example]
    dropped: Mapping[str, Mapping[str, int]]
    """Split → reason → number of lines that hold no example."""
    overlapping: int
    """Training examples that were left out because validation has them."""

    @classmethod
    def read(cls, finetune: Finetune) -> "Splits":
        """Reads and checks all files.

        Raises:
            ConfigError: when a file cannot be read as the task's format, or the examples do not fit each other.
        """
        task = finetune.task
        try:
            read, dropped_training = task.read(finetune.train)
            validation, dropped_validation = task.read(finetune.validation)
            test, dropped_test = task.read(finetune.test, labelled=False) if finetune.test else ([], {})
        except ArtifactError as error:
            raise ConfigError("finetune", f"{error.where} {error.problem}", error.remedy) from None
        training, unlearnable = task.trainable(read)
        dropped_training = dict(Counter(dropped_training) + Counter(unlearnable))
        dropped = {"train": dropped_training, "validation": dropped_validation, "test": dropped_test}
        for split, examples in (("train", training), ("validation", validation), ("test", test)):
            if not examples and dropped[split]:
                reasons = ", ".join(f"{reason}: {number}" for reason, number in dropped[split].items())
                raise ConfigError(f"finetune.{split}", f"holds no example ({reasons})", "check format and task")
        left, overlapping = without_overlap(training, validation)
        chosen = limited(left, finetune.limit)
        task.check(chosen, validation)
        return cls(
            chosen, validation, test, {name: reasons for name, reasons in dropped.items() if reasons}, overlapping
        )

    def left_out(self) -> Iterator[str]:
        """Yields a line for each split of which examples are left out: of training no model learns from them, and no
        score of validation counts them."""
        for split, reasons in self.dropped.items():
            number, left = sum(reasons.values()), len(getattr(self, PARTS[split]))
            counts = ", ".join(f"{reason} {count:,}" for reason, count in reasons.items())
            yield f"finetune.{split}: {number:,} examples are left out ({counts}), {left:,} are not"


def without_overlap(training: Sequence[Example], validation: Sequence[Example]) -> tuple[list[Example], int]:
    """Returns the training examples whose texts and choices no validation example has, and the number of the others.

    Raises:
        ConfigError: when more than half of validation is in training, or all of training in validation.
    """
    keys = {_key(example) for example in validation}
    left = [example for example in training if _key(example) not in keys]
    shared_keys = keys & {_key(example) for example in training}
    shared = sum(_key(example) in shared_keys for example in validation)
    if shared > MOST_OVERLAP * len(validation):
        problem = f"{shared} of its {len(validation)} examples are in finetune.train, too"
        raise ConfigError("finetune.validation", problem, REMEDY)
    if not left:
        raise ConfigError("finetune.train", f"all its {len(training)} examples are in finetune.validation, too", REMEDY)
    return left, len(training) - len(left)


def _key(example: Example) -> Hashable:
    return tuple(example.texts.items()), example.choices


def limited(examples: Sequence[Example], limit: int | None) -> list[Example]:
    """Returns at most ``limit`` of ``examples``, a random choice that depends on their number alone, in their order."""
    if limit is None or limit >= len(examples):
        return list(examples)
    return [examples[index] for index in sorted(Order(0, len(examples)).batch(0, limit).tolist())]


def raw_files(finetune: Finetune) -> tuple[RawFile, ...]:
    """Returns the files of all splits.

    Raises:
        ConfigError: when one is missing.
    """
    files = []
    for split in ("train", "validation", "test"):
        for number, path in enumerate(map(stored_path, map(Path, getattr(finetune, split)))):
            if not path.is_file():
                raise ConfigError(f"finetune.{split}", f"there is no file {str(path)!r}", "give the path of a file")
            files.append(raw_file(f"{split}/{number}/{path.name}", path))
    return tuple(files)

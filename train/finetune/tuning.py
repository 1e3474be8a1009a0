"""The settings of the stage ``finetuned``, and what follows from them before torch is loaded.

The examples are read, limited, and checked against each other (``Splits``). An example of training whose texts and
choices are those of a validation example would teach the answer, so it is left out and counted (``overlapping``). When
most of validation is in training, the same file was probably given twice.
"""

import dataclasses
import sys
from collections import Counter
from collections.abc import Hashable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from headrace.pipeline.core.errors import ArtifactError, ConfigError
from headrace.pipeline.core.stage import RawFile, Stage, raw_file
from headrace.pipeline.core.text_files import stored_path
from headrace.pipeline.tracking.wandb_run import Tracking
from headrace.train.config import ModelConfig
from headrace.train.data.order import Order
from headrace.train.engine.zero import check_offload, check_recomputation, deepspeed_config, plan_batches
from headrace.train.families.hf_config import check_layers, needed_weight_files, read_model_config
from headrace.train.families.initial_weights import TOKENIZER_FILES
from headrace.train.finetune.files.examples import Example
from headrace.train.finetune.settings import Finetune
from headrace.train.loop.pretraining import UNHASHED
from headrace.train.loop.schedule import Schedule
from headrace.train.training_config import TrainingConfig, ZeroConfig

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


MODEL_FILES = ("config.json", *TOKENIZER_FILES)
"""The files of a Hugging Face folder that decide the result, besides those of the weights."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Tuning(Stage):
    """A fine-tuning: the task with its recipe, and the model that it begins from."""

    finetune: Finetune
    model: ModelConfig
    """The shape of the model that is fine-tuned."""
    training: TrainingConfig = dataclasses.field(metadata=UNHASHED)
    """Settings of the run's training; those that change no result hold here, too: the device, say."""
    zero: ZeroConfig = dataclasses.field(default_factory=ZeroConfig, metadata=UNHASHED)
    tracking: Tracking = dataclasses.field(default_factory=Tracking, metadata=UNHASHED)

    @classmethod
    def model_of(cls, finetune: Finetune, model: ModelConfig) -> ModelConfig:
        """Returns the shape of the model that ``finetune`` trains in a run with this ``model``.

        Raises:
            ConfigError: when ``finetune.folder`` has no model of a known family.
        """
        if finetune.folder is None:
            return model
        try:
            return read_model_config(Path(finetune.folder))[0]
        except ArtifactError as error:
            raise ConfigError("finetune.folder", f"{error.where} {error.problem}", error.remedy) from None

    def raw_files(self) -> tuple[RawFile, ...]:
        """Returns the files of examples, and of the model where it is no run's.

        Raises:
            ConfigError: when one is missing, or the model has fewer weights than layers.
        """
        if self.finetune.folder is None:
            return raw_files(self.finetune)
        folder = Path(self.finetune.folder)
        try:
            weights = needed_weight_files(folder)
            check_layers(folder, self.model.blocks)
        except ArtifactError as error:
            raise ConfigError("finetune.folder", f"{error.where} {error.problem}", error.remedy) from None
        if not (folder / "tokenizer.json").is_file():
            remedy = "put the tokenizer of these weights there"
            raise ConfigError("finetune.folder", f"{folder} has no tokenizer.json", remedy)
        paths = [*(folder / name for name in MODEL_FILES if (folder / name).is_file()), *weights]
        return (*raw_files(self.finetune), *(raw_file(f"model/{path.name}", path) for path in paths))

    def check_start(self) -> None:
        """Reads all examples and checks them against each other; prints how many are left out.

        Raises:
            ConfigError: when a file cannot be read as the task's format, or the examples do not fit each other.
        """
        for line in Splits.read(self.finetune).left_out():
            print(f"headrace: {line}", file=sys.stderr, flush=True)

    def training_of(self, seed: int, rows: int) -> TrainingConfig:
        """Returns the settings of the training of ``rows`` rows from ``seed``."""
        finetune = self.finetune
        every = finetune.evaluate_every_of(rows)
        return dataclasses.replace(
            self.training,
            steps=finetune.steps_of(rows),
            batch_rows=finetune.batch_rows,
            precision=finetune.precision,
            gradient_clip=finetune.gradient_clip,
            seed=seed,
            validate_every=every,
            save_every=every,
            keep_last=max(self.training.keep_last, finetune.average_last or 0),
            **OF_PRETRAINING,
        )

    def schedule_of(self, steps: int) -> Schedule:
        """Returns the schedule of a training of so many ``steps``."""
        schedule, fraction = self.finetune.schedule, self.finetune.warmup_fraction
        if fraction is None:
            return schedule
        least = 1 if schedule.type == "inverse_sqrt" else 0
        return dataclasses.replace(schedule, warmup_steps=max(least, round(fraction * steps)))


OF_PRETRAINING: Mapping[str, Any] = {
    "seen_rows": 0,
    "source_rows": 0,
    "unique_rows": None,
    "ramp_steps": 0,
    "ramp_first_rows": None,
    "initial_weights": None,
    "branch_from": None,
    "evaluate_every": None,
    "spike_sigma": None,
    "spike_rollback_every": None,
    "keep_every": None,
    "sequence_ranks": 1,
}
"""Settings of ``TrainingConfig`` that no fine-tuning has."""


def layers_of(model: ModelConfig) -> int:
    """Returns the number of blocks of all stacks: layers that share one block count as that block."""
    return model.blocks + (model.encoder.blocks if model.stack == "encoder_decoder" else 0)


def check_tuning(tuning: Tuning, ranks: int) -> None:
    """Checks the settings of a fine-tuning on this number of ``ranks`` against each other.

    Raises:
        ConfigError: with both values that contradict each other.
    """
    finetune, model = tuning.finetune, tuning.model
    if finetune.context > model.context:
        problem = f"is {finetune.context}, and the model has {model.context} positions"
        raise ConfigError("finetune.context", problem, f"give at most {model.context}")
    if finetune.context < finetune.task.least_context:
        problem = f"is {finetune.context}, too short for a task of type {finetune.task.type}"
        raise ConfigError("finetune.context", problem, f"give at least {finetune.task.least_context}")
    if model.stack not in finetune.task.stacks:
        problem = f"{finetune.task.type} trains a stack {' or '.join(finetune.task.stacks)}, and that of the model is"
        raise ConfigError("finetune.task.type", f"{problem} {model.stack}", "give another type, or another model")
    if isinstance(finetune.freeze, int) and finetune.freeze > (layers := layers_of(model)):
        problem = f"is {finetune.freeze}, and the model has {layers} layers"
        raise ConfigError("finetune.freeze", problem, f"give at most {layers}, or all")
    if finetune.freeze != "none" and tuning.zero.stage == 3:
        problem = f"is {finetune.freeze}, and zero.stage=3 divides only weights that are trained"
        raise ConfigError("finetune.freeze", problem, "give zero.stage=2, or freeze=none")
    if finetune.batch_rows % ranks:
        problem = f"{finetune.batch_rows} examples cannot be dealt to {ranks} ranks"
        raise ConfigError("finetune.batch_rows", problem, f"give a multiple of {ranks}")
    training = tuning.training_of(finetune.seeds[0], finetune.batch_rows)
    deepspeed_config(plan_batches(training, ranks), training, tuning.zero)
    check_offload(tuning.zero, finetune.optimizer)
    check_recomputation(training, tuning.zero, model)

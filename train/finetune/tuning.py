"""The settings of the stage ``finetuned``, and what follows from them before torch is loaded."""

import dataclasses
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from headrace.pipeline.core.errors import ArtifactError, ConfigError
from headrace.pipeline.core.stage import RawFile, Stage, raw_file
from headrace.pipeline.tracking.settings import Tracking
from headrace.train.config import ModelConfig
from headrace.train.engine.zero import check_offload, check_recomputation, deepspeed_config, plan_batches
from headrace.train.families.hf_config import check_layers, needed_weight_files, read_model_config
from headrace.train.families.initial_weights import TOKENIZER_FILES
from headrace.train.finetune.settings import Finetune
from headrace.train.finetune.splits import Splits, raw_files
from headrace.train.loop.pretraining import UNHASHED
from headrace.train.loop.schedule import Schedule
from headrace.train.training_config import TrainingConfig, ZeroConfig

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

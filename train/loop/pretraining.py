"""The settings of a training, for the stage ``weights`` and the loop. It imports no torch."""

import dataclasses
from collections.abc import Sequence
from pathlib import Path

from headrace.pipeline.core.errors import ConfigError
from headrace.pipeline.core.stage import RawFile, Stage, refuse_changes
from headrace.pipeline.tracking.settings import Tracking
from headrace.train.config import ModelConfig
from headrace.train.data.mixture import Mix
from headrace.train.distillation_config import TEACHER, Distillation
from headrace.train.engine.optimizers import AnyOptimizer
from headrace.train.evaluation.settings import Evaluation
from headrace.train.families import initial_weights
from headrace.train.loop.schedule import Schedule
from headrace.train.objectives import AnyObjective
from headrace.train.objectives.base import OBJECTIVE_FILES, AddsModules, ReadsFiles
from headrace.train.objectives.causal import Causal
from headrace.train.training_config import TrainingConfig, ZeroConfig

UNHASHED = {"hashed": False}
"""The metadata of settings that determine how the weights are computed, but do not change them."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Pretraining(Stage):
    """A training: the model, the settings of its training, and the files that it begins from."""

    model: ModelConfig
    optimizer: AnyOptimizer
    schedule: Schedule
    training: TrainingConfig
    objective: AnyObjective = dataclasses.field(default_factory=Causal)
    distillation: Distillation = dataclasses.field(default_factory=Distillation)
    mixture: Mix = dataclasses.field(default_factory=Mix)
    zero: ZeroConfig = dataclasses.field(default_factory=ZeroConfig, metadata=UNHASHED)
    tracking: Tracking = dataclasses.field(default_factory=Tracking, metadata=UNHASHED)
    evaluation: Evaluation = dataclasses.field(default_factory=Evaluation, metadata=UNHASHED)
    """The benchmarks that ``training.evaluate_every`` scores."""

    def __post_init__(self) -> None:
        if self.training.evaluate_every is not None and not self.evaluation.benchmarks:
            problem = f"is {self.training.evaluate_every}, and evaluation has no benchmarks"
            raise ConfigError("training.evaluate_every", problem, "give it some, or null")
        if self.distillation.teacher is not None:
            self._check_distillation()

    def _check_distillation(self) -> None:
        training, settings = self.training, self.distillation
        if training.sequence_ranks > 1:
            problem = f"is {training.sequence_ranks}, and {TEACHER} reads whole rows"
            raise ConfigError("training.sequence_ranks", problem, "give 1, or no teacher")
        if isinstance(self.objective, AddsModules):
            modules = " and ".join(self.objective.training_modules)
            problem = f"is {self.objective.type}, which trains {modules}, and {TEACHER} has none"
            raise ConfigError("objective", problem, "give another one, or no teacher")
        if settings.initial_layers and training.initial_weights is not None:
            problem = f"is {list(settings.initial_layers)}, and initial_weights is {training.initial_weights}"
            raise ConfigError("distillation.initial_layers", problem, "give one of them, or none")

    def raw_files(self) -> tuple[RawFile, ...]:
        return self._initial_files() + self._teacher_files() + self._objective_files()

    def _objective_files(self) -> tuple[RawFile, ...]:
        return self.objective.raw_files() if isinstance(self.objective, ReadsFiles) else ()

    def check_objective_files(self) -> None:
        """Checks that the files of the objective are those that were planned.

        Raises:
            RetryableError: when one differs.
        """
        self._compare(OBJECTIVE_FILES, self._objective_files())

    def _initial_files(self) -> tuple[RawFile, ...]:
        folder = self.training.initial_weights
        return () if folder is None else initial_weights.raw_files(Path(folder), self.model)

    def _teacher_files(self) -> tuple[RawFile, ...]:
        settings = self.distillation
        if settings.teacher is None:
            return ()
        return initial_weights.teacher_files(Path(settings.teacher), self.model, settings)

    def check_raw_files(self) -> None:
        """Checks nothing: they are compared where they are loaded; initial weights may be removed later."""

    def check_teacher(self) -> None:
        """Checks that the teacher is the one that was planned.

        Raises:
            RetryableError: naming the first file that differs.
        """
        self._compare(initial_weights.TEACHER_FILES, self._teacher_files())

    def check_initial_weights(self) -> None:
        """Checks that the initial weights are those that were planned.

        Raises:
            RetryableError: naming the first file that differs.
        """
        self._compare(initial_weights.INITIAL_FILES, self._initial_files())

    def _compare(self, prefix: str, present: Sequence[RawFile]) -> None:
        if self.planned:
            refuse_changes([file for file in self.planned if file.name.startswith(f"{prefix}/")], present)

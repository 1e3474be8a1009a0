"""The settings of a training, for the stage ``weights`` and the loop. It imports no torch."""

import dataclasses
import itertools
from collections.abc import Callable, Mapping
from pathlib import Path

from headrace.pipeline.core.errors import ConfigError
from headrace.pipeline.core.stage import RawFile, Stage, refuse_changes
from headrace.pipeline.tracking.wandb_run import Tracking
from headrace.train.config import ModelConfig
from headrace.train.data.mixture import Mix
from headrace.train.distillation_config import TEACHER, Distillation
from headrace.train.engine.optimizers import AnyOptimizer
from headrace.train.evaluation.settings import Evaluation
from headrace.train.families import initial_weights
from headrace.train.families.initial_weights import INITIAL_FILES, TEACHER_FILES, teacher_files
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
        return tuple(itertools.chain.from_iterable(read() for read in self._readers.values()))

    @property
    def _readers(self) -> Mapping[str, Callable[[], tuple[RawFile, ...]]]:
        """The functions that read what the training begins from, by the folder in the names of its files."""
        initial, teacher, objective = self.training.initial_weights, self.distillation.teacher, self.objective
        readers: dict[str, Callable[[], tuple[RawFile, ...]]] = {}
        if initial is not None:
            readers[INITIAL_FILES] = lambda: initial_weights.raw_files(Path(initial), self.model)
        if teacher is not None:
            readers[TEACHER_FILES] = lambda: teacher_files(Path(teacher), self.model, self.distillation)
        if isinstance(objective, ReadsFiles):
            readers[OBJECTIVE_FILES] = objective.raw_files
        return readers

    def check_raw_files(self) -> None:
        """Checks nothing: they are compared where they are loaded; initial weights may be removed later."""

    def check_files(self, kind: str) -> None:
        """Checks that the files of a ``kind`` (INITIAL_FILES, TEACHER_FILES, OBJECTIVE_FILES) are those that were
        planned.

        Raises:
            RetryableError: naming the first file that differs.
        """
        planned = [file for file in self.planned or () if file.name.startswith(f"{kind}/")]
        if planned:
            refuse_changes(planned, self._readers[kind]())

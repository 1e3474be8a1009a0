"""RunConfig: one field per group of conf/, and the checks that need more than one group."""

import dataclasses
import os
from collections.abc import Mapping
from typing import Any

from headrace.data_prep.clean import Cleaning
from headrace.data_prep.decontamination.config import Decontamination
from headrace.data_prep.dedup.config import Dedup
from headrace.data_prep.packed import Packing
from headrace.data_prep.sources import AnySource
from headrace.data_prep.tokenizer import TokenizerSettings
from headrace.pipeline.clusters import AnyCluster
from headrace.pipeline.core.errors import ConfigError
from headrace.pipeline.core.settings import Positive, decode, settings, unhashed
from headrace.pipeline.core.tracker import Tracking
from headrace.train.config import ModelConfig, TrainingConfig, ZeroConfig
from headrace.train.data.mixture import Mixture
from headrace.train.engine.optimizers import AnyOptimizer
from headrace.train.engine.zero import deepspeed_config, plan_batches
from headrace.train.evaluation.settings import Evaluation
from headrace.train.loop.schedule import Schedule
from headrace.train.objectives import AnyObjective
from headrace.train.objectives.causal import Causal


@settings
class RunConfig:
    """Everything that a run depends on."""

    root: str = unhashed("runs")
    """The folder that artifacts are written below."""
    until: str = unhashed("report")
    """The last stage to run."""
    workers: Positive | None = unhashed(None)
    """Worker processes of a data stage on this machine; None takes one per core. The results do not depend on it."""
    ranks: Positive = unhashed(1)
    """Ranks of a training, and of a scoring, on this machine. What is scored does not depend on it."""
    source: AnySource
    """Where raw documents come from."""
    cleaning: Cleaning
    """Which documents are worth keeping."""
    dedup: Dedup
    """What counts as a near duplicate."""
    decontamination: Decontamination
    """What is done about documents that hold items of the benchmarks in ``evaluation``."""
    tokenizer: TokenizerSettings
    """How text becomes tokens."""
    packing: Packing
    """How tokens become rows."""
    model: ModelConfig
    """The network."""
    objective: AnyObjective = dataclasses.field(default_factory=Causal)
    """What the network is trained to do."""
    optimizer: AnyOptimizer
    """How weights move."""
    schedule: Schedule
    """How the learning rate moves."""
    training: TrainingConfig
    """How long, on how many rows at a time, in which precision."""
    mixture: Mixture
    """What else to train on beside the rows of this run, and how much of each."""
    zero: ZeroConfig
    """How DeepSpeed splits the training state over ranks."""
    evaluation: Evaluation
    """What the model is tested on."""
    tracking: Tracking
    """Where metrics go besides metrics.jsonl."""
    cluster: AnyCluster
    """Where the work happens."""

    @property
    def training_ranks(self) -> int:
        """The processes that train together."""
        return self.cluster.world(self.ranks)

    @property
    def worker_processes(self) -> int:
        return self.workers or os.cpu_count() or 1


def decoded(values: Mapping[str, Any]) -> RunConfig:
    """Returns the checked configuration of plain ``values``.

    Raises:
        ConfigError: when a value does not fit, or two do not fit together.
    """
    config = decode(RunConfig, values)
    check(config)
    return config


def check(config: RunConfig) -> None:
    """The checks across groups.

    Raises:
        ConfigError: naming both values that do not go together.
    """
    if config.packing.row_tokens > config.model.context:
        raise ConfigError(
            "packing.row_tokens",
            f"{config.packing.row_tokens} is longer than model.context = {config.model.context}",
            "make rows shorter or the context longer",
        )


def check_training(config: RunConfig) -> None:
    """The checks of a training that depend on who trains.

    Raises:
        ConfigError: when the ranks cannot share a batch, or DeepSpeed cannot do what is asked.
    """
    deepspeed_config(plan_batches(config.training, config.training_ranks), config.training, config.zero)

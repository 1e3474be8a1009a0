"""RunConfig: one field per group of conf/, and the checks across groups."""

import dataclasses
import os
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from pydantic import Field

from headrace.data_prep.classifier import ClassifierTraining
from headrace.data_prep.clean import Cleaning
from headrace.data_prep.column import Columns
from headrace.data_prep.decontamination.config import Decontamination
from headrace.data_prep.dedup.config import Dedup
from headrace.data_prep.packed import Packing
from headrace.data_prep.selected import SelectionRules
from headrace.data_prep.sources import AnySource
from headrace.data_prep.tokenization.given_tokenizer import GivenFile
from headrace.data_prep.tokenizer import TokenizerSettings
from headrace.pipeline.clusters import AnyCluster
from headrace.pipeline.configuration.options import is_of_other_option, unchosen_option
from headrace.pipeline.configuration.setting_names import dotted, key_remedy, with_types
from headrace.pipeline.core.errors import ConfigError
from headrace.pipeline.core.settings import (
    FilePath,
    Folder,
    Positive,
    Seed,
    decode,
    digest_of_json,
    settings,
    unhashed,
    with_paths,
)
from headrace.pipeline.tracking.notices import AnyNotifier, NoNotices
from headrace.pipeline.tracking.wandb_run import Tracking
from headrace.train.config import ModelConfig
from headrace.train.data.mixture import Mixture
from headrace.train.distillation_config import Distillation
from headrace.train.engine.optimizers import OPTIMIZERS, AnyOptimizer
from headrace.train.engine.zero import (
    check_offload,
    check_recomputation,
    check_sequence_ranks,
    deepspeed_config,
    plan_batches,
)
from headrace.train.evaluation.settings import Evaluation
from headrace.train.finetune.settings import Finetune
from headrace.train.loop.schedule import Schedule
from headrace.train.objectives import OBJECTIVES, AnyObjective
from headrace.train.objectives.base import Demanding, Objective, Vocabulary, of_stack, target_tokens
from headrace.train.objectives.causal import Causal
from headrace.train.training_config import TrainingConfig, ZeroConfig

RunName = Annotated[str, Field(pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}$")]
"""A name of up to 64 letters, digits, ``_``, ``.`` and ``-``: it is also a part of file names and of job names."""


@settings
class RunConfig:
    """All settings of a run."""

    name: RunName | None = unhashed(None)
    """The name of the run, for people and commands; the results do not depend on it."""
    root: Folder = unhashed("runs")
    """The folder below which artifacts are written."""
    mirror: FilePath | None = unhashed(None)
    """A URL (``s3://…``, ``gs://…``) or folder with finished artifacts: a run takes those that are there instead of
    computing them, and puts its own there (``headrace mirror push``). null: none."""
    until: str = unhashed("report")
    """The last stage to run: texts, classifier, clean, signatures, duplicates, repeats, unique, column.NAME,
    selected, overlaps, tokenizer, tokens, packed, weights, finetuned, scores or report. A report of the stages up to it
    follows."""
    seed: Seed | None = unhashed(None)
    """The seed of everything random in the run: it takes the place of each ``seed`` of the chosen options that no
    override sets. null: each has its own."""
    workers: Positive | None = unhashed(None)
    """The number of worker processes on this machine; None starts one per core. The results do not depend on it."""
    ranks: Positive = unhashed(1)
    """The number of ranks of a training or scoring on this machine. Scores do not depend on it."""
    source: AnySource
    """The raw documents and the way of reading them."""
    classifier: ClassifierTraining = dataclasses.field(default_factory=ClassifierTraining)
    """A classifier of texts that the run trains, for its filters and columns."""
    cleaning: Cleaning
    """The rules that drop documents."""
    dedup: Dedup
    """The definition of duplicates."""
    columns: Columns = dataclasses.field(default_factory=Columns)
    """Values of each document that remains: language, quality, length, perplexity."""
    selection: SelectionRules = dataclasses.field(default_factory=SelectionRules)
    """The documents to train on, and how often, by the values of their columns."""
    decontamination: Decontamination
    """The treatment of documents that contain items of the benchmarks in ``evaluation``."""
    tokenizer: TokenizerSettings
    """The conversion of text to tokens."""
    packing: Packing
    """The conversion of tokens to rows."""
    model: ModelConfig
    """The network: its size and its parts."""
    objective: AnyObjective = dataclasses.field(default_factory=Causal)
    """The training objective, with its loss."""
    optimizer: AnyOptimizer
    """The optimizer of the weights."""
    schedule: Schedule
    """The learning rate over the steps."""
    training: TrainingConfig
    """The number of steps, the batch size, the precision and other settings of the training."""
    distillation: Distillation = dataclasses.field(default_factory=Distillation)
    """The teacher of the training, and what is learned from it."""
    mixture: Mixture
    """Rows of other runs to train on, with their shares."""
    zero: ZeroConfig
    """The ZeRO settings: how DeepSpeed splits the training state over ranks."""
    finetune: Finetune | None = None
    """The task that the trained model learns next, from labelled examples; null: none."""
    evaluation: Evaluation
    """The benchmarks that score the model."""
    tracking: Tracking
    """The settings of wandb, which receives the metrics in addition to metrics.jsonl."""
    cluster: AnyCluster = dataclasses.field(metadata={"hashed": False})
    """The place of the work: this machine, or a cluster."""
    notify: AnyNotifier = dataclasses.field(default_factory=NoNotices, metadata={"hashed": False})
    """The way in which a person learns that the run ended, died or waits, or has a spike."""

    @property
    def id(self) -> str:
        """The id of the run: a hash of the settings that decide its results, and of the paths of files that do."""
        return digest_of_json(with_paths(dataclasses.replace(self, evaluation=self.evaluation.expanded())))

    @property
    def selects(self) -> bool:
        """Whether documents are selected by the values of their columns."""
        return bool(self.selection.rules)

    @property
    def text_packing(self) -> Packing:
        """The packing of text into rows that the objective turns into rows of ``packing.row_tokens`` positions."""
        return dataclasses.replace(self.packing, row_tokens=self.row_objective.text_tokens(self.packing.row_tokens))

    @property
    def row_objective(self) -> Objective:
        """The objective as it makes the rows of this model's stack."""
        return of_stack(self.objective, self.model.stack)

    @property
    def trained_model(self) -> ModelConfig:
        """The model with what follows from the objective: ``two_sided_bias`` where tokens see later ones, unless it is
        given."""
        model = self.model
        follows = model.chooses_bias and model.two_sided_bias is None and self.objective.looks_ahead
        return dataclasses.replace(model, two_sided_bias=True) if follows else model

    @property
    def target_tokens(self) -> int | None:
        """Positions of the decoder in a row of an encoder–decoder; None: the model has one stack."""
        return target_tokens(self.row_objective, self.text_packing.row_tokens)

    @property
    def training_ranks(self) -> int:
        """The number of ranks of the training."""
        return self.cluster.world(self.ranks)

    @property
    def vocabulary(self) -> int:
        """The largest possible number of tokens, which is known before a tokenizer is trained.

        Raises:
            ConfigError: when a given tokenizer cannot be read.
        """
        return self.tokenizer.vocabulary(self.objective.special_tokens())

    @property
    def worker_processes(self) -> int:
        return self.workers or os.cpu_count() or 1


def decoded(values: Mapping[str, Any]) -> RunConfig:
    """Returns the checked configuration of plain ``values``.

    Raises:
        ConfigError: when a value is not valid, or two values contradict each other.
    """

    def remedy(path: str, fields: Sequence[str]) -> str:
        above, _, key = path.rpartition(".")
        if isinstance(chosen := values.get(above), Mapping) and (option := unchosen_option(above, key, chosen)):
            return f"choose the option: {above}={option}, or in a file `defaults: - override /{above}: {option}`"
        known = {*dotted(values), *(f"{above}.{field}" for field in fields)}
        nearest = key_remedy(path, known - {with_types(path, values)}, fields)
        if isinstance(chosen, Mapping) and is_of_other_option(above, key, chosen):
            return f"{nearest} ({above}={chosen['type']} has none; what an experiment sets, '~{path}' leaves out)"
        return nearest

    config = decode(RunConfig, values, key_remedy=remedy, runs_code=True)
    check(config)
    return config


def classifier_labels(config: RunConfig) -> list[str]:
    """Returns the labels whose probability filters and columns read from the classifier that the run trains."""
    filters = [label for rule in config.cleaning.filters for label in rule.run_labels]
    return [*filters, *(label for scorer in config.columns.scorers.values() for label in scorer.run_labels)]


def check(config: RunConfig) -> None:
    """Checks values of several groups against each other.

    Raises:
        ConfigError: with both values that contradict each other.
    """
    if config.packing.row_tokens > config.model.context:
        raise ConfigError(
            "packing.row_tokens",
            f"{config.packing.row_tokens} is longer than model.context = {config.model.context}",
            "make rows shorter or the context longer",
        )
    for label in classifier_labels(config):
        config.classifier.check_label(label)
    config.selection.check_columns({name: scorer.kind for name, scorer in config.columns.scorers.items()})
    config.row_objective.text_tokens(config.packing.row_tokens)
    if config.packing.method not in config.objective.packing_methods:
        methods = " or ".join(config.objective.packing_methods)
        problem = f"{config.packing.method} makes no rows for this objective ({config.objective.type})"
        raise ConfigError("packing.method", problem, f"give packing.method={methods}, or other objective settings")
    if config.packing.row_tokens <= config.objective.frame_tokens:
        problem = f"{config.packing.row_tokens} leaves no position for text: objective={config.objective.type} adds"
        problem += f" {config.objective.frame_tokens} tokens"
        raise ConfigError("packing.row_tokens", problem, "make rows longer")
    if config.model.stack not in config.objective.stacks:
        trained, stack = " or ".join(config.objective.stacks), config.model.stack
        others = ", ".join(kind.type for kind in OBJECTIVES.classes if stack in kind.stacks)
        raise ConfigError(
            "objective",
            f"{config.objective.type} trains a stack {trained}, and model.stack is {stack}",
            f"give a model of stack {trained}, or an objective that trains a stack {stack}: {others}",
        )
    if config.model.mixer != "attention" and config.objective.looks_ahead:
        problem = f"is {config.objective.type}, in which tokens see later ones, and model.mixer is {config.model.mixer}"
        raise ConfigError("objective", problem, "give objective=causal, or model.mixer=attention")
    if isinstance(config.objective, Demanding):
        config.objective.check_model(config.model)
    if config.training.unique_rows is not None and config.mixture.sources:
        problem = f"is {config.training.unique_rows}, with {len(config.mixture.sources)} sources in mixture.sources"
        raise ConfigError("training.unique_rows", problem, "give one of them: rows of this run alone are counted")
    if config.training.source_rows and not config.mixture.sources:
        problem = f"is {config.training.source_rows}, and mixture.sources names no source"
        raise ConfigError("training.source_rows", problem, "name the sources, or give 0")
    if config.model.base_width is not None and not config.optimizer.scales_with_width:
        problem = f"is {config.model.base_width}, whose rules are those of Adam, and optimizer={config.optimizer.type}"
        scaling = " or ".join(kind.type for kind in OPTIMIZERS.classes if kind.scales_with_width)
        raise ConfigError("model.base_width", problem, f"give optimizer={scaling}, or base_width null")


def check_training(config: RunConfig) -> None:
    """Checks the settings of a training that depend on the number of ranks, and its tokenizer if it is given.

    Raises:
        ConfigError: when a batch cannot be divided among the ranks, DeepSpeed does not support the settings, or the
            tokenizer has no sentences and the objective needs them.
    """
    if isinstance(config.objective, Demanding) and isinstance(config.tokenizer, GivenFile):
        config.objective.check_vocabulary(Vocabulary.of_tokenizer(config.objective, config.tokenizer.tokenizer()))
    deepspeed_config(plan_batches(config.training, config.training_ranks), config.training, config.zero)
    check_offload(config.zero, config.optimizer)
    positions = config.row_objective.lengths(config.text_packing.row_tokens)["inputs"]
    check_sequence_ranks(config.training, config.model, positions)
    check_recomputation(config.training, config.zero, config.model)

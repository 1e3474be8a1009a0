"""The beginning of every training: an engine over the prepared model, and the newest checkpoint.

weights: begins at step 0: nothing was saved before
weights: goes on from step 120, its newest checkpoint
weights: goes on from step 110, its newest whole checkpoint (passed over: …/step_00000120 has no manifest.json)
weights: goes on from step 600 of runs/weights/0b5c1f2e3d4a (training.branch_from)

Each start prints one of these lines. The first rank records it for the terminal, status and watch (core/work_log.py).

An objective may add modules to the model (``AddsModules``) that only its training needs: no export has them, and no
weights that others publish do.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from headrace.pipeline.core import work_log
from headrace.pipeline.core.metrics_file import METRICS
from headrace.train.checkpoint import store
from headrace.train.checkpoint.saver import Saver, newest_jointly
from headrace.train.checkpoint.state import State
from headrace.train.checkpoint.store import Newest
from headrace.train.distributed.processes import Ranks, on_first
from headrace.train.engine.engine import Engine
from headrace.train.engine.optimizers.base import Optimizer
from headrace.train.loop.pretraining import Pretraining
from headrace.train.model.execution import prepare
from headrace.train.model.initialization import first_weights, without_values
from headrace.train.model.transformer import Transformer
from headrace.train.objectives.base import AddsModules
from headrace.train.training_config import TrainingConfig, ZeroConfig


def empty_model(stage: Pretraining, vocabulary: int) -> Transformer:
    """Returns the model of ``stage`` on the meta device, with what only its training needs."""
    build = stage.objective.build if isinstance(stage.objective, AddsModules) else Transformer
    with without_values():
        return build(stage.model, vocabulary)


def first_values(stage: Pretraining, model: Transformer) -> Iterator[tuple[str, Tensor]]:
    """Yields name and first value of what only the training of ``model`` needs."""
    if isinstance(stage.objective, AddsModules):
        modules = stage.objective.training_modules
        weights = first_weights(model, stage.training.seed)
        yield from ((name, value) for name, value in weights if name.partition(".")[0] in modules)


def exported(
    stage: Pretraining, weights: Iterable[tuple[str, Tensor]], say: Callable[[str], None]
) -> Iterator[tuple[str, Tensor]]:
    """Yields the ``weights`` of an export, and calls ``say`` with a line for each module that it leaves out."""
    modules = stage.objective.training_modules if isinstance(stage.objective, AddsModules) else ()
    left_out = set[str]()
    for name, value in weights:
        module = name.partition(".")[0]
        if module not in modules:
            yield name, value
        elif module not in left_out:
            left_out.add(module)
            say(f"weights: the export leaves out {module}, which training alone needs")


def open_engine(
    model: nn.Module,
    optimizer: Optimizer,
    training: TrainingConfig,
    zero: ZeroConfig,
    ranks: Ranks,
    rate_factors: Mapping[str, float] | None = None,
) -> Engine:
    """Prepares ``model``, which is on the meta device, as ``training`` says, and spreads it over ``ranks``."""
    prepare(model, training, ranks.device.type)
    return Engine(model, optimizer, training, zero, ranks, rate_factors)


def newest_checkpoint(
    saver: Saver, data: Mapping[str, str], settings: Mapping[str, Any], rollback_every: int | None, ranks: Ranks
) -> Newest | None:
    """Returns the newest whole checkpoint of a training; None when nothing was saved.

    Raises:
        ArtifactError: when it is of other ``data``, or other ``settings`` (loop/branch.py); when there are checkpoints
            and all are damaged.
    """
    on_first(ranks, lambda: store.sweep(saver.folder))
    checkpoint = newest_jointly(saver.folder, rollback_every, ranks)
    if checkpoint:
        store.check_resumable(checkpoint.state, data, settings)
    return checkpoint


def announce(folder: Path, ranks: Ranks, line: str) -> None:
    """Prints the ``line`` of this start and records it, on the first rank."""
    if ranks.first:
        work_log.record_start(folder, line, torch.get_num_threads())


def first_line(folder: Path) -> str:
    """Returns the line of a start without a checkpoint; an earlier start may have left its curve in ``folder``."""
    curve = folder / METRICS
    if curve.is_file() and curve.stat().st_size:
        return f"begins at step 0: no checkpoint is there, and {METRICS} of an earlier start is replaced"
    return "begins at step 0: nothing was saved before"


def load_checkpoint(engine: Engine, path: Path, state: State) -> None:
    """Loads weights and optimizer state of the checkpoint at ``path``; all ranks call it."""
    engine.load(store.state_files(path))
    engine.resume_loss_scale(state.loss_scale)

"""The beginning of every training: an engine over the prepared model, and the newest checkpoint."""

from collections.abc import Mapping
from pathlib import Path

from torch import nn

from headrace.train.checkpoint import store, together
from headrace.train.checkpoint.saver import Saver
from headrace.train.checkpoint.state import State
from headrace.train.distributed.processes import Ranks, on_first
from headrace.train.engine.engine import Engine
from headrace.train.engine.optimizers.base import Optimizer
from headrace.train.model.execution import prepare
from headrace.train.training_config import TrainingConfig, ZeroConfig


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
    saver: Saver, data: dict[str, str], rollback_every: int | None, ranks: Ranks
) -> tuple[Path, State] | None:
    """Returns the newest whole checkpoint of a training and its state; None when there is none.

    Raises:
        ArtifactError: when it is of other ``data``.
    """
    on_first(ranks, lambda: store.sweep(saver.folder))
    found = together.newest(saver.folder, rollback_every, ranks)
    if found:
        store.check_resumable(found[1], data)
    return found


def load_checkpoint(engine: Engine, path: Path, state: State) -> None:
    """Loads weights and optimizer state of the checkpoint at ``path``; all ranks call it."""
    engine.load(store.state_files(path))
    engine.resume_loss_scale(state.loss_scale)

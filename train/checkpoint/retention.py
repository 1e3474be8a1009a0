"""Retention: which checkpoints are kept, and the removal of the others after each save."""

import dataclasses
from pathlib import Path

from headrace.train.checkpoint.names import checkpoints
from headrace.train.checkpoint.state import rollback_step
from headrace.train.checkpoint.store import remove


@dataclasses.dataclass(frozen=True)
class Keeping:
    """The settings of ``TrainingConfig`` that decide which checkpoints are kept."""

    keep_last: int
    keep_every: int | None = None
    spike_rollback_every: int | None = None


def prune(folder: Path, keeping: Keeping, last_step: int, best_step: int | None = None) -> None:
    """Removes checkpoints after that of ``last_step``, the last one that was committed, is whole.

    It keeps the newest ``keep_last``, those that a spike after them returns to, those of steps that are multiples of
    ``keep_every``, and that of ``best_step``. None after ``last_step`` is kept: the training was resumed from an
    earlier one because these are damaged or have an older format.
    """
    paths = checkpoints(folder)
    newest_steps = [step for step in paths if step <= last_step][-keeping.keep_last :]
    kept = {best_step, *newest_steps, *(rollback_step(step, keeping.spike_rollback_every) for step in newest_steps)}
    for step, path in paths.items():
        is_regular = keeping.keep_every is not None and step % keeping.keep_every == 0
        if step > last_step or not (step in kept or is_regular):
            remove(path)

"""Runs the trainings of a ladder one after the other, and skips those that are finished.

The state of a ladder is that of its runs. On a cluster a run is submitted, and what waits for its weights starts with a
later command.
"""

import dataclasses
from collections.abc import Sequence

from headrace.pipeline.configuration.composition import compose
from headrace.pipeline.core.errors import HeadraceError
from headrace.pipeline.core.metrics_file import metrics_path, read_metrics
from headrace.pipeline.experiments.arms import (
    DONE,
    NOT_STARTED,
    all_carried_out,
    all_checked,
    carried_out,
    state_of,
    step_of,
)
from headrace.pipeline.experiments.grid import BRANCH, Rung
from headrace.pipeline.experiments.optima import FinishedTraining
from headrace.pipeline.run.results import validation_loss

WAITS = "waits for its trunk"


@dataclasses.dataclass(frozen=True)
class LadderTraining:
    """A rung, and what became of it."""

    rung: Rung
    state: str
    loss: float | None = None
    """The last validation loss in nats per token; None before the end."""
    epochs: float = 0.0
    """Passes over the training rows."""

    @property
    def arm(self) -> FinishedTraining | None:
        """The finished training as the analysis reads it."""
        if self.loss is None:
            return None
        compute = self.rung.compute
        return FinishedTraining(compute.parameters, compute.tokens, self.rung.rate, compute.flops, self.loss)


def trainings(rungs: Sequence[Rung], starts: bool) -> tuple[list[LadderTraining], list[HeadraceError]]:
    """Returns what became of ``rungs``, and the errors of those that failed; the others are carried out all the same.

    Without ``starts`` nothing is trained.

    Raises:
        HeadraceError: when one could not start, naming it. Then none is started.
    """
    if starts:
        all_checked((rung, compose(rung.overrides), rung.overrides) for rung in rungs)
    blocked = set[tuple[str, float]]()

    def failed(rung: Rung, state: str) -> LadderTraining:
        blocked.add((rung.size, rung.rate))
        return LadderTraining(rung, state)

    return all_carried_out("ladder", rungs, starts, lambda rung: _training(rung, starts, blocked), failed)


def _training(rung: Rung, starts: bool, blocked: set[tuple[str, float]]) -> LadderTraining:
    """Carries out ``rung`` and the trunk before it, as far as possible now.

    Args:
        rung: the training.
        starts: whether missing runs are started.
        blocked: sizes and rates whose trunk is not trained up to here; a later part would train it a second time.
    """
    overrides = list(rung.overrides)
    if rung.trunk:
        chain = rung.size, rung.rate
        trunk = None if chain in blocked else carried_out(compose(rung.trunk), rung.trunk, starts)
        if trunk is None or not (weights := step_of(trunk, "weights")).is_whole:
            blocked.add(chain)
            return LadderTraining(rung, WAITS if starts else NOT_STARTED)
        overrides.append(f"{BRANCH}={weights.address}@{trunk.config.training.steps}")
    run = carried_out(compose(overrides), overrides, starts)
    if (state := state_of(run)) != DONE:
        return LadderTraining(rung, state)
    last = read_metrics(metrics_path(step_of(run, "weights").folder))[-1]
    return LadderTraining(rung, DONE, validation_loss(run.stages), float(last.get("epoch", 0.0)))

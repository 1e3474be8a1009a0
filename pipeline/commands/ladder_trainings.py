"""Carries out the trainings of a ladder: one run after the other, those that are finished not again.

The state of a ladder is that of its runs. On a cluster a run is submitted, and what waits for its weights starts with a
later command.
"""

import contextlib
import dataclasses
import sys
from collections.abc import Sequence

from headrace.pipeline.commands.request import planned
from headrace.pipeline.composition import compose
from headrace.pipeline.core.errors import HeadraceError
from headrace.pipeline.core.metrics_file import read_metrics
from headrace.pipeline.ladder.grid import BRANCH, Rung
from headrace.pipeline.ladder.optima import Arm
from headrace.pipeline.run.line import carry_out
from headrace.pipeline.run.planner import Run, run_folder
from headrace.pipeline.run.results import validation_loss
from headrace.pipeline.run.run_files import RUN_JSON
from headrace.pipeline.run.step import Step

NOT_STARTED, WAITS, STARTED, DONE = "not started", "waits for its trunk", "started", "done"


@dataclasses.dataclass(frozen=True)
class Training:
    """A rung, and what became of it."""

    rung: Rung
    state: str
    loss: float | None = None
    """The last validation loss in nats per token; None before the end."""
    epochs: float = 0.0
    """Passes over the training rows."""

    @property
    def arm(self) -> Arm | None:
        """The finished training as the analysis reads it."""
        if self.loss is None:
            return None
        compute = self.rung.compute
        return Arm(compute.parameters, compute.tokens, self.rung.rate, compute.flops, self.loss)


def trainings(rungs: Sequence[Rung], starts: bool) -> tuple[list[Training], list[HeadraceError]]:
    """Returns what became of ``rungs``, and the errors of those that failed; the others are carried out all the same.

    Without ``starts`` nothing is trained.
    """
    found: list[Training] = []
    errors: list[HeadraceError] = []
    blocked = set[tuple[str, float]]()
    for number, rung in enumerate(rungs):
        if starts:
            print(f"ladder: {number + 1} of {len(rungs)}: {rung}", file=sys.stderr, flush=True)
        try:
            found.append(_training(rung, starts, blocked))
        except HeadraceError as error:
            errors.append(error)
            found.append(Training(rung, f"failed: {error}"))
            blocked.add((rung.size, rung.rate))
    return found, errors


def _training(rung: Rung, starts: bool, blocked: set[tuple[str, float]]) -> Training:
    """Carries out ``rung`` and the trunk before it, as far as possible now.

    Args:
        rung: the training.
        starts: whether missing runs are started.
        blocked: sizes and rates whose trunk is not trained up to here; a later part would train it a second time.
    """
    overrides = list(rung.overrides)
    if rung.trunk:
        chain = rung.size, rung.rate
        trunk = None if chain in blocked else _carried_out(rung.trunk, starts)
        if trunk is None or not (weights := _weights(trunk)).is_whole:
            blocked.add(chain)
            return Training(rung, WAITS if starts else NOT_STARTED)
        overrides.append(f"{BRANCH}={weights.address}@{trunk.config.training.steps}")
    run = _carried_out(overrides, starts)
    weights = _weights(run)
    if not weights.is_whole:
        return Training(rung, STARTED if (run_folder(run.config) / RUN_JSON).is_file() else NOT_STARTED)
    last = read_metrics(weights.folder / "metrics.jsonl")[-1]
    return Training(rung, DONE, validation_loss(run.steps), float(last.get("epoch", 0.0)))


def _carried_out(overrides: Sequence[str], starts: bool) -> Run:
    """Plans the run of ``overrides``, and carries it out unless that was done before."""
    run = planned(compose(overrides), overrides)
    is_done = _weights(run).is_whole and (run_folder(run.config) / RUN_JSON).is_file()
    if starts and not is_done:
        with contextlib.redirect_stdout(sys.stderr):
            carry_out(run)
    return run


def _weights(run: Run) -> Step:
    return next(step for step in run.steps if step.name == "weights")

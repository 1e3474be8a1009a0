"""The loop: load, update, evaluate, log, validate, save, stop, in the order in which they happen.

The rows, the learning rate and the random numbers of a step are functions of ``State``. So a training resumes when the
loop starts with the state of a checkpoint.
"""

import dataclasses
import time
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from torch import Tensor

from headrace.pipeline.core.progress import Progress
from headrace.pipeline.tracking.tracker import Tracker
from headrace.train.checkpoint.saver import Saver
from headrace.train.checkpoint.state import State
from headrace.train.data.batches import Prefetch, Tensors, to_device
from headrace.train.data.order import RowOrder, share
from headrace.train.distributed.processes import StopRequest, stopped, total
from headrace.train.distributed.watchdog import Watchdog
from headrace.train.engine.engine import Engine
from headrace.train.engine.optimizers.base import Optimizer
from headrace.train.engine.zero import micro_batch_rows
from headrace.train.loop.loss_guard import LossGuard
from headrace.train.loop.schedule import Schedule
from headrace.train.loop.speed import Meter, Stragglers
from headrace.train.loop.validation import CheckpointSelection, InLoopEvaluation, TrainingValidation, losses, total_of
from headrace.train.model import dropout
from headrace.train.objectives.base import Terms, combined
from headrace.train.objectives.row_reader import MicroBatch
from headrace.train.training_config import TrainingConfig


class RowReader(Protocol):
    """Reads rows as the objective wants them, a pure function of their numbers and of their position."""

    def read(self, rows: Any, numbers: Sequence[int], first_position: int, least_rows: int = 1) -> MicroBatch:
        """Returns the rows ``numbers``, the first of which has ``first_position`` in the training; see ``Reader``."""
        ...


@dataclasses.dataclass(frozen=True)
class TrainerParts:
    """The parts that the loop works with."""

    engine: Engine
    objective: Terms
    training: TrainingConfig
    optimizer: Optimizer
    schedule: Schedule
    reader: RowReader
    train_rows: Any
    """The rows that ``reader`` reads."""
    order: RowOrder
    validation: TrainingValidation
    meter: Meter
    stragglers: Stragglers
    saver: Saver
    watchdog: Watchdog
    evaluation: InLoopEvaluation | None = None
    """The benchmarks of ``training.evaluate_every``."""
    stage: str = "weights"
    """The name of the stage, for messages."""
    selection: CheckpointSelection | None = None
    """The choice of the best checkpoint; None: the last one is the result."""

    def is_over(self, state: State) -> bool:
        """Whether no update follows ``state``."""
        return state.step >= self.training.steps or (self.selection is not None and self.selection.ends(state))


@dataclasses.dataclass(frozen=True)
class Update:
    """This rank's part of an update."""

    batches: Sequence[Tensors]
    """The micro-batches."""
    row_keys: Sequence[Tensor]
    """The keys of their rows, which decide what dropout drops."""
    counts: Mapping[str, int]
    """The count of each term of the loss."""
    tokens: int
    """Tokens of text, without padding."""


@dataclasses.dataclass(frozen=True)
class Totals:
    """Sums over all ranks that are known before an update."""

    tokens: int
    counts: Mapping[str, float]
    """The count of each term of the loss."""
    stops: bool
    """Whether any rank was asked to stop."""
    failures: bool
    """Whether a checkpoint could not be saved."""


@dataclasses.dataclass(frozen=True)
class Result:
    """The result of an update, the same on all ranks."""

    sums: Mapping[str, float]
    """The sum of each term of the loss over the global batch."""
    loss: float | None
    """None when no row has a target."""
    learning_rate: float
    gradient_norm: float | None
    """None when the gradient overflowed in fp16, and no update was made."""


def train(
    job: TrainerParts, state: State, tracker: Tracker | None, progress: Progress | None, stop: StopRequest
) -> State:
    """Trains from ``state`` to the last step; ``tracker`` and ``progress`` are rank 0's.

    Raises:
        RetryableError: when any rank was asked to stop, after a checkpoint of the last whole step; when a checkpoint
            could not be saved.
        TaskError: when the loss is not finite.
    """
    training, ranks = job.training, job.engine.ranks
    guard = LossGuard(training, ranks.first, job.stage)
    saved_step = state.step
    speed: dict[str, int] = {}
    ahead = Prefetch[tuple[int, int], Update](lambda position: load(job, *position))
    while not job.is_over(state):
        job.meter.start()
        is_last = state.step + 1 == training.steps
        following = state.step + 1, state.rows_seen + training.rows_at(state.step)
        update = ahead.take((state.step, state.rows_seen), None if is_last else following)
        totals = totals_of(job, update, stop)
        if totals.failures:
            job.saver.wait()
        if totals.stops:
            job.watchdog.updated(state.step)
            if state.step > saved_step:
                save(job, state, tracker)
            job.saver.wait()
            raise stopped(job.stage, f"at step {state.step}")

        state, result = apply(job, guard, state, update, totals)
        job.watchdog.updated(state.step)
        job.meter.stop(totals.tokens, ahead.waited_seconds)
        if progress:
            progress.advance(1, **({} if result.loss is None else {"loss": result.loss}), **speed)

        if job.evaluation is not None and training.evaluates_at(state.step):
            scores = job.evaluation.scores(state.step)
            if tracker:
                tracker.log_scores(state.step, scores)
        values: dict[str, float] = {}
        if is_last or state.step % training.log_every == 0:
            values |= metrics(job, guard, state, totals, result)
            speed = {"tokens/s": round(values["tokens_per_second"])}
        if is_last or state.step % training.validate_every == 0:
            validated = job.validation.values()
            values |= validated
            if job.selection is not None:
                state = job.selection.noted(state, validated)
        if tracker and values:
            tracker.log(state.step, values)
        if training.saves_at(state.step):
            save(job, state, tracker)
            saved_step = state.step
        job.watchdog.beat(state.step)
    job.saver.wait()
    return state


def totals_of(job: TrainerParts, update: Update, stop: StopRequest) -> Totals:
    """Sums ``update`` over all ranks, which also agree on whether to stop."""
    names, is_counted = list(job.objective.weights), job.engine.plan.counts_rows(job.engine.ranks.rank)
    counts_of_rows = (update.counts[name] * is_counted for name in names)
    values = [update.tokens * is_counted, stop.asked, job.saver.failed, *counts_of_rows]
    begun = time.perf_counter()
    tokens, stops, failures, *counts = total(job.engine.ranks, values)
    job.stragglers.updated(time.perf_counter() - begun)
    return Totals(int(tokens), dict(zip(names, counts, strict=True)), stops > 0, failures > 0)


def apply(job: TrainerParts, guard: LossGuard, state: State, update: Update, totals: Totals) -> tuple[State, Result]:
    """Applies ``update`` and returns the state after it; a loss spike is skipped and may restore older weights.

    Without a target on any rank there is no gradient, and no update: it would only decay the weights.

    Raises:
        TaskError: when the loss is not finite.
    """
    training, objective = job.training, job.objective
    rows = training.rows_at(state.step)
    learning_rate = job.optimizer.learning_rate * job.schedule.factor(state.step, training.steps)
    if not any(totals.counts.values()):
        state = guard.noted_without_targets(state.after(rows, totals.tokens))
        return state, Result({}, None, learning_rate, gradient_norm=0.0)
    sums = total_of(job.engine.ranks, job.engine.gradient(objective, update.batches, totals.counts, update.row_keys))
    loss = combined(objective.weights, sums, totals.counts)
    is_spike = guard.is_spike(state, loss)
    gradient_norm = job.engine.step(learning_rate, not is_spike, job.stage)
    state = guard.noted(state.after(rows, totals.tokens), loss, is_spike)
    state = dataclasses.replace(state, loss_scale=job.engine.loss_scale)
    if is_spike and (kept_step := guard.back_to(state.step)):
        job.watchdog.updated(state.step)
        job.engine.load(job.saver.saved(kept_step))
    return state, Result(sums, loss, learning_rate, gradient_norm)


def metrics(job: TrainerParts, guard: LossGuard, state: State, totals: Totals, result: Result) -> dict[str, float]:
    """Returns one row of the log: losses, learning rate, gradient norm, speed, skipped steps, tokens and epochs."""
    values = losses(job.objective, "loss", result.sums, totals.counts)
    norm = {} if result.gradient_norm is None else {"gradient_norm": result.gradient_norm}
    values |= {"learning_rate": result.learning_rate, **norm, **job.meter.read()}
    values |= job.stragglers.read()
    if state.loss_scale is not None:
        values |= {"loss_scale": state.loss_scale.factor, "overflows": state.loss_scale.overflows}
    return values | guard.metrics(state) | {"tokens_seen": state.tokens_seen, **job.order.epochs(state.rows_seen)}


def save(job: TrainerParts, state: State, tracker: Tracker | None) -> None:
    """Starts a checkpoint of ``state``, after the metrics up to it are on the disk."""
    if tracker:
        state = dataclasses.replace(state, curve=tracker.flush())
    job.saver.begin(state, job.engine)


def load(job: TrainerParts, step: int, rows_seen: int) -> Update:
    """Reads this rank's micro-batches of the update after ``step`` updates of ``rows_seen`` rows."""
    ranks, plan = job.engine.ranks, job.engine.plan
    group = plan.group(ranks.rank)
    numbers = share(job.order.batch(rows_seen, job.training.rows_at(step)), group, plan.groups).tolist()
    micro_rows = micro_batch_rows(job.training, len(numbers))
    first = rows_seen + group * len(numbers)
    starts = range(0, len(numbers), micro_rows)
    parts = [job.reader.read(job.train_rows, numbers[start : start + micro_rows], first + start) for start in starts]
    positions = (range(first + start, first + start + micro_rows) for start in starts)
    row_keys = [dropout.row_keys(job.training.seed, rows, ranks.device) for rows in positions]
    counts_of_parts = [job.objective.counts(part.arrays) for part in parts]
    counts = {name: sum(part[name] for part in counts_of_parts) for name in job.objective.weights}
    batches = [to_device(part.arrays, ranks.device) for part in parts]
    return Update(batches, row_keys, counts, sum(part.tokens for part in parts))

"""The loop: load, update, evaluate, log, validate, save, stop, in the order in which they happen.

The rows, the learning rate and the random numbers of a step are functions of ``State``. So a training resumes when the
loop starts with the state of a checkpoint.
"""

import dataclasses
import hashlib
import time
from collections.abc import Mapping, Sequence

import numpy as np
import torch
from numpy.typing import NDArray

from headrace.pipeline.core.progress import Progress
from headrace.pipeline.core.tracker import Tracker
from headrace.train.checkpoint.saver import Saver
from headrace.train.checkpoint.state import State
from headrace.train.data.batches import Tensors, to_device
from headrace.train.data.order import RowOrder, share
from headrace.train.data.prefetch import Prefetch
from headrace.train.data.rows import MixedRows, Rows
from headrace.train.distributed.processes import Ranks, StopRequest, stopped, total
from headrace.train.distributed.watchdog import Watchdog
from headrace.train.engine.engine import Engine
from headrace.train.engine.optimizers.base import Optimizer
from headrace.train.engine.zero import micro_batch_rows
from headrace.train.loop.in_loop_evaluation import InLoopEvaluation
from headrace.train.loop.loss_guard import LossGuard
from headrace.train.loop.schedule import Schedule
from headrace.train.loop.stragglers import Stragglers
from headrace.train.loop.throughput import Meter
from headrace.train.objectives.base import Objective, Reader, combined
from headrace.train.objectives.bits_per_byte import bits_per_byte
from headrace.train.training_config import TrainingConfig


@dataclasses.dataclass(frozen=True)
class Job:
    """The parts that the loop works with."""

    engine: Engine
    objective: Objective
    training: TrainingConfig
    optimizer: Optimizer
    schedule: Schedule
    reader: Reader
    validation_reader: Reader
    train_rows: Rows | MixedRows
    order: RowOrder
    seen_rows: Sequence[int]
    """Numbers of the training rows whose loss is computed with that of held-out rows."""
    validation_rows: Rows
    token_bytes: NDArray[np.int64] | None
    """UTF-8 bytes of each token, (vocabulary,); None if they differ from text to text."""
    meter: Meter
    stragglers: Stragglers
    saver: Saver
    watchdog: Watchdog
    evaluation: InLoopEvaluation


@dataclasses.dataclass(frozen=True)
class Update:
    """This rank's part of an update."""

    batches: Sequence[Tensors]
    """The micro-batches."""
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


def train(job: Job, state: State, tracker: Tracker | None, progress: Progress | None, stop: StopRequest) -> State:
    """Trains from ``state`` to the last step; ``tracker`` and ``progress`` are rank 0's.

    Raises:
        RetryableError: when any rank was asked to stop, after a checkpoint of the last whole step; when a checkpoint
            could not be saved.
        TaskError: when the loss is not finite.
    """
    training, ranks = job.training, job.engine.ranks
    guard = LossGuard.of(training, ranks.first)
    saved_step = state.step
    speed: dict[str, int] = {}
    ahead = Prefetch[tuple[int, int], Update](lambda position: load(job, *position))
    while state.step < training.steps:
        job.meter.start()
        torch.manual_seed(random_seed(training.seed, state.step, ranks.rank))
        is_last = state.step + 1 == training.steps
        following = state.step + 1, state.rows_seen + training.rows_at(state.step)
        update = ahead.take((state.step, state.rows_seen), None if is_last else following)
        totals = totals_of(job, update, stop)
        if totals.failures:
            job.saver.wait()
        if totals.stops:
            if state.step > saved_step:
                save(job, state, tracker)
            job.saver.wait()
            raise stopped("weights", f"at step {state.step}")

        state, result = apply(job, guard, state, update, totals)
        job.meter.stop(totals.tokens, ahead.waited_seconds)
        if progress:
            progress.advance(1, **({} if result.loss is None else {"loss": result.loss}), **speed)

        if training.evaluates_at(state.step):
            scores = job.evaluation.scores(state.step)
            if tracker:
                tracker.log_scores(state.step, scores)
        values: dict[str, float] = {}
        if is_last or state.step % training.log_every == 0:
            values |= metrics(job, guard, state, totals, result)
            speed = {"tokens/s": round(values["tokens_per_second"])}
        if is_last or state.step % training.validate_every == 0:
            values |= validate(job)
        if tracker and values:
            tracker.log(state.step, values)
        if training.saves_at(state.step):
            save(job, state, tracker)
            saved_step = state.step
        job.watchdog.beat(state.step)
    job.saver.wait()
    return state


def totals_of(job: Job, update: Update, stop: StopRequest) -> Totals:
    """Sums ``update`` over all ranks, which also agree on whether to stop."""
    names, is_counted = list(job.objective.weights), job.engine.plan.counts_rows(job.engine.ranks.rank)
    counts_of_rows = (update.counts[name] * is_counted for name in names)
    own = [update.tokens * is_counted, stop.asked, job.saver.failed, *counts_of_rows]
    begun = time.perf_counter()
    tokens, stops, failures, *counts = total(job.engine.ranks, own)
    job.stragglers.updated(time.perf_counter() - begun)
    return Totals(int(tokens), dict(zip(names, counts, strict=True)), stops > 0, failures > 0)


def apply(job: Job, guard: LossGuard, state: State, update: Update, totals: Totals) -> tuple[State, Result]:
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
    sums = total_of(job.engine.ranks, job.engine.gradient(objective, update.batches, totals.counts))
    loss = combined(objective.weights, sums, totals.counts)
    is_spike = guard.is_spike(state, loss)
    gradient_norm = job.engine.step(learning_rate, applied=not is_spike)
    state = guard.noted(state.after(rows, totals.tokens), loss, is_spike)
    state = dataclasses.replace(state, loss_scale=job.engine.loss_scale)
    if is_spike and (kept_step := guard.back_to(state.step)):
        job.engine.load(job.saver.saved(kept_step))
    return state, Result(sums, loss, learning_rate, gradient_norm)


def metrics(job: Job, guard: LossGuard, state: State, totals: Totals, result: Result) -> dict[str, float]:
    """Returns one row of the log: losses, learning rate, gradient norm, speed, skipped steps, tokens and epochs."""
    values = losses(job.objective, "loss", result.sums, totals.counts)
    norm = {} if result.gradient_norm is None else {"gradient_norm": result.gradient_norm}
    values |= {"learning_rate": result.learning_rate, **norm, **job.meter.read()}
    values |= job.stragglers.read()
    if state.loss_scale is not None:
        values |= {"loss_scale": state.loss_scale.factor, "overflows": state.loss_scale.overflows}
    return values | guard.metrics(state) | {"tokens_seen": state.tokens_seen, **job.order.epochs(state.rows_seen)}


def save(job: Job, state: State, tracker: Tracker | None) -> None:
    """Starts a checkpoint of ``state``, after the metrics up to it are on the disk."""
    if tracker:
        state = dataclasses.replace(state, curve=tracker.flush())
    job.saver.begin(state, job.engine)


def validate(job: Job) -> dict[str, float]:
    """Returns loss and bits per byte of the first ``validation_rows`` held-out rows; nothing when none is held out.

    With ``training.seen_rows`` also the loss of rows that were trained on, and how much higher the validation loss is.
    """
    rows = min(len(job.validation_rows), job.training.validation_rows)
    sums, counts, text_bytes = evaluated(job, job.validation_rows, range(rows))
    values = losses(job.objective, "validation_loss", sums, counts)
    if any(text_bytes.values()):
        nll_nats = sum(sums[name] for name in text_bytes)
        values["bits_per_byte"] = bits_per_byte(nll_nats, sum(text_bytes.values()))
    sums, counts, _ = evaluated(job, job.train_rows, job.seen_rows)
    values |= losses(job.objective, "seen_loss", sums, counts)
    if "seen_loss" in values and "validation_loss" in values:
        values["loss_gap"] = values["validation_loss"] - values["seen_loss"]
    return values


Sums = dict[str, float]


def evaluated(job: Job, rows: Rows | MixedRows, numbers: Sequence[int]) -> tuple[Sums, Sums, Sums]:
    """Returns sum, count and UTF-8 bytes of each term of the loss over the rows ``numbers``, on all ranks.

    The model is in evaluation mode. Random numbers of the objective depend on the index in ``numbers`` alone. Bytes are
    those of held-out rows.
    """
    ranks, plan, reader = job.engine.ranks, job.engine.plan, job.validation_reader
    micro_rows, is_counted = plan.micro_rows, plan.counts_rows(ranks.rank)
    sums, counts, text_bytes = Sums(), Sums(), Sums()
    if not numbers:
        return sums, counts, text_bytes
    for start in range(0, len(numbers), micro_rows * plan.groups):
        first = start + plan.group(ranks.rank) * micro_rows
        # Padding fills the last batches: all ranks evaluate equally often, and compiled layers see one shape.
        own = numbers[first : first + micro_rows]
        part = reader.read(rows, own, first, micro_rows)
        add(sums, job.engine.evaluate(job.objective, to_device(part.arrays, ranks.device)))
        add(counts, part.counts, is_counted)
        if rows is job.validation_rows:
            target_bytes_BT = job.validation_rows.target_bytes(own, job.token_bytes, micro_rows)
            if target_bytes_BT is not None:
                add(text_bytes, job.objective.text_bytes(part.arrays, target_bytes_BT), is_counted)
    return total_of(ranks, sums), total_of(ranks, counts), total_of(ranks, text_bytes)


def losses(
    objective: Objective, metric: str, sums: Mapping[str, float], counts: Mapping[str, float]
) -> dict[str, float]:
    """Returns the loss under the name ``metric`` and, of several terms, the mean of each as ``metric:term``.

    Without a single value there is no loss: 0 would look like a perfect one.
    """
    if not any(counts.values()):
        return {}
    found = {metric: combined(objective.weights, sums, counts)}
    if len(objective.weights) > 1:
        found |= {f"{metric}:{name}": sums[name] / counts[name] for name in objective.weights if counts[name]}
    return found


def load(job: Job, step: int, rows_seen: int) -> Update:
    """Reads this rank's micro-batches of the update after ``step`` updates of ``rows_seen`` rows."""
    ranks, plan = job.engine.ranks, job.engine.plan
    group = plan.group(ranks.rank)
    numbers = share(job.order.batch(rows_seen, job.training.rows_at(step)), group, plan.groups).tolist()
    micro_rows = micro_batch_rows(job.training, len(numbers))
    first = rows_seen + group * len(numbers)
    parts = [
        job.reader.read(job.train_rows, numbers[start : start + micro_rows], first + start)
        for start in range(0, len(numbers), micro_rows)
    ]
    counts = {name: sum(part.counts[name] for part in parts) for name in job.objective.weights}
    batches = [to_device(part.arrays, ranks.device) for part in parts]
    return Update(batches, counts, sum(part.tokens for part in parts))


def add(sums: dict[str, float], values: Mapping[str, float], is_counted: bool = True) -> None:
    """Adds each of ``values``, if it ``is_counted``, to the sum of its name."""
    for name, value in values.items():
        sums[name] = sums.get(name, 0.0) + value * is_counted


def total_of(ranks: Ranks, values: Mapping[str, float]) -> dict[str, float]:
    """Returns each of ``values``, whose names are the same on all ranks, summed over them."""
    names = sorted(values)
    return dict(zip(names, total(ranks, [values[name] for name in names]), strict=True))


def random_seed(seed: int, step: int, rank: int) -> int:
    """Returns the seed of torch's generator for one rank in one step: dropout needs no saved state."""
    return int.from_bytes(hashlib.sha256(f"{seed}:{step}:{rank}".encode()).digest()[:8], "big") >> 1

"""The loop: load, update, evaluate, log, validate, save, stop, in the order in which they happen.

Everything that a step needs is a function of where training stands (``State``): which rows, which learning rate, which
random numbers. So going on after a stop is entering the loop with the state of a checkpoint.
"""

import dataclasses
import hashlib
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from headrace.pipeline.core.progress import Progress
from headrace.pipeline.core.tracker import Tracker
from headrace.train.checkpoint.saver import Saver
from headrace.train.checkpoint.state import State
from headrace.train.config import TrainingConfig
from headrace.train.data.apportionment import MixedOrder
from headrace.train.data.order import Order, share
from headrace.train.data.prefetch import Prefetch
from headrace.train.data.rows import IGNORED, Batch, MixedRows, Rows
from headrace.train.distributed.processes import StopRequest, stopped, total
from headrace.train.distributed.watchdog import Watchdog
from headrace.train.engine.engine import Engine
from headrace.train.engine.optimizers import Optimizer
from headrace.train.loop.examination import Examination
from headrace.train.loop.loss_guard import LossGuard
from headrace.train.loop.schedule import Schedule
from headrace.train.loop.throughput import Meter
from headrace.train.objectives.bits_per_byte import bits_per_byte, targets_bytes
from headrace.train.objectives.causal import DeviceBatch, nll


@dataclasses.dataclass(frozen=True)
class Job:
    """What the loop works with."""

    engine: Engine
    training: TrainingConfig
    optimizer: Optimizer
    schedule: Schedule
    train_rows: Rows | MixedRows
    order: Order | MixedOrder
    validation_rows: Rows
    token_bytes: Tensor
    """UTF-8 bytes of each token, (vocabulary,) int64 on the device."""
    meter: Meter
    saver: Saver
    watchdog: Watchdog
    examination: Examination


def train(job: Job, state: State, tracker: Tracker | None, progress: Progress | None, stop: StopRequest) -> State:
    """Go on from ``state`` to the last step; ``tracker`` and ``progress`` are rank 0's.

    Raises:
        RetryableError: when any rank was asked to stop, a checkpoint of the last whole step lying there; when one could
            not be saved.
        TaskError: when the loss is not finite.
    """
    training, ranks = job.training, job.engine.ranks
    guard = LossGuard.of(training, ranks.first)
    saved_step = state.step
    ahead = Prefetch(lambda rows_seen: load(job, rows_seen))
    while state.step < training.steps:
        job.meter.start()
        torch.manual_seed(random_seed(training.seed, state.step, ranks.rank))
        is_last = state.step + 1 == training.steps
        following = None if is_last else state.rows_seen + training.batch_rows
        batches, own_targets = ahead.take(state.rows_seen, following)
        targets, stops, failures = total(ranks, [own_targets, stop.asked, job.saver.failed])
        if failures:
            job.saver.wait()
        if stops:
            if state.step > saved_step:
                save(job, state, tracker)
            job.saver.wait()
            raise stopped("weights", f"at step {state.step}")

        learning_rate = job.optimizer.learning_rate * job.schedule.factor(state.step, training.steps)
        loss = total(ranks, [job.engine.gradient(nll, batches, targets)])[0] / targets
        is_spike = guard.is_spike(state, loss)
        gradient_norm = job.engine.step(learning_rate, applied=not is_spike)
        state = guard.noted(state.after(training.batch_rows, int(targets)), loss, is_spike)
        if is_spike and (kept_step := guard.back_to(state.step)):
            job.engine.load(job.saver.saved(kept_step))
        job.meter.stop(targets, ahead.waited_seconds)
        if progress:
            progress.advance(1, loss=loss)

        if training.evaluates_at(state.step):
            scores = job.examination.scores(state.step)
            if tracker:
                tracker.log_scores(state.step, scores)
        values: dict[str, float] = {}
        if is_last or state.step % training.log_every == 0:
            values = {"loss": loss, "learning_rate": learning_rate, "gradient_norm": gradient_norm, **job.meter.read()}
            values |= guard.metrics(state) | {"tokens_seen": state.tokens_seen, **job.order.epochs(state.rows_seen)}
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


def save(job: Job, state: State, tracker: Tracker | None) -> None:
    """Begin a checkpoint of ``state``, once the curve up to it is on the disk."""
    if tracker:
        state = dataclasses.replace(state, curve=tracker.settle())
    job.saver.begin(state, job.engine)


def validate(job: Job) -> dict[str, float]:
    """Loss and bits per byte of the first ``validation_rows`` held-out rows; nothing when no row is held out."""
    ranks, micro_rows = job.engine.ranks, job.engine.plan.micro_rows
    rows = min(len(job.validation_rows), job.training.validation_rows)
    if not rows:
        return {}
    sums = np.zeros(3)
    for start in range(0, rows, micro_rows * ranks.world):
        first = start + ranks.rank * micro_rows
        numbers = np.arange(first, min(first + micro_rows, rows))
        arrays = job.validation_rows.batch(numbers if len(numbers) else np.zeros(1, np.int64))
        batch = DeviceBatch.of(arrays, ranks.device)
        batch = batch if len(numbers) else batch.silent()
        text_bytes = float(targets_bytes(batch.targets, job.token_bytes))
        sums += job.engine.evaluate(nll, batch), count_targets([batch]), text_bytes
    nll_nats, targets, text_bytes = total(ranks, sums.tolist())
    return {"validation_loss": nll_nats / targets, "bits_per_byte": bits_per_byte(nll_nats, text_bytes)}


def load(job: Job, rows_seen: int) -> tuple[list[DeviceBatch], int]:
    """This rank's micro-batches of the update that follows ``rows_seen`` rows, and the number of their targets."""
    ranks, accumulation = job.engine.ranks, job.engine.plan.accumulation
    numbers = share(job.order.batch(rows_seen, job.training.batch_rows), ranks.rank, ranks.world)
    parts = [job.train_rows.batch(part) for part in np.split(numbers, accumulation)]
    return [DeviceBatch.of(part, ranks.device) for part in parts], count_targets(parts)


def count_targets(batches: Sequence[Batch | DeviceBatch]) -> int:
    return sum(int((batch.targets != IGNORED).sum()) for batch in batches)


def random_seed(seed: int, step: int, rank: int) -> int:
    """Of torch's generator for one rank in one step: dropout needs no state to be saved."""
    return int.from_bytes(hashlib.sha256(f"{seed}:{step}:{rank}".encode()).digest()[:8], "big") >> 1

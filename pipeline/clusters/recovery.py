"""Decides what happens after an attempt at a distributed stage has failed: another attempt, or the end of the job.

    exit status, error report, checkpoint before and after, attempts, out of time ── decide ──> Decision

After an attempt that saved a checkpoint there may always be another. Without a new checkpoint their number is limited.
The decision is the same on every cluster. Each cluster starts a job again in its own way (SLURM: slurm_job.py).
"""

import contextlib
import dataclasses
from collections.abc import Callable
from pathlib import Path

from headrace.pipeline.core import work_log
from headrace.pipeline.core.errors import HeadraceError, RetryableError
from headrace.train.checkpoint.names import CHECKPOINTS, checkpoints

START = "the start"
"""The name of the checkpoint of an attempt that began without one, in messages."""
NO_CHECKPOINT = "none"
"""The same in the record of attempts."""

RECORD = "logs/attempts"
"""Below the artifact's folder: ``JOB CHECKPOINT RESTARTS``, as of the job's first attempt from this checkpoint."""


@dataclasses.dataclass(frozen=True)
class EndedAttempt:
    """An attempt at a distributed stage that has ended."""

    stage: str
    status: int
    """The exit status of the launcher, as shells give it: 128 + number when a signal ended it."""
    reported: HeadraceError | None
    """The error that a rank left in logs/error.json."""
    out_of_time: bool
    """Whether the job was near its time limit."""
    before: str
    """The newest checkpoint when the attempt began; empty when there was none."""
    after: str
    """The newest checkpoint when the attempt ended."""
    number: int
    """The number of the attempt, counted from 1, among those of its job from the same checkpoint."""
    limit: int
    """The highest number of such attempts."""


@dataclasses.dataclass(frozen=True)
class Decision:
    """The next step after an attempt, and its message."""

    again: bool
    message: str = ""
    """Empty when the error of the ranks is enough."""


def attempt(
    stage: str, folder: Path, job: str, restarts: int, limit: int, start: Callable[[str], tuple[int, bool]]
) -> tuple[EndedAttempt, Decision]:
    """Has one attempt at ``stage`` made by ``start``, and decides whether another follows.

    Args:
        stage: the distributed stage.
        folder: its artifact's.
        job: the job whose attempts count.
        restarts: the number of its attempts before this one.
        limit: see ``EndedAttempt.limit``.
        start: runs the ranks, given the name of the checkpoint that they begin from. It returns their exit status, and
            whether their time was nearly over.
    """
    (folder / "logs").mkdir(parents=True, exist_ok=True)
    work_log.clear_error(folder)
    before = newest_checkpoint(folder)
    number = number_of_attempt(folder, job, before, restarts)
    status, out_of_time = start(before or START)
    reported, after = work_log.error_of(folder), newest_checkpoint(folder)
    ended = EndedAttempt(stage, status, reported, out_of_time, before, after, number, limit)
    return ended, decide(ended)


def reason(ended: EndedAttempt, decision: Decision) -> str:
    """Returns why no other attempt follows, for a notice."""
    return decision.message or str(ended.reported or f"{ended.stage} ended early (status {ended.status})")


def decide(attempt: EndedAttempt) -> Decision:
    """Decides whether there is another attempt after ``attempt``."""
    if attempt.status == 0 or not may_pass(attempt):
        return Decision(again=False)
    early, start = f"{attempt.stage} ended early (status {attempt.status})", attempt.after or START
    if attempt.after != attempt.before:
        return Decision(True, f"{early} after {start}: back into the queue")
    if attempt.out_of_time:
        remedy = "raise cluster.train_time or save more often"
        return Decision(False, f"{attempt.stage} saved no checkpoint within its time limit: {remedy}")
    if attempt.number < attempt.limit:
        number = f"attempt {attempt.number} of {attempt.limit} from {start}"
        return Decision(True, f"{early}, {number}: back into the queue")
    attempts = f"{attempt.number} attempts from {start} saved no checkpoint"
    return Decision(False, f"{attempt.stage} stays out of the queue: {attempts}")


def may_pass(attempt: EndedAttempt) -> bool:
    """Whether the reason of the failure may pass. The reported error decides. Without one the exit status does: a rank
    asked for another attempt, or a signal ended it."""
    if attempt.reported:
        return isinstance(attempt.reported, RetryableError)
    return attempt.out_of_time or attempt.status == RetryableError.exit_status or attempt.status >= 128


def newest_checkpoint(folder: Path) -> str:
    """The name of the newest checkpoint; empty when there is none. Checkpoints that are being written do not count."""
    paths = list(checkpoints(folder / CHECKPOINTS).values())
    return paths[-1].name if paths else ""


def number_of_attempt(folder: Path, job: str, checkpoint: str, restarts: int) -> int:
    """The number of the attempt that now begins from ``checkpoint``, counted from 1, after ``restarts`` of the ``job``.

    The first attempt of a job from a checkpoint is recorded in ``folder``. When the disk does not take the record, all
    restarts of the job count, so that their number is limited in any case.
    """
    path, checkpoint = folder / RECORD, checkpoint or NO_CHECKPOINT
    with contextlib.suppress(OSError, ValueError):  # no record, or a damaged one
        recorded_job, recorded_checkpoint, first = path.read_text().split()
        if (recorded_job, recorded_checkpoint) == (job, checkpoint):
            return restarts - int(first) + 1
    try:
        path.write_text(f"{job} {checkpoint} {restarts}\n")
    except OSError:
        return restarts + 1
    return 1

"""Decides what happens after an attempt at a distributed stage has failed: another attempt, or the end of the job.

    exit status, error report, checkpoint before and after, attempts, out of time ── decide ──> Decision

After an attempt that saved a checkpoint there may always be another. Without a new checkpoint their number is limited.
The decision is the same on every cluster. Each cluster starts a job again in its own way (SLURM: slurm_job.py).
"""

import dataclasses
import re
from pathlib import Path

from headrace.pipeline.core.errors import HeadraceError, RetryableError
from headrace.train.checkpoint.names import CHECKPOINTS, checkpoints

START = "the start"
"""The name of the checkpoint of an attempt that began without one, in messages."""
NO_CHECKPOINT = "none"
"""The same in the record of attempts."""

RECORD = "logs/attempts"
"""Below the artifact's folder: ``JOB CHECKPOINT RESTARTS``, as of the job's first attempt from this checkpoint."""
RECORD_CHARACTERS = 1000


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
    restarts of the job count, so that their number is limited in any case. Others may write to the folder: a record is
    compared and parsed, and a number that is none counts as 0.
    """
    path, checkpoint = folder / RECORD, checkpoint or NO_CHECKPOINT
    recorded = _read(path)
    if recorded[:2] != [job, checkpoint]:
        try:
            path.write_text(f"{job} {checkpoint} {restarts}\n")
        except OSError:
            return restarts + 1
        return 1
    return restarts - _number(" ".join(recorded[2:]).strip()) + 1


def _read(path: Path) -> list[str]:
    """The fields of the record; none when there is no record that can be read."""
    try:
        with path.open(errors="replace") as stream:
            return stream.readline(RECORD_CHARACTERS).split(maxsplit=2)
    except OSError:
        return []


def _number(text: str) -> int:
    return int(text) if re.fullmatch(r"0|[1-9][0-9]{0,8}", text) else 0

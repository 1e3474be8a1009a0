"""Watchdog: ends the run when a rank hangs. Without it, all others would wait until the job's time limit.

    step done ── beat ──> the deadline is hang_seconds away again
    waits for a save ───> save_hang_seconds away; hang_seconds again when the save is done
    deadline passed ───> stacks of all threads to stderr, the reason to logs/error.json, the process ends

Every rank has a watchdog of its own. Ranks wait for each other in every step, so when one hangs, the ranks that wait
for it print their stacks. The hung rank does too, unless the whole process was stopped (SIGSTOP, a dead disk). The
launcher, or srun with ``--kill-on-bad-exit``, ends the other ranks. Running again resumes from the newest checkpoint.
Scoring is watched in the same way, round by round. A second timer, faulthandler's, needs no interpreter: a few seconds
later it ends a rank that holds the interpreter's lock or whose disk takes no report.
"""

import contextlib
import dataclasses
import faulthandler
import os
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

from headrace.pipeline.core import error_report
from headrace.pipeline.core.errors import RetryableError

GATHERING_SECONDS = 2.0
"""Time between printing the stacks and ending: the launcher ends all ranks after the first, and all should print."""

LOOKING_SECONDS = 1.0
"""Time between two checks of the deadline, which may have been moved to an earlier time."""

STDERR = 2


@dataclasses.dataclass(frozen=True)
class Work:
    """The watched work: its stage, its unit, and the remedy in the error."""

    stage: str
    unit: str
    remedy: str


TRAINING = Work("weights", "step", "run again to go on from the newest checkpoint")
FINETUNING = Work("finetuned", "step", TRAINING.remedy)
SCORING = Work("scores", "round", "run again")


class Watchdog:
    """Ends the process when ``beat`` is not called in time. It watches while it is entered."""

    def __init__(self, seconds: float, save_seconds: float, rank: int, folder: Path, work: Work = TRAINING) -> None:
        """Watches ``work`` of ``rank`` in ``folder``: a step lasts at most ``seconds``, a wait for a save at most
        ``save_seconds``."""
        self._seconds, self._save_seconds, self._rank, self._folder = seconds, save_seconds, rank, folder
        self._work = work
        self._step: int | None = None
        self._saves = False
        self._deadline = 0.0
        self._left = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="watchdog", daemon=True)

    def __enter__(self) -> "Watchdog":
        self._put_off()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        faulthandler.cancel_dump_traceback_later()
        self._left.set()
        self._thread.join()

    def beat(self, step: int) -> None:
        """Reports that ``step`` is done."""
        self._step = step
        self._put_off()

    @contextlib.contextmanager
    def saving(self) -> Iterator[None]:
        """Marks the time in which the training waits for a save."""
        self._saves = True
        self._put_off()
        try:
            yield
        finally:
            self._saves = False
            self._put_off()

    @property
    def _limit_seconds(self) -> float:
        return self._save_seconds if self._saves else self._seconds

    def _put_off(self) -> None:
        self._deadline = time.monotonic() + self._limit_seconds
        faulthandler.dump_traceback_later(self._limit_seconds + 3 * GATHERING_SECONDS, file=STDERR, exit=True)

    def _watch(self) -> None:
        while not self._left.wait(max(0.0, min(LOOKING_SECONDS, self._deadline - time.monotonic()))):
            if time.monotonic() >= self._deadline:
                self._end()

    def _end(self) -> None:
        work = self._work
        after = "its start" if self._step is None else f"{work.unit} {self._step}"
        what = "waited for a save" if self._saves else f"finished no {work.unit}"
        wrong = f"rank {self._rank} {what} for {self._limit_seconds:g} s after {after}"
        error = RetryableError(work.stage, wrong, f"see the stacks in logs/; {work.remedy}")
        print(f"headrace: {error}", file=sys.stderr, flush=True)
        faulthandler.dump_traceback(file=STDERR, all_threads=True)
        error_report.write(self._folder, error)
        time.sleep(GATHERING_SECONDS)
        os._exit(error.exit_status)

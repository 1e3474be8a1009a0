"""Watchdog: ends the run when a rank hangs. Without it, all others would wait until the job's time limit.

    step done ───── beat ──> the deadline of the next update is hang_seconds away
    update done ─ updated ─> that of what follows it is as far away: validation, scoring, a copy of the state
    waits for a save ──────> save_hang_seconds away; hang_seconds again when the save is done
    deadline passed ───────> stacks of all threads to stderr, the reason to logs/error.json, the process ends

Without hang_seconds the limit of an update follows from the median of those before it.

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
import statistics
import sys
import threading
import time
from collections import deque
from collections.abc import Iterator
from pathlib import Path

from headrace.pipeline.core import work_log
from headrace.pipeline.core.errors import RetryableError
from headrace.train.training_config import HANG_SECONDS

GATHERING_SECONDS = 2.0
"""Time between printing the stacks and ending: the launcher ends all ranks after the first, and all should print."""

LOOKING_SECONDS = 1.0
"""Time between two checks of the deadline, which may have been moved to an earlier time."""

SHORTEST_SECONDS = 180.0
"""The shortest limit of an update: a file system may take so long to answer."""
MEDIANS = 20
"""The limit of an update is so many times the median one."""
MEASURED_UPDATES = 10
"""The number of updates before the limit follows from them. The first ones compile."""

STDERR = 2


@dataclasses.dataclass(frozen=True)
class WatchedWork:
    """The watched work: its stage, its unit, and the remedy in the error."""

    stage: str
    unit: str
    remedy: str


TRAINING = WatchedWork("weights", "step", "run again to go on from the newest checkpoint")
FINETUNING = WatchedWork("finetuned", "step", TRAINING.remedy)
SCORING = WatchedWork("scores", "round", "run again")


class Watchdog:
    """Ends the process when ``beat`` or ``updated`` is not called in time. It watches while it is entered."""

    def __init__(
        self,
        seconds: float | None,
        save_seconds: float,
        rank: int,
        folder: Path,
        work: WatchedWork = TRAINING,
        unequal_steps: int = 0,
    ) -> None:
        """Watches a work.

        Args:
            seconds: the limit of a step; None: that of an update is MEDIANS times the median one, but at least
                SHORTEST_SECONDS and at most HANG_SECONDS, which is the limit of all else.
            save_seconds: the limit of a wait for a save.
            rank: the number of this rank, for the message.
            folder: the folder of the artifact.
            work: its stage and unit.
            unequal_steps: the number of first steps that take longer and longer.
        """
        self._seconds, self._save_seconds, self._rank, self._folder = seconds, save_seconds, rank, folder
        self._work, self._unequal_steps = work, unequal_steps
        self._step: int | None = None
        self._saves, self._updates = False, True
        self._begun = 0.0
        self._update_seconds = deque[float](maxlen=64)
        self._deadline = 0.0
        self._left = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="watchdog", daemon=True)

    def __enter__(self) -> "Watchdog":
        self._begun = time.monotonic()
        self._put_off()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        faulthandler.cancel_dump_traceback_later()
        self._left.set()
        self._thread.join()

    def beat(self, step: int) -> None:
        """Reports that ``step`` is done: the next update begins."""
        self._step, self._updates, self._begun = step, True, time.monotonic()
        self._put_off()

    def updated(self, step: int) -> None:
        """Reports that the update of ``step`` is done, or that what follows it goes on."""
        if self._updates:
            self._update_seconds.append(time.monotonic() - self._begun)
        self._step, self._updates = step, False
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
    def limit_seconds(self) -> float:
        """The limit of what the process does now."""
        if self._saves:
            return self._save_seconds
        if self._seconds is not None:
            return self._seconds
        is_known = len(self._update_seconds) >= MEASURED_UPDATES and (self._step or 0) >= self._unequal_steps
        if not (self._updates and is_known):
            return HANG_SECONDS
        return min(HANG_SECONDS, max(SHORTEST_SECONDS, MEDIANS * statistics.median(self._update_seconds)))

    def _put_off(self) -> None:
        self._deadline = time.monotonic() + self.limit_seconds
        faulthandler.dump_traceback_later(self.limit_seconds + 3 * GATHERING_SECONDS, file=STDERR, exit=True)

    def _watch(self) -> None:
        while not self._left.wait(max(0.0, min(LOOKING_SECONDS, self._deadline - time.monotonic()))):
            if time.monotonic() >= self._deadline:
                self._end()

    def _end(self) -> None:
        work = self._work
        after = "its start" if self._step is None else f"{work.unit} {self._step}"
        what = "waited for a save" if self._saves else f"finished no {work.unit}"
        problem = f"rank {self._rank} {what} for {self.limit_seconds:g} s after {after}"
        error = RetryableError(work.stage, problem, f"see the stacks in logs/; {work.remedy}")
        print(f"headrace: {error}", file=sys.stderr, flush=True)
        faulthandler.dump_traceback(file=STDERR, all_threads=True)
        work_log.write_error(self._folder, error)
        time.sleep(GATHERING_SECONDS)
        os._exit(error.exit_status)

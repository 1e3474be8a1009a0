"""Follows a run that works elsewhere: in another terminal, or as jobs of a cluster. It changes nothing.

part records ─────> tasks of a data stage that are done
metrics.jsonl ────> steps, loss and speed of a training          logs/progress.jsonl ──> queries of a scoring
the scheduler ────> the end of a job that failed
"""

import contextlib
import sys
import time

from headrace.pipeline.core.errors import ConfigError, TaskError
from headrace.pipeline.core.metrics_file import appearing_rows
from headrace.pipeline.core.progress import Progress
from headrace.pipeline.run import jobs, summary
from headrace.pipeline.run.planner import Run, Step

POLL_SECONDS = 1.0
ASK_SECONDS = 30.0
"""The pause between two questions to the scheduler."""


def follow(run: Run) -> None:
    """Shows the progress of each stage of ``run`` until the last one is done, then the results.

    Raises:
        TaskError: when the jobs of a stage have ended without its result.
    """
    for step in run.steps:
        if not step.is_whole:
            work = Following(step)
            if step.stage.distributed:
                path = step.folder / step.stage.progress_file
                step.stage.show_progress(appearing_rows(path, work.is_over, POLL_SECONDS))
            else:
                work.show_tasks()
        print(f"{step.name:<11} done", file=sys.stderr)
    summary.show(run)


class Following:
    """The view of one unfinished step."""

    def __init__(self, step: Step) -> None:
        self._step = step
        self._asked = time.monotonic()

    def is_over(self) -> bool:
        """Whether the step is finished.

        Raises:
            TaskError: when it is not, and has no job left.
        """
        if self._step.is_whole:
            return True
        if time.monotonic() - self._asked >= ASK_SECONDS:
            self._asked = time.monotonic()
            with contextlib.suppress(ConfigError):  # this machine cannot ask the scheduler: only files are followed
                self._refuse_failure()
        return False

    def show_tasks(self) -> None:
        """Shows the tasks of all phases that are done, until the step is finished."""
        total = sum(phase.tasks for phase in self._step.phases)
        with Progress(self._step.name, total, "tasks") as progress:
            shown = self._done(total)
            progress.skip(shown)
            while not self.is_over():
                time.sleep(POLL_SECONDS)
                done = self._done(total)
                progress.advance(done - shown)
                shown = done
            progress.advance(total - shown)

    def _done(self, total: int) -> int:
        return total - sum(len(self._step.missing(phase)) for phase in self._step.phases)

    def _refuse_failure(self) -> None:
        if not jobs.records(self._step) or jobs.live([self._step]):
            return
        time.sleep(POLL_SECONDS)  # a job that has just ended: its last file may appear late
        if not self._step.is_whole:
            state = jobs.states([self._step]).get(self._step.name, "its job has ended")
            raise TaskError(self._step.name, state, "correct the cause and run the run's command again")

"""Follows a run that works elsewhere: in another terminal, or as jobs of a cluster. It changes nothing.

part records ─────> phase of a data stage, and its tasks that are done
metrics.jsonl ────> steps, loss and speed of a training          logs/progress.jsonl ──> queries of a scoring
the scheduler ────> the end of a job that failed      claims ───────────────> the end of a command that was killed
"""

import re
import sys
import time
from pathlib import Path

from headrace.pipeline.core import work_log
from headrace.pipeline.core.claim import live_owners
from headrace.pipeline.core.errors import ConfigError, HeadraceError, TaskError
from headrace.pipeline.core.metrics_file import appearing_rows
from headrace.pipeline.core.progress import StageProgress
from headrace.pipeline.run import jobs, summary
from headrace.pipeline.run.planned_stage import PlannedStage
from headrace.pipeline.run.planner import Run
from headrace.pipeline.run.run_state import CurrentPhase
from headrace.pipeline.run.saved_run import RUN_JSON, SavedRun
from headrace.pipeline.run.storage import Stored

POLL_SECONDS = 1.0
ASK_SECONDS = 30.0
"""The pause between two questions to the scheduler."""


def follow(run: Run) -> None:
    """Shows the progress of each stage of ``run`` until the last one is done, then the results.

    Raises:
        HeadraceError: when the jobs and commands of a stage have ended without its result.
    """
    for stage in run.stages:
        if not stage.is_whole:
            work = Following(stage, run.run_json.parent)
            if stage.stage.distributed:
                files = {stage.folder / work_log.STARTS: work_log.bytes_before_start(stage.folder)}
                files[stage.folder / stage.stage.progress_file] = 0
                stage.stage.show_progress(appearing_rows(files, work.is_over, POLL_SECONDS))
            else:
                work.show_tasks()
        print(f"{stage.name:<11} done", file=sys.stderr)
    summary.show(run)


class Following:
    """The view of one unfinished stage."""

    def __init__(self, stage: PlannedStage, folder: Path) -> None:
        self._step = stage
        self._run = SavedRun(folder / RUN_JSON, {})
        self._asked = float("-inf") if jobs.records(stage) else time.monotonic()  # without a job, a command may begin
        self._shown = ""

    def is_over(self) -> bool:
        """Whether the stage is finished.

        Raises:
            HeadraceError: when it is not, and neither a job nor a command works on it.
        """
        if self._step.is_whole:
            return True
        if time.monotonic() - self._asked >= ASK_SECONDS:
            self._asked = time.monotonic()
            self._refuse_failure()
        return False

    def show_tasks(self) -> None:
        """Shows the phase that the stage is at and its tasks that are done, until the stage is finished."""
        shown: CurrentPhase | None = None
        with StageProgress(self._step.name, len(self._step.phases)) as progress:
            while not self.is_over():
                now = CurrentPhase.of(self._step)
                if now is not None and shown is not None and now.number == shown.number:
                    progress.advance(now.done - shown.done)
                elif now is not None:
                    progress.start_phase(now.number, now.name, now.tasks)
                    progress.skip(now.done)
                shown = now
                time.sleep(POLL_SECONDS)

    def _refuse_failure(self) -> None:
        if live_owners([*self._run.marks, *Stored(self._step.folder).claims]):
            return
        try:
            is_live = bool(jobs.live([self._step]))
            state = jobs.asked_states([self._step]).get(self._step.name, "")
        except (ConfigError, TaskError):  # the scheduler cannot be asked now: only files are followed
            return
        if is_live:
            self._show(state)
            return
        time.sleep(POLL_SECONDS)  # a job that has just ended: its last file may appear late
        if not self._step.is_whole:
            raise self._failure(state)

    def _show(self, state: str) -> None:
        """Prints why the job waits, or that a part of it ended early, when that has changed."""
        news = "" if state == self._shown or re.fullmatch(r"[A-Z_]+, job \d+", state) else state
        if news:
            print(f"{self._step.name}: {news}", file=sys.stderr, flush=True)
        self._shown = state

    def _failure(self, state: str) -> HeadraceError:
        """Returns why the stage will not be finished: the ``state`` of its job, else the reported error."""
        remedy = "correct the cause and run the run's command again"
        if state:
            return TaskError(self._step.name, state, remedy)
        ended = TaskError(self._step.name, "no job and no command works on it", remedy)
        return work_log.error_of(self._step.folder) or ended

"""Runs the tasks of a phase on this machine.

    Phase ──> TaskExecutor.run ──> Workers ──> run_task: claim, run, part record

A task is done when its part record exists. Workers claim each task before they run it (pipeline/core/claim.py), so two
commands on one root share the tasks of a phase. A task that another command holds is skipped, and checked again when
all other tasks are done. When a worker is killed, the run ends with a RetryableError.
"""

import dataclasses
import functools
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

from headrace.pipeline.core.artifact import Artifact, TaskOutput, missing_tasks, part_path
from headrace.pipeline.core.artifact_files import held, make
from headrace.pipeline.core.claim import POLL_SECONDS, Waiting, claim_of, claimed
from headrace.pipeline.core.errors import HeadraceError, RetryableError, TaskError
from headrace.pipeline.core.progress import Amounts, StageProgress
from headrace.pipeline.core.stage import Inputs, Stage
from headrace.pipeline.core.system_errors import explained, moved
from headrace.pipeline.run.workers import TaskEnd, WorkerEndedError, Workers


@dataclasses.dataclass(frozen=True)
class PlannedPhase:
    """A phase of a stage with its folders: all that a process needs to run its tasks."""

    stage: Stage
    shards: Mapping[str, int]
    inputs: Mapping[str, Path]
    folder: Path
    phase: str

    @property
    def name(self) -> str:
        return f"{self.stage.name}.{self.phase}"

    @functools.cached_property
    def _artifacts(self) -> Inputs:
        return {name: Artifact(folder) for name, folder in self.inputs.items()}

    def run(self, task: int) -> None:
        """Runs ``task`` and writes its part record."""
        phase = next(phase for phase in self.stage.phases(self.shards) if phase.name == self.phase)
        out = TaskOutput(self.folder, self.phase, task)
        self.stage.check_raw_files()
        counts = phase.run(task, self._artifacts, out)
        self.stage.check_raw_files()
        out.done(counts)


@dataclasses.dataclass(frozen=True)
class TaskExecutor:
    """Runs the ``tasks`` tasks of a phase that are missing: all of them in workers, or one in this process."""

    step: PlannedPhase
    tasks: int

    def run_task(self, task: int) -> bool:
        """Runs one task in this process, unless it is done. Returns False when another process holds the task."""
        if self._is_done(task):
            return True
        with claimed(claim_of(self._part(task))) as is_ours:
            if is_ours and not self._is_done(task):
                try:
                    self.step.run(task)
                except FileNotFoundError:  # while this process was suspended, another one removed its temporary file
                    if not self._is_done(task):
                        raise
        return is_ours

    def _run_there(self, task: int) -> bool:
        """Runs one task like ``run_task``, in a worker: the main process has made the folder, and holds it."""
        with held(self.step.folder, is_new=False):
            return self.run_task(task)

    def run_task_when_free(self, task: int) -> None:
        """Runs one task like ``run_task``, after waiting for the process that holds it."""
        waiting = Waiting(f"{self.step.name} task {task}")
        while not self.run_task(task):
            waiting.start()
            while not (self._is_done(task) or waiting.any_free([claim_of(self._part(task))])):
                time.sleep(POLL_SECONDS)

    def run(self, workers: Workers, progress: StageProgress) -> None:
        """Runs the missing tasks, and waits for tasks that another command holds.

        Raises:
            RetryableError: when a worker was killed. Finished tasks are kept.
            TaskError: when a task failed.
        """
        left = self._missing()
        waiting = Waiting(self.step.name, progress.print_line)
        progress.skip(self.tasks - len(left))
        while left:
            held = set(left)
            for task in self._finished(left, workers, progress):
                held.remove(task)
                progress.advance(1)
            left = self._freed(sorted(held), waiting, progress)

    def _freed(self, held: list[int], waiting: Waiting, progress: StageProgress) -> list[int]:
        """Waits until the tasks ``held`` by other processes are done, or one is free. Returns the unfinished ones."""
        waiting.start()
        while held and not waiting.any_free([claim_of(self._part(task)) for task in held]):
            time.sleep(POLL_SECONDS)
            missing = set(self._missing())
            progress.advance(sum(task not in missing for task in held))
            held = [task for task in held if task in missing]
        return held

    def _part(self, task: int) -> Path:
        return part_path(self.step.folder, self.step.phase, task)

    def _is_done(self, task: int) -> bool:
        return self._part(task).is_file()

    def _missing(self) -> list[int]:
        return missing_tasks(self.step.folder, self.step.phase, self.tasks)

    def _finished(self, missing: list[int], workers: Workers, progress: StageProgress) -> Iterator[int]:
        """Runs the tasks ``missing`` in ``workers``. Yields each task that is done, none that others hold."""
        log = self.step.folder / "logs" / f"{self.step.phase}.log"
        make(log.parent)
        log.open("ab").close()  # an error here is clear; in a worker it would look like a kill
        failed: TaskEnd | None = None
        try:
            for news in workers.run(self._run_there, missing, log):
                if isinstance(news, Amounts):
                    progress.count(news)
                elif news.text:
                    failed = failed or news
                elif self._is_done(news.task):
                    yield news.task
        except WorkerEndedError as ended:
            raise moved(self.step.folder) or self._without_worker(ended, log) from None
        if failed:
            raise self._error(failed, log)

    def _without_worker(self, ended: WorkerEndedError, log: Path) -> TaskError:
        if start_error := str(ended):
            return TaskError(self.step.name, f"a worker process did not start: {start_error}", "correct the cause")
        if ended.status is not None:
            problem = f"a worker process ended with status {ended.status}"
            return TaskError(self.step.name, problem, f"see {log}; running again repeats unfinished tasks only")
        left = len(self._missing())
        return RetryableError(
            self.step.name,
            f"a worker process was killed, {left} of {self.tasks} tasks are not done",
            "run again: finished tasks are kept (out of memory? use fewer workers)",
        )

    def _error(self, failed: TaskEnd, log: Path) -> HeadraceError:
        """Returns the error of a task that has failed."""
        if isinstance(failed.error, HeadraceError):
            return failed.error
        if failed.error is not None and (explanation := explained(failed.error, self.step.folder)):
            return explanation
        remedy = f"see {log}; running again repeats this task only"
        return TaskError(f"{self.step.name} task {failed.task}", failed.text, remedy)

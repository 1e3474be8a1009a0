"""The datatrove executor that runs the tasks of a phase on this machine.

    Phase ──> TaskExecutor.run ──> pool of worker processes ──> one datatrove rank per task ──> part records

It differs from datatrove's LocalPipelineExecutor in two points. A task is done when its part record exists; datatrove's
completion markers do not depend on the settings. And when a worker is killed, the run ends with a RetryableError, while
datatrove's pool would wait forever. When the main process is killed, its workers end too.

Workers claim each task before they run it (pipeline/core/claim.py), so two commands on one root share the tasks of a
phase. A task that another command holds is skipped, and checked again when all other tasks are done.

Each worker ends when the main process closes its end of a pipe. The pool itself cannot end all workers: a worker that
is killed while it waits for a task keeps the lock of the pool's queue, so no other worker receives the end.
"""

import concurrent.futures
import multiprocessing
import os
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import forkserver, resource_tracker
from multiprocessing.connection import Connection
from pathlib import Path

from datatrove.data import DocumentsPipeline
from datatrove.executor.local import LocalPipelineExecutor
from datatrove.pipeline.base import PipelineStep

from headrace.pipeline.core.artifact import Artifact, TaskOutput, missing_tasks, part_path
from headrace.pipeline.core.claim import POLL_SECONDS, Waiting, claim_of, claimed
from headrace.pipeline.core.errors import HeadraceError, RetryableError, TaskError
from headrace.pipeline.core.progress import Progress
from headrace.pipeline.core.signals import blocked_in_children
from headrace.pipeline.core.stage import Stage
from headrace.pipeline.core.system_errors import explained, system_errors_explained
from headrace.pipeline.core.variables import CORES

SEMAPHORES = "/dev/shm"
"""The folder of the semaphores of a pool. Errors of the C library do not name it."""


class PhaseStep(PipelineStep):
    """A phase of a stage as a datatrove block. The rank of the block is the number of the task."""

    type = "headrace"

    def __init__(self, stage: Stage, shards: Mapping[str, int], inputs: Mapping[str, Path], folder: Path, phase: str):
        self.name = f"{stage.name}.{phase}"
        super().__init__()
        self.stage, self.shards, self.inputs, self.folder, self.phase = stage, dict(shards), dict(inputs), folder, phase

    def run(self, data: DocumentsPipeline, rank: int = 0, world_size: int = 1) -> Iterator[None]:
        """Runs task ``rank`` and writes its part record. Yields nothing."""
        phase = next(phase for phase in self.stage.phases(self.shards) if phase.name == self.phase)
        inputs = {name: Artifact(folder) for name, folder in self.inputs.items()}
        out = TaskOutput(self.folder, self.phase, rank)
        self.stage.check_raw_files()
        counts = phase.run(rank, inputs, out)
        self.stage.check_raw_files()
        for label, value in counts.items():
            self.stat_update(label, value=value)
        out.done(counts)
        yield from ()


class TaskExecutor(LocalPipelineExecutor):
    """Runs the missing tasks of a phase: all of them with a pool of ``workers``, or one task inside a cluster job."""

    def __init__(self, step: PhaseStep, tasks: int, workers: int) -> None:
        logs = step.folder / "logs" / step.phase
        super().__init__([step], tasks=max(tasks, 1), workers=min(workers, max(tasks, 1)), logging_dir=str(logs))
        self.step, self.tasks = step, tasks

    def is_rank_completed(self, rank: int) -> bool:
        return self._part(rank).is_file()

    def mark_rank_as_completed(self, rank: int) -> None:
        """Does nothing: the task has written its part record itself."""

    def run_task(self, rank: int) -> bool:
        """Runs one task in this process, unless it is done. Returns False when another process holds the task."""
        if self.is_rank_completed(rank):
            return True
        with claimed(claim_of(self._part(rank))) as is_ours:
            if is_ours:
                try:
                    self._run_for_rank(rank, local_rank=1)
                except FileNotFoundError:  # while this process was suspended, another one removed its temporary file
                    if not self.is_rank_completed(rank):
                        raise
        return is_ours

    def run_task_when_free(self, rank: int) -> None:
        """Runs one task like ``run_task``, after waiting for the process that holds it."""
        waiting = Waiting(f"{self.step.name} task {rank}")
        while not self.run_task(rank):
            waiting.start()
            while not (self.is_rank_completed(rank) or waiting.any_free([claim_of(self._part(rank))])):
                time.sleep(POLL_SECONDS)

    def run(self) -> None:
        """Runs the missing tasks, and waits for tasks that another command holds.

        Raises:
            RetryableError: when a worker was killed. Finished tasks are kept.
            TaskError: when a task failed.
        """
        left = self._missing()
        with Progress(self.step.name.replace(".", " "), self.tasks, "tasks") as progress:
            progress.advance(self.tasks - len(left))
            waiting = Waiting(self.step.name, progress.print_line)
            while left:
                held = set(left)
                for rank in self._finished(left):
                    held.remove(rank)
                    progress.advance()
                left = self._freed(sorted(held), waiting, progress)

    def _freed(self, held: list[int], waiting: Waiting, progress: Progress) -> list[int]:
        """Waits until the tasks ``held`` by other processes are done, or one is free. Returns the unfinished ones."""
        waiting.start()
        while held and not waiting.any_free([claim_of(self._part(rank)) for rank in held]):
            time.sleep(POLL_SECONDS)
            missing = set(self._missing())
            progress.advance(sum(rank not in missing for rank in held))
            held = [rank for rank in held if rank in missing]
        return held

    def _part(self, rank: int) -> Path:
        return part_path(self.step.folder, self.step.phase, rank)

    def _missing(self) -> list[int]:
        return missing_tasks(self.step.folder, self.step.phase, self.tasks)

    def _finished(self, missing: list[int]) -> Iterator[int]:
        """Runs the tasks ``missing`` with a pool of workers. Yields each task that is done, none that others hold."""
        threads = max(1, int(os.environ.get(CORES, os.cpu_count() or 1)) // self.workers)
        log = self.step.folder / "logs" / f"{self.step.phase}.log"
        log.parent.mkdir(parents=True, exist_ok=True)
        log.open("ab").close()  # an error here is clear; in a worker it would look like a kill
        context = _context()
        worker_end, main_end = context.Pipe(duplex=False)
        with worker_end, main_end:
            with system_errors_explained(SEMAPHORES):
                pool = concurrent.futures.ProcessPoolExecutor(
                    self.workers, context, _initialize_worker, (self, worker_end, threads, str(log))
                )
            tasks: dict[concurrent.futures.Future[bool], int] = {}
            try:
                tasks = self._submitted(pool, missing)
                for future in concurrent.futures.as_completed(tasks):
                    self._raise_for(future, tasks[future], log)
                    if self.is_rank_completed(tasks[future]):
                        yield tasks[future]
            except (KeyboardInterrupt, GeneratorExit):
                main_end.close()  # ends the workers at once; unfinished tasks are repeated by the next run
                raise
            finally:
                pool.shutdown(wait=False, cancel_futures=True)
                concurrent.futures.wait([future for future in tasks if future.running()])

    def _submitted(
        self, pool: concurrent.futures.ProcessPoolExecutor, missing: list[int]
    ) -> "dict[concurrent.futures.Future[bool], int]":
        """Returns the task of each future. The pool starts its workers here: a killed fork server is found here."""
        try:
            return {pool.submit(_run_task, rank): rank for rank in missing}
        except (BrokenProcessPool, EOFError, ConnectionError):
            raise self._killed() from None

    def _killed(self) -> RetryableError:
        left = len(self._missing())
        return RetryableError(
            self.step.name,
            f"a worker process was killed, {left} of {self.tasks} tasks are not done",
            "run again: finished tasks are kept (out of memory? use fewer workers)",
        )

    def _raise_for(self, future: "concurrent.futures.Future[bool]", rank: int, log: Path) -> None:
        error = future.exception()
        if error is None or isinstance(error, HeadraceError):
            future.result()
        elif isinstance(error, BrokenProcessPool):
            raise self._killed() from None
        elif explanation := explained(error, self.step.folder):
            raise explanation from error
        else:
            where = f"{self.step.name} task {rank}"
            raise TaskError(
                where, f"{type(error).__name__}: {error}", f"see {log}; running again repeats this task only"
            )


_executor: list[TaskExecutor] = []
"""The executor whose tasks this worker runs. It is sent once, not with each task: its list of raw files may be long."""


def _run_task(rank: int) -> bool:
    return _executor[0].run_task(rank)


def _exit_when_closed(pipe: Connection) -> None:
    """Ends this process when the main process closes its end of ``pipe``, or ends."""
    pipe.poll(None)
    os._exit(0)


def _context() -> multiprocessing.context.BaseContext:
    """Returns a fork server that has loaded our modules. Workers start fast and share no threads with this process.

    Only the main process receives Ctrl-C, and ends the workers.
    """
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["headrace.pipeline.stages"])
    with blocked_in_children():
        resource_tracker.ensure_running()  # if the fork server started it, SIGINT would be unblocked
        forkserver.ensure_running()
    return context


def _initialize_worker(executor: TaskExecutor, pipe: Connection, threads: int, log: str) -> None:
    """Prepares a new worker: it ends with ``pipe``, uses its share of the cores, and prints to the file ``log``."""
    _executor[:] = [executor]
    threading.Thread(target=_exit_when_closed, args=(pipe,), name="exit-when-closed", daemon=True).start()
    for variable in ("OMP_NUM_THREADS", "RAYON_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ[variable] = str(threads)
    stream = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    sys.stdout.flush()
    sys.stderr.flush()
    os.dup2(stream, 1)
    os.dup2(stream, 2)

"""The datatrove executor that runs the tasks of a phase on this machine.

    Phase ──> TaskExecutor.run ──> pool of worker processes ──> one datatrove rank per task ──> part records

It differs from datatrove's LocalPipelineExecutor in two things. What is done is read from the artifact's part records,
not from completion markers that know nothing of the settings. And a worker that is killed ends the run with a
RetryableError, where datatrove's pool would wait forever; a main process that is killed takes its workers with it.

Workers claim each task before they run it (pipeline/core/claim.py), so that two commands on one root share the tasks of
a phase. A task that the other command holds is passed over, and looked at again when all others are done.

Workers live as long as a pipe is open that the main process holds the other end of. A worker that is killed while it
waits for a task keeps the lock of the pool's queue forever: those behind it would never hear that the pool is over.
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
from headrace.pipeline.core.signals import kept_from_children
from headrace.pipeline.core.stage import Stage
from headrace.pipeline.core.system_errors import explained, system_errors_explained

SEMAPHORES = "/dev/shm"
"""The folder in which the C library makes the semaphores that a pool needs; its errors do not name it."""


class PhaseStep(PipelineStep):
    """A phase of a stage as a datatrove block: its rank is the task's number."""

    type = "headrace"

    def __init__(self, stage: Stage, shards: Mapping[str, int], inputs: Mapping[str, Path], folder: Path, phase: str):
        self.name = f"{stage.name}.{phase}"
        super().__init__()
        self.stage, self.shards, self.inputs, self.folder, self.phase = stage, dict(shards), dict(inputs), folder, phase

    def run(self, data: DocumentsPipeline, rank: int = 0, world_size: int = 1) -> Iterator[None]:
        """Run task ``rank`` and leave its part record. Yields nothing."""
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
    """Runs what is missing of a phase: all of it with a pool of ``workers``, or one task inside a cluster job."""

    def __init__(self, step: PhaseStep, tasks: int, workers: int) -> None:
        logs = step.folder / "logs" / step.phase
        super().__init__([step], tasks=max(tasks, 1), workers=min(workers, max(tasks, 1)), logging_dir=str(logs))
        self.step, self.tasks = step, tasks

    def is_rank_completed(self, rank: int) -> bool:
        return self._part(rank).is_file()

    def mark_rank_as_completed(self, rank: int) -> None:
        """Nothing to do: the task left its part record itself."""

    def run_task(self, rank: int) -> bool:
        """Run one task in this process, unless it was done before; False when another process holds it."""
        if self.is_rank_completed(rank):
            return True
        with claimed(claim_of(self._part(rank))) as is_ours:
            if is_ours:
                try:
                    self._run_for_rank(rank, local_rank=1)
                except FileNotFoundError:  # it was suspended: another process took over and swept its unfinished file
                    if not self.is_rank_completed(rank):
                        raise
        return is_ours

    def run_task_in_turn(self, rank: int) -> None:
        """``run_task``, after waiting for the process that holds the task."""
        waiting = Waiting(f"{self.step.name} task {rank}")
        while not self.run_task(rank):
            waiting.start()
            while not (self.is_rank_completed(rank) or waiting.any_free([claim_of(self._part(rank))])):
                time.sleep(POLL_SECONDS)

    def run(self) -> None:
        """Run the missing tasks, and wait for those that another command holds.

        Raises:
            RetryableError: when a worker was killed; what is finished is kept.
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
        """What others have not done of the tasks ``held`` by them, once they are done or one of them is free."""
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
        """Run the tasks ``missing`` with a pool of workers; those that are done, not those that others hold."""
        threads = max(1, (os.cpu_count() or 1) // self.workers)
        log = self.step.folder / "logs" / f"{self.step.phase}.log"
        log.parent.mkdir(parents=True, exist_ok=True)
        log.open("ab").close()  # a worker that cannot open it would look like one that was killed
        context = _context()
        theirs, ours = context.Pipe(duplex=False)
        with theirs, ours:
            with system_errors_explained(SEMAPHORES):
                pool = concurrent.futures.ProcessPoolExecutor(
                    self.workers, context, initializer=_serve, initargs=(self, theirs, threads, str(log))
                )
            tasks: dict[concurrent.futures.Future[bool], int] = {}
            try:
                tasks = self._submitted(pool, missing)
                for future in concurrent.futures.as_completed(tasks):
                    self._raise_for(future, tasks[future], log)
                    if self.is_rank_completed(tasks[future]):
                        yield tasks[future]
            except (KeyboardInterrupt, GeneratorExit):
                ours.close()  # ends the workers, whatever they are at: what is not finished is repeated
                raise
            finally:
                pool.shutdown(wait=False, cancel_futures=True)
                concurrent.futures.wait([future for future in tasks if future.running()])

    def _submitted(
        self, pool: concurrent.futures.ProcessPoolExecutor, missing: list[int]
    ) -> "dict[concurrent.futures.Future[bool], int]":
        """The task of each future. The pool starts workers here: its fork server may have been killed, or they."""
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
        elif told := explained(error, self.step.folder):
            raise told from error
        else:
            where = f"{self.step.name} task {rank}"
            raise TaskError(
                where, f"{type(error).__name__}: {error}", f"see {log}; running again repeats this task only"
            )


_served: list[TaskExecutor] = []
"""The executor whose tasks this worker runs. It comes once, not with each task: the list of raw files may be long."""


def _serve(executor: TaskExecutor, life: Connection, threads: int, log: str) -> None:
    _enter_worker(life, threads, log)
    _served[:] = [executor]


def _run_task(rank: int) -> bool:
    return _served[0].run_task(rank)


def _end_with(life: Connection) -> None:
    """End this process as soon as the other end of ``life`` is closed, by the main process or by its death."""
    life.poll(None)
    os._exit(0)


def _context() -> multiprocessing.context.BaseContext:
    """A fork server that has our modules loaded: workers start at once and share no threads with the main process.

    Ctrl-C reaches the main process alone, which ends the workers.
    """
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["headrace.pipeline.stages"])
    with kept_from_children():
        resource_tracker.ensure_running()  # the fork server would start it, which unblocks SIGINT
        forkserver.ensure_running()
    return context


def _enter_worker(life: Connection, threads: int, log: str) -> None:
    """What a worker does first: tie itself to ``life``, keep to its share of cores, write its noise to ``log``."""
    threading.Thread(target=_end_with, args=(life,), name="life", daemon=True).start()
    for variable in ("OMP_NUM_THREADS", "RAYON_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ[variable] = str(threads)
    stream = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    sys.stdout.flush()
    sys.stderr.flush()
    os.dup2(stream, 1)
    os.dup2(stream, 2)

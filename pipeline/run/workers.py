"""The worker processes of a command on this machine. They serve all phases of all data stages.

    command ──> fork server, loads stages and numba ── fork ──> worker, worker, …
    Workers ── log, phase, task, task, ... ──> worker ── amounts read, amounts read, ... , task done | error ──> Workers

A worker keeps what the tasks have loaded: lists, models, compiled kernels. It ends when the main process
closes its pipe or ends, also in the middle of a task; unfinished tasks are repeated by the next run.
"""

import contextlib
import functools
import multiprocessing
import os
import pickle
import queue
import stat
import sys
import threading
import traceback
import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from multiprocessing import connection, forkserver, resource_tracker
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple

from headrace.pipeline.core.environment import CORES, PATH, SAFE_PATH, own_packages
from headrace.pipeline.core.errors import HeadraceError
from headrace.pipeline.core.progress import Amounts, counting
from headrace.pipeline.core.signals import blocked_in_children
from headrace.pipeline.core.system_errors import portable

THREAD_VARIABLES = ("OMP_NUM_THREADS", "RAYON_NUM_THREADS", "MKL_NUM_THREADS")

ENDING_SECONDS = 1.0
"""The longest wait for the exit status of a worker that has closed its pipe."""
UNKNOWN_STATUS = 255
"""The exit status of a worker whose fork server was killed, too."""

TRACEBACK = "Traceback (most recent call last):"

TaskWork = Callable[[int], object]
"""Runs one task. It is sent to a worker once, not with each task: its list of raw files may be long."""


class WorkerEndedError(Exception):
    """A worker process has ended before its task was done. Its text is the error of its start; empty without one."""

    def __init__(self, start_error: str, status: int | None) -> None:
        super().__init__(start_error)
        self.status = status
        """Its exit status; None after a kill."""


class TaskEnd(NamedTuple):
    """The end of a task."""

    task: int
    text: str
    """Its error; empty when the task is done."""
    error: HeadraceError | OSError | None
    """Its error, if it is ours or one of the system."""


class Workers:
    """Up to ``number`` processes, started when they are first needed, and one more for phases with a single task."""

    def __init__(self, number: int) -> None:
        self._number = number
        self._several: list[_Worker] = []
        self._single: list[_Worker] = []

    def __enter__(self) -> "Workers":
        return self

    def run(self, run_task: TaskWork, tasks: Sequence[int], log: Path) -> Iterator[TaskEnd | Amounts]:
        """Runs ``tasks``, whose output goes to the file ``log``. Yields their ends and what they have read meanwhile.

        After an error no further task is started, but those that run are finished.

        Raises:
            WorkerEndedError: when a worker ended.
        """
        waiting = list(reversed(tasks))
        try:
            idle = self._started(len(tasks))
            for worker in idle:
                for message in (log, run_task, waiting.pop()):
                    worker.pipe.send(message)
            busy = {worker.pipe: worker for worker in idle}
            while busy:
                for pipe in _readable(busy):
                    news: TaskEnd | Amounts = pipe.recv()
                    if isinstance(news, TaskEnd):
                        if news.text:
                            waiting.clear()
                        if waiting:
                            pipe.send(waiting.pop())
                        else:
                            del busy[pipe]
                    yield news
        except (EOFError, ConnectionError):
            status = self._exit_status()
            self.close()  # all have written their errors then
            raise WorkerEndedError(start_error(), status) from None

    def _exit_status(self) -> int | None:
        """Returns the exit status of a worker that has ended by itself; None when one was killed."""
        processes = [worker.process for worker in (*self._several, *self._single)]
        connection.wait([process.sentinel for process in processes], ENDING_SECONDS)
        statuses = [process.exitcode for process in processes]
        return next((status for status in statuses if status is not None and 0 <= status != UNKNOWN_STATUS), None)

    def _started(self, tasks: int) -> "list[_Worker]":
        """Returns the workers for a phase of ``tasks``. The worker of a single task may use all cores."""
        cores = int(os.environ.get(CORES, os.cpu_count() or 1))
        if tasks == 1:
            self._single = self._single or [_Worker(cores)]
            return self._single
        while len(self._several) < min(self._number, tasks):
            self._several.append(_Worker(max(1, cores // self._number)))
        return self._several[:tasks]

    def close(self) -> None:
        """Ends the workers at once. A later ``run`` starts others."""
        for worker in (*self._several, *self._single):
            worker.close()
        self._several, self._single = [], []

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class _Worker:
    """A worker process and the main process's end of its pipe."""

    def __init__(self, threads: int) -> None:
        start_fork_server()
        context = multiprocessing.get_context("forkserver")
        self.pipe, theirs = context.Pipe()
        variables = os.environ | dict.fromkeys(THREAD_VARIABLES, str(threads))
        self.process = context.Process(target=_serve, args=(theirs, variables), name="worker")
        with without_script():
            self.process.start()
        theirs.close()

    def close(self) -> None:
        self.pipe.close()
        self.process.join()


def _readable(busy: "dict[connection.Connection, _Worker]") -> list[Any]:
    """Waits for pipes that can be read.

    Raises:
        EOFError: when a worker has ended and left nothing to read.
    """
    sentinels = [worker.process.sentinel for worker in busy.values()]
    ready = connection.wait([*busy, *sentinels])
    pipes = [pipe for pipe in ready if pipe in busy]
    if not pipes:
        raise EOFError
    return pipes


def _serve(pipe: "connection.Connection", variables: Mapping[str, str]) -> None:
    """Runs the tasks of a worker until the main process closes the pipe. ``variables`` are its environment."""
    os.environ.update(variables)
    sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]  # this process ends without clean-up
    messages: queue.SimpleQueue[bytes] = queue.SimpleQueue()
    threading.Thread(target=_receive, args=(pipe, messages), name="receive", daemon=True).start()
    log = pickle.loads(messages.get())
    while True:
        _redirect(log)
        pickled, run_task = messages.get(), None
        while isinstance(message := pickle.loads(messages.get()), int):
            with _Reported(message, pipe), counting(pipe.send):
                run_task = run_task or pickle.loads(pickled)  # an error of it is reported like one of the task
                run_task(message)
        log = message


class _Reported:
    """Sends the end of a task to the main process. The traceback of an error goes to the log."""

    def __init__(self, task: int, pipe: "connection.Connection") -> None:
        self._task, self._pipe = task, pipe

    def __enter__(self) -> None:
        """Does nothing."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        if error is None:
            self._pipe.send(TaskEnd(self._task, "", None))
        else:
            traceback.print_exception(error)
            text = "".join(traceback.format_exception_only(error)).strip()
            self._pipe.send(TaskEnd(self._task, text, portable(error)))
        return True


def _receive(pipe: "connection.Connection", messages: "queue.SimpleQueue[bytes]") -> None:
    """Receives messages while the worker is busy, too, and so ends it when the main process closes the pipe."""
    with contextlib.suppress(EOFError, ConnectionError):
        while True:
            messages.put(pipe.recv_bytes())
    os._exit(0)


def _redirect(log: Path) -> None:
    """Appends this process's output to the file ``log``."""
    stream = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    sys.stdout.flush()
    sys.stderr.flush()
    os.dup2(stream, 1)
    os.dup2(stream, 2)
    os.close(stream)


def start_fork_server() -> None:
    """Starts the fork server unless it runs: it loads our modules once, and starts the workers, which so start fast.

    Only the main process receives Ctrl-C, and ends the workers. They share no threads with it.
    """
    multiprocessing.set_forkserver_preload(["headrace.pipeline.run.preloaded"])
    with _without_current_folder():
        resource_tracker.ensure_running()  # its start unblocks SIGINT, so it must not be inside the inner block
        with blocked_in_children(), _own_output():
            forkserver.ensure_running()


@contextlib.contextmanager
def without_script() -> Iterator[None]:
    """Keeps workers that start inside the block from running the script of this process again.

    multiprocessing imports it in each worker. A script without ``if __name__ == "__main__"`` would start its work there
    once more, and fail.
    """
    script = sys.modules["__main__"]
    sys.modules["__main__"] = types.ModuleType("__main__")
    try:
        yield
    finally:
        sys.modules["__main__"] = script


def start_error() -> str:
    """Returns the last error of the server, or of a worker before its first task, as one line; empty without one.

    It is known on Linux only.
    """
    output = _output()
    if not stat.S_ISREG(os.fstat(output).st_mode):
        return ""
    text = os.pread(output, os.fstat(output).st_size, 0).decode("utf-8", "replace")
    os.lseek(output, 0, os.SEEK_SET)  # a later start has its own errors
    os.truncate(output, 0)
    lines = text.rpartition(TRACEBACK)[2].splitlines() if TRACEBACK in text else []
    return next((line for line in reversed(lines) if line.strip() and not line.startswith(" ")), "")


@functools.cache
def _output() -> int:
    """Returns the file of the output of the server and of workers that start. It is in memory; only Linux has it."""
    return os.memfd_create("workers") if sys.platform == "linux" else os.open(os.devnull, os.O_RDWR)


@contextlib.contextmanager
def _without_current_folder() -> Iterator[None]:
    """Keeps a process that starts inside the block from importing a user's numba.py or queue.py (Python 3.11).

    It imports this package from the same folder as this process.
    """
    before = {name: os.environ.get(name) for name in (SAFE_PATH, PATH)}
    os.environ.update(own_packages())
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


@contextlib.contextmanager
def _own_output() -> Iterator[None]:
    """Redirects the output of processes that start inside the block to the file that ``start_error`` reads.

    The server may end a moment after the command. A program that reads the command's output must not wait for it.
    """
    kept = [os.dup(number) for number in (1, 2)]
    for number in (1, 2):
        os.dup2(_output(), number)
    try:
        yield
    finally:
        for number, output in enumerate(kept, 1):
            os.dup2(output, number)
            os.close(output)

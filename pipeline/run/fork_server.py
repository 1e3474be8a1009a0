"""The fork server of a command: it loads our modules once and starts the workers, which so start fast.

    command ── fork, as soon as it has loaded the stages ──> fork server, loads numba ── fork ──> worker, worker, …
            └─ plans the run meanwhile

Workers share no threads with the main process.
"""

import contextlib
import functools
import itertools
import multiprocessing
import os
import re
import signal
import stat
import sys
import threading
import traceback
import types
from collections.abc import Iterable, Iterator, Sequence
from multiprocessing import forkserver, resource_tracker, util
from typing import Any

from headrace.pipeline.core.environment import PACKAGES, PATH, SAFE_PATH, own_packages
from headrace.pipeline.core.extras import loading
from headrace.pipeline.core.signals import blocked_in_children

TRACEBACK = "Traceback (most recent call last):"


def start_fork_server(*, as_fork: bool = False) -> None:
    """Starts the fork server unless it runs. Only the main process receives Ctrl-C, and ends the workers.

    The server is a new process of Python, or a fork of this one, which must have a single thread then.
    """
    multiprocessing.set_forkserver_preload(["headrace.pipeline.run.preloaded"])
    with _without_current_folder():
        resource_tracker.ensure_running()  # its start unblocks SIGINT, so it must not be inside the inner block
        with blocked_in_children(), _own_output(), _forking() if as_fork else contextlib.nullcontext():
            forkserver.ensure_running()


def start_early(overrides: Iterable[str]) -> None:
    """Loads the stages, and starts the fork server of a command with ``overrides``, which so need not load them again.

    It is not started for a command that submits jobs: those do the work.
    """
    if not any(re.match(r"\+?cluster(\.type)?=(?!local$)", override) for override in overrides):
        with loading():
            from headrace.pipeline import stages  # noqa: F401
        # A lock that another thread holds would stay locked in the fork. Libraries of macOS do not survive a fork.
        start_fork_server(as_fork=sys.platform == "linux" and threading.active_count() == 1)


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


@contextlib.contextmanager
def _forking() -> Iterator[None]:
    """Makes the process that multiprocessing starts inside the block a fork of this one."""
    spawn = util.spawnv_passfds
    util.spawnv_passfds = _fork
    try:
        yield
    finally:
        util.spawnv_passfds = spawn


def _fork(path: bytes, args: Sequence[Any], passfds: Sequence[int]) -> int:
    """Stands in for the start of ``python -c program``: runs the program, the last of ``args``, in a fork.

    Like a new process, the fork has only the open files ``passfds``, its own output, no handler of a signal, and
    imports nothing from the current folder. Returns its PID.
    """
    if child := os.fork():
        return child
    try:
        for number in signal.valid_signals():
            if callable(signal.getsignal(number)):
                signal.signal(number, signal.SIG_DFL)
        for after, before in itertools.pairwise([2, *sorted(passfds), os.sysconf("SC_OPEN_MAX")]):
            os.closerange(after + 1, before)
        sys.stdout, sys.stderr = sys.__stdout__, sys.__stderr__
        sys.path[:] = [str(PACKAGES), *(folder for folder in sys.path if folder not in ("", os.getcwd()))]
        exec(args[-1], {})
        os._exit(0)
    except BaseException:  # noqa: BLE001  (the fork must not go on with the work of the command)
        traceback.print_exc()
    finally:
        os._exit(1)


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

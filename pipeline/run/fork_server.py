"""The fork server of a command: it loads our modules once and starts the workers, which so start fast.

Workers share no threads with the main process. A command starts the server first, so it loads its modules while the
command loads its own.
"""

import contextlib
import multiprocessing
import os
from collections.abc import Iterator
from multiprocessing import forkserver, resource_tracker
from pathlib import Path

from headrace.pipeline.core.signals import blocked_in_children

SAFE_PATH, PATH = "PYTHONSAFEPATH", "PYTHONPATH"
PACKAGES = Path(__file__).parents[3]
"""The folder that holds this package."""


def start_fork_server() -> None:
    """Starts the fork server unless it runs. Only the main process receives Ctrl-C, and ends the workers."""
    multiprocessing.set_forkserver_preload(["headrace.pipeline.run.preloaded"])
    resource_tracker.ensure_running()  # its start unblocks SIGINT, so it must not be inside the block
    with blocked_in_children(), _without_output(), _without_current_folder():
        forkserver.ensure_running()


@contextlib.contextmanager
def _without_current_folder() -> Iterator[None]:
    """Keeps a process that starts inside the block from importing a user's numba.py or queue.py (Python 3.11).

    It imports this package from the same folder as this process.
    """
    before = {name: os.environ.get(name) for name in (SAFE_PATH, PATH)}
    os.environ[SAFE_PATH] = "1"
    os.environ[PATH] = os.pathsep.join(filter(None, [str(PACKAGES), before[PATH]]))
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


@contextlib.contextmanager
def _without_output() -> Iterator[None]:
    """Redirects the output of processes that start inside the block to /dev/null.

    The server may end a moment after the command. A program that reads the command's output must not wait for it.
    """
    kept = [os.dup(number) for number in (1, 2)]
    with open(os.devnull, "wb") as nothing:
        for number in (1, 2):
            os.dup2(nothing.fileno(), number)
    try:
        yield
    finally:
        for number, output in enumerate(kept, 1):
            os.dup2(output, number)
            os.close(output)

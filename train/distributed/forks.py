"""The ranks of one machine as forks of this process, which loads torch once for all of them.

Nothing that is loaded here may look for GPUs: CUDA does not work in the forks of a process that has done so.
"""

import contextlib
import os
import signal
import socket
import threading
from collections.abc import Collection

from headrace.pipeline.core.environment import STORE_SOCKET
from headrace.pipeline.core.extras import loading
from headrace.pipeline.core.signals import die_with_parent

with loading():
    import torch._dynamo  # noqa: F401  # the optimizers of torch need it


ENDING_SECONDS = 30
"""The time that the other ranks have to end after one has failed."""


def start(ranks: int) -> list[int]:
    """Forks this process into ``ranks`` ranks. Returns their PIDs here, an empty list in each rank."""
    listener = socket.create_server(("127.0.0.1", 0), backlog=max(ranks, 128))
    same = {"WORLD_SIZE": ranks, "LOCAL_WORLD_SIZE": ranks, "MASTER_ADDR": "127.0.0.1"}
    same |= {"MASTER_PORT": listener.getsockname()[1]}
    parent = os.getpid()
    children: list[int] = []
    for number in range(ranks):
        if child := os.fork():
            children.append(child)
            continue
        die_with_parent()
        if os.getppid() != parent:  # it has ended before the line above
            os._exit(1)
        numbers = {"RANK": number, "LOCAL_RANK": number}
        if number == 0:
            numbers[STORE_SOCKET] = listener.detach()
        else:
            listener.close()
        os.environ.update({name: str(value) for name, value in (same | numbers).items()})
        return []
    listener.close()
    return children


def wait(children: Collection[int]) -> int:
    """Waits until ``children`` have ended. Returns the exit status of the first that failed, as a shell gives it."""
    running, failed = set(children), 0
    killing = threading.Timer(ENDING_SECONDS, _send, (running, signal.SIGKILL))
    killing.daemon = True
    while running:
        child, status = os.wait()
        running.discard(child)
        if status and not failed:
            code = os.waitstatus_to_exitcode(status)
            failed = code if code > 0 else 128 - code
            _send(running, signal.SIGTERM)
            killing.start()
    killing.cancel()
    return failed


def _send(processes: Collection[int], number: signal.Signals) -> None:
    for process in tuple(processes):
        with contextlib.suppress(ProcessLookupError):  # it ended meanwhile
            os.kill(process, number)

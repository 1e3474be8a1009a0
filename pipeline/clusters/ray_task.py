"""The work of a Ray cluster's machines: processes of ours below Ray's own, which end with them."""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import ray

from headrace.pipeline.core.environment import NODE, STORE_SOCKET, without_process
from headrace.pipeline.core.signals import die_with_parent

POLL_SECONDS = 0.2


def run_module(module: Sequence[str], folder: str, log: str, variables: Mapping[str, str]) -> int:
    """Runs ``python -m`` of ``module``, its name and arguments, in ``folder``. Returns the exit status as a shell does.

    Its output is appended to ``log``.
    """
    return _status(_started(module, folder, log, variables).wait())


class NodeRanks:
    """The ranks of a training on one machine: an actor of Ray."""

    def __init__(self) -> None:
        self._listener = socket.create_server(("", 0), backlog=128)

    def address(self) -> tuple[str, int]:
        """Returns the address and the port at which the ranks of all machines meet, if rank 0 runs here."""
        return ray.util.get_node_ip_address(), self._listener.getsockname()[1]

    def run(self, module: Sequence[str], folder: str, log: str, variables: Mapping[str, str], first: int) -> int:
        """Runs the ranks from number ``first``, as many as LOCAL_WORLD_SIZE of ``variables``, and waits for their end.

        When one has failed, the others are killed: they would wait for it.

        Returns:
            The exit status of the first that failed, else 0.
        """
        running: list[subprocess.Popen[bytes]] = []
        for local in range(int(variables["LOCAL_WORLD_SIZE"])):
            own = {**variables, "RANK": str(first + local), "LOCAL_RANK": str(local)}
            own |= {NODE: ray.util.get_node_ip_address()}
            keep = [self._listener.fileno()] if first + local == 0 else []
            own |= {STORE_SOCKET: str(keep[0])} if keep else {}
            running.append(_started(module, folder, log, own, keep))
        self._listener.close()
        status = 0
        while running and not status:
            time.sleep(POLL_SECONDS)
            ended = [_status(rank.returncode) for rank in running if rank.poll() is not None]
            running = [rank for rank in running if rank.returncode is None]
            status = next(filter(None, ended), 0)
        for rank in running:
            rank.send_signal(signal.SIGKILL)
            rank.wait()
        return status


def _started(
    module: Sequence[str], folder: str, log: str, variables: Mapping[str, str], keep: Sequence[int] = ()
) -> "subprocess.Popen[bytes]":
    """Starts a process that the kernel kills when this one ends. It inherits the file descriptors ``keep``."""
    with Path(log).open("ab") as output:
        return subprocess.Popen(
            [sys.executable, "-u", "-m", *module],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            env={**without_process(os.environ), **variables},
            cwd=folder,
            pass_fds=keep,
            preexec_fn=die_with_parent,
        )


def _status(code: int) -> int:
    """Returns the exit status of a process as a shell does: 128 + number when a signal ended it."""
    return code if code >= 0 else 128 - code

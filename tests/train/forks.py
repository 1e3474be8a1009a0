"""Ranks of a process group as forks of this process, once what they need is loaded."""

import os
import signal
import sys
import traceback
from collections.abc import Callable
from typing import NoReturn

import torch

from headrace.train.distributed import forks, processes
from headrace.train.distributed.processes import Ranks


def on_ranks(world: int, work: Callable[[Ranks], None]) -> None:
    """Runs ``work`` on this many ranks, each a fork of this process, which ends when one of them fails."""
    if status := status_of_ranks(world, work):
        sys.exit(f"a rank of {world} ended with {status}")


def status_of_ranks(world: int, work: Callable[[Ranks], None]) -> int:
    """Runs ``on_ranks`` in a fork and returns 0, or the exit status of the first rank that failed."""
    children = set(forks.start(world))
    if not children:
        take_part(work)
    failed = 0
    while children:
        child, status = os.wait()
        children.remove(child)
        if status and not failed:
            failed = os.waitstatus_to_exitcode(status)
            for other in children:
                os.kill(other, signal.SIGKILL)
    return failed


def take_part(work: Callable[[Ranks], None]) -> NoReturn:
    """Runs ``work`` as one of the ranks, and ends this fork, which must not go on as its parent."""
    try:
        work(processes.start("cpu"))
        torch.distributed.barrier()
        os._exit(0)
    finally:
        traceback.print_exc()
        os._exit(1)

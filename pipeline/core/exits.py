"""The end of processes: that of Python takes all modules apart, 0.9 s of CPU time when torch is loaded."""

import atexit
import contextlib
import os
import sys
from collections.abc import Iterator
from typing import NoReturn


def exit_now(status: int) -> NoReturn:
    """Ends this process without clean-up: threads of torch.distributed abort some normal exits of several ranks."""
    for stream in (sys.stdout, sys.stderr):
        print(end="", file=stream, flush=True)  # also where there is none, as after >&- in a shell
    os._exit(status)


@contextlib.contextmanager
def quick_exit() -> Iterator[None]:
    """Lets this process end, after the block, with ``exit_now`` and the status that Python would give it.

    What others have registered with ``atexit`` is called before.
    """
    status = 1  # an unexpected error, whose traceback Python prints first
    atexit.register(lambda: exit_now(status))  # the first one that is registered is the last one that is called
    try:
        yield
        status = 0
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else int(end.code is not None)
        raise

"""Signals that stop the command in an orderly way: Ctrl-C (SIGINT), a closed terminal (SIGHUP), SIGTERM.

    signal ──> Stop, raised in the main thread ──> data stages   workers end, finished tasks are kept
                                               └─> local_ranks   ranks are asked to stop, save and end
           ──> one line, exit status 128 + signal number

A signal that was ignored when the command began (SIGHUP under nohup) stays ignored.
"""

import contextlib
import os
import select
import signal
import sys
from collections.abc import Iterator
from types import FrameType

STOP_SIGNALS = (signal.SIGINT, signal.SIGHUP, signal.SIGTERM)
_PR_SET_PDEATHSIG = 1  # prctl(2)


class Stop(KeyboardInterrupt):
    """A request to stop by signal ``number``. Its text describes the state of the work."""

    def __init__(self, number: int, text: str = "stopped; run the same command again to go on") -> None:
        super().__init__(text)
        self.number = number

    @property
    def exit_status(self) -> int:
        """The exit status that shells give a process that was ended by a signal."""
        return 128 + self.number


@contextlib.contextmanager
def stoppable() -> Iterator[None]:
    """Raises ``Stop`` for each of these signals inside the block. A second signal interrupts the first one."""
    before = {number: signal.getsignal(number) for number in STOP_SIGNALS}
    listened = [number for number in STOP_SIGNALS if before[number] is not signal.SIG_IGN]
    for number in listened:
        signal.signal(number, _raise)
    try:
        yield
    finally:
        for number in listened:
            signal.signal(number, before[number])


def _raise(number: int, frame: FrameType | None) -> None:
    _drop_lost_output()
    raise Stop(number)


def _drop_lost_output() -> None:
    """Redirects output without a terminal or a reader to /dev/null: an error there must not hide the stop.

    In ``headrace … | tee log`` Ctrl-C ends ``tee``, too.
    """
    for stream in (sys.stdout, sys.stderr):
        if _is_lost(stream.fileno()):
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _is_lost(file: int) -> bool:
    poll = select.poll()
    poll.register(file, 0)
    try:
        os.write(file, b"")
    except OSError:
        return True
    return any(event & (select.POLLERR | select.POLLNVAL) for _, event in poll.poll(0))


@contextlib.contextmanager
def blocked_in_children() -> Iterator[None]:
    """Blocks SIGINT and SIGHUP for processes that start inside the block, and for their children.

    This process receives the signals after the block.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGINT, signal.SIGHUP))
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def die_with_parent() -> None:
    """Asks the kernel to kill this process when its parent ends: a killed run leaves no rank running, and a killed
    submission none that tries again."""
    import ctypes  # most commands need it not

    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)

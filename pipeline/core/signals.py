"""Signals that stop the command in an orderly way, and its quick end: Ctrl-C (SIGINT), a closed terminal, SIGTERM.

    signal ──> Stop, raised in the main thread ──> data stages   workers end, finished tasks are kept
                                               └─> local_ranks   ranks are asked to stop, save and end
           ──> one line, exit status 128 + signal number

A signal that was ignored when the command began (SIGHUP under nohup) stays ignored.

``exit_now`` and ``quick_exit`` are the end of processes: that of Python takes all modules apart, 0.9 s of CPU time when
torch is loaded.
"""

import atexit
import contextlib
import os
import select
import signal
import sys
from collections.abc import Iterator
from types import FrameType
from typing import NoReturn

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


def exit_now(status: int) -> NoReturn:
    """Ends this process without clean-up: threads of torch.distributed abort some normal exits of several ranks."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError) if status else contextlib.nullcontext():  # a full disk, reported before
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

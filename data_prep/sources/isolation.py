"""Calls in a separate process, for functions that may crash, never end or take all memory.

    worker ── function, text ──> isolated process ── result ──> worker
                                 └─ the text ends the process ──> Drop("too_slow" | "too_much_memory" | "crashed", …)

For some pages the time of an HTML parser grows with the square of their size or faster, and C code may fault. Such a
page ends the isolated process instead of the run, and a new process continues with the next page. The limit is CPU
time, so other work on the machine does not decide what is dropped. A page above the limit takes hundreds of times as
long as other pages of its size.
"""

import math
import multiprocessing
import os
import resource
import signal
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path

from headrace.data_prep.document import Drop
from headrace.pipeline.core.errors import RetryableError, TaskError

CPU_SECONDS = 60
"""Limit of one call. resiliparse reads a page of average size in 4 ms, and 20 MB of tags in 12 s."""
MEMORY_BYTES = 4 << 30
"""Memory that calls may take in addition to the worker's own; 20 MB of tags take 2.3 GB."""
IDLE_SECONDS = 900
"""A process that uses no CPU time for this long hangs, even if the machine is busy."""
ATTEMPTS = 3
"""Attempts at a call when another process kills the isolated one."""
STATM = Path("/proc/self/statm")
"""Its first number is this process's address space in pages (proc(5)). On other systems memory is not limited."""


class _Isolated:
    """A forked process that answers calls until its pipe is closed."""

    def __init__(self) -> None:
        context = multiprocessing.get_context("fork")
        self.owner = os.getpid()
        self._pipe, theirs = context.Pipe()
        self._process = context.Process(target=_serve, args=(theirs, self._pipe), name="isolated", daemon=True)
        self._process.start()
        theirs.close()

    def call(self, function: Callable[[str], str], text: str) -> str | Drop | None:
        """Returns the result of ``function``, a Drop if ``text`` ended the process, or None if it was killed.

        Raises:
            TaskError: when ``function`` raised an error.
        """
        try:
            self._pipe.send((function, text))
            used = ""
            while not self._pipe.poll(IDLE_SECONDS) and used != (used := self._cpu_time()):
                pass
            if self._pipe.poll():
                answer: str | Drop = self._pipe.recv()
                return answer
        except (EOFError, ConnectionError):
            self._process.join()
        else:
            self._process.kill()
            self._process.join()
        return self._verdict(function.__name__)

    def _verdict(self, function: str) -> Drop | None:
        """Returns the Drop for the signal that ended the process, or None if another process sent it."""
        status = self._process.exitcode or 0
        if status >= 0:
            wrong = f"{function} ended with an error, exit status {status}"
            raise TaskError("extraction", wrong, "see the phase's log for its traceback")
        received = signal.Signals(-status)
        if received in (signal.SIGKILL, signal.SIGTERM, signal.SIGINT):
            return None
        if received is signal.SIGXCPU:
            return Drop("too_slow", f"more than {CPU_SECONDS} s of CPU time")
        return Drop("crashed", received.name)

    def _cpu_time(self) -> str:
        """Returns the CPU time that the process has used; "" on systems without /proc."""
        stat = Path(f"/proc/{self._process.pid}/stat")
        return "/".join(stat.read_text().rpartition(")")[2].split()[11:13]) if stat.exists() else ""

    @property
    def is_usable(self) -> bool:
        """Whether the process runs and belongs to this process, not to the one that this process was forked from."""
        return self.owner == os.getpid() and self._process.is_alive()


_current: list[_Isolated] = []
"""The isolated process of this process; empty before the first call."""


def isolated(function: Callable[[str], str], text: str) -> str | Drop:
    """Computes ``function(text)`` in another process. Drops: ``too_slow``, ``too_much_memory``, ``crashed``.

    ``function`` must be at the top level of a module, because it is sent by its name.

    Raises:
        TaskError: when ``function`` raised an error.
        RetryableError: when the process was killed in every attempt.
    """
    for _ in range(ATTEMPTS):
        if not _current or not _current[0].is_usable:
            _current[:] = [_Isolated()]
        answer = _current[0].call(function, text)
        if answer is not None:
            return answer
    raise RetryableError("extraction", f"its process was killed {ATTEMPTS} times", "run again with fewer workers")


def _serve(pipe: Connection, parents_end: Connection) -> None:
    """Answers calls until the parent closes the pipe or ends."""
    parents_end.close()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _limit(resource.RLIMIT_CORE, 0)
    if STATM.exists():
        held_bytes = int(STATM.read_text().split()[0]) * resource.getpagesize()
        _limit(resource.RLIMIT_AS, held_bytes + MEMORY_BYTES)
    while True:
        try:
            function, text = pipe.recv()
        except (EOFError, ConnectionError):
            return
        usage = resource.getrusage(resource.RUSAGE_SELF)
        _limit(resource.RLIMIT_CPU, math.ceil(usage.ru_utime + usage.ru_stime) + CPU_SECONDS)
        try:
            answer = function(text)
        except MemoryError:
            answer = Drop("too_much_memory", f"more than {MEMORY_BYTES} bytes")
        pipe.send(answer)


def _limit(what: int, soft: int) -> None:
    hard = resource.getrlimit(what)[1]
    resource.setrlimit(what, (soft if hard == resource.RLIM_INFINITY else min(soft, hard), hard))

"""Calls that may crash, never end or ask for all memory, made in a process of their own.

    worker ── function, text ──> isolated process ── result ──> worker
                                 └─ dies of the text ──> Drop("too_slow" | "too_much_memory" | "crashed", …)

Some pages cost an HTML parser the square of their size or worse, and C code may fault. Such a page must not take the
run with it: the isolated process dies in the worker's place, and another one goes on with the next page. Time is CPU
time, so that other work on the machine does not decide what is dropped; what goes over the limit takes hundreds of
times as long as other pages of its size.
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
"""For one call. resiliparse reads a page of average size in 4 ms, 20 MB of nothing but tags in 12 s."""
MEMORY_BYTES = 4 << 30
"""What calls may take beyond what the worker holds; 20 MB of nothing but tags take 2.3 GB."""
IDLE_SECONDS = 900
"""A process that took no CPU time for so long is stuck, not slow, however busy the machine is."""
ATTEMPTS = 3
"""How often a call is made when somebody else ends the process."""
STATM = Path("/proc/self/statm")
"""Its first number is this process's address space in pages (proc(5)). Other systems have no limit on memory."""


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
        """What ``function`` returns, or a Drop if ``text`` ended the process; None if somebody else did.

        Raises:
            TaskError: when ``function`` raised.
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
        """Why the process ended."""
        status = self._process.exitcode or 0
        if status >= 0:
            wrong = f"{function} ended with an error, exit status {status}"
            raise TaskError("extraction", wrong, "see the phase's log for its traceback")
        died_of = signal.Signals(-status)
        if died_of in (signal.SIGKILL, signal.SIGTERM, signal.SIGINT):
            return None
        if died_of is signal.SIGXCPU:
            return Drop("too_slow", f"more than {CPU_SECONDS} s of CPU time")
        return Drop("crashed", died_of.name)

    def _cpu_time(self) -> str:
        """What the process has used; "" where the system does not tell."""
        stat = Path(f"/proc/{self._process.pid}/stat")
        return "/".join(stat.read_text().rpartition(")")[2].split()[11:13]) if stat.exists() else ""

    @property
    def is_usable(self) -> bool:
        return self.owner == os.getpid() and self._process.is_alive()


_current: list[_Isolated] = []
"""The one isolated process of this process, once there is one."""


def isolated(function: Callable[[str], str], text: str) -> str | Drop:
    """``function(text)``, computed by another process; ``too_slow``, ``too_much_memory`` or ``crashed`` if that dies.

    ``function`` is one of a module (it is sent by its name).

    Raises:
        TaskError: when ``function`` raised.
        RetryableError: when the process was killed by somebody else again and again.
    """
    for _ in range(ATTEMPTS):
        if not _current or not _current[0].is_usable:
            _current[:] = [_Isolated()]
        answer = _current[0].call(function, text)
        if answer is not None:
            return answer
    raise RetryableError("extraction", f"its process was killed {ATTEMPTS} times", "run again with fewer workers")


def _serve(pipe: Connection, parents: Connection) -> None:
    """Answer calls. The end of the parent closes the pipe, and with it this process."""
    parents.close()
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

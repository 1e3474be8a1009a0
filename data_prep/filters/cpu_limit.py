"""A limit on the CPU time that cleaning may take for one page.

    with CpuLimit() as limit:      every TICK_SECONDS of CPU time a signal
        limit.start(page)          ── limit of this page gone by? ──> TooSlow, raised in whatever runs

What a page costs is measured in CPU time of the thread that cleans it, so other work on the machine does not decide
what is dropped. The limit is thousands of times what pages cost: one that reaches it holds up the run, nothing else.

The signal ends what is Python, ``re`` or ``regex`` (both look for signals while they match). Other compiled code is not
interrupted: it returns first, and TooSlow comes then. Filters of the project cost time proportional to the page
(benchmarks/adversarial_cost.py), so this is for filters from elsewhere.
"""

import signal
import threading
import time
from types import FrameType
from typing import Any

CPU_SECONDS = 60.0
"""For any page. C4's filters take a page of average size in less than a millisecond."""
CPU_SECONDS_PER_CHARACTER = 1e-4
"""For each character more: twice what the slowest filter, datatrove's words, takes for text that is made to be slow."""
TICK_SECONDS = 0.5


class TooSlow(BaseException):
    """A page reached its limit. No Exception, so no filter from elsewhere takes it for an error of its own."""


class CpuLimit:
    """Watches one page after the other, a context manager. Outside the main thread, where Python handles no signals,
    a page is only measured when it is done."""

    def __init__(self) -> None:
        self._end: float | None = None
        self._seconds = 0.0
        self._handles = threading.current_thread() is threading.main_thread()
        self._before: Any = None

    def __enter__(self) -> "CpuLimit":
        if self._handles:
            self._before = signal.signal(signal.SIGPROF, self._tick)
            signal.setitimer(signal.ITIMER_PROF, TICK_SECONDS, TICK_SECONDS)
        return self

    def __exit__(self, *_: object) -> None:
        if self._handles:
            signal.setitimer(signal.ITIMER_PROF, 0)
            signal.signal(signal.SIGPROF, self._before)

    @property
    def reached(self) -> str:
        """The limit of the last page, in words."""
        return f"more than {self._seconds:.0f} s of CPU time"

    def start(self, characters: int) -> None:
        """Begin with a page of so many ``characters``."""
        self._seconds = CPU_SECONDS + CPU_SECONDS_PER_CHARACTER * characters
        self._end = time.thread_time() + self._seconds

    def stop(self) -> None:
        """End a page.

        Raises:
            TooSlow: when it took more than its limit.
        """
        end, self._end = self._end, None
        if end is not None and time.thread_time() > end:
            raise TooSlow

    def forget(self) -> None:
        """End a page that was given up."""
        self._end = None

    def _tick(self, number: int, frame: FrameType | None) -> None:
        if self._end is not None and time.thread_time() > self._end:
            raise TooSlow  # again at the next tick, if a filter from elsewhere swallows it

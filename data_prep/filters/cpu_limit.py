"""Limit on the CPU time that cleaning may take for one page.

    with CpuLimit() as limit:      a signal arrives every TICK_SECONDS of CPU time
        limit.start(characters)    ── is the limit of this page reached? ──> TooSlow, raised in the running code

The time of a page is the CPU time of the thread that cleans it, so other work on the machine does not decide what is
dropped. The limit is thousands of times the cost of an ordinary page.

The signal interrupts Python code and the matching of ``re`` and ``regex``, which check for signals. Other compiled code
returns first, and TooSlow is raised then. The filters of the project take time proportional to the length of the page
(benchmarks/robustness/adversarial_cost.py), so the limit protects against filters of other projects.
"""

import signal
import threading
import time
from types import FrameType
from typing import Any

CPU_SECONDS = 60.0
"""Limit of an empty page. C4's filters need less than a millisecond for a page of average size."""
CPU_SECONDS_PER_CHARACTER = 1e-4
"""Added per character: twice what the slowest filter (words as datatrove splits them) takes for hostile text."""
TICK_SECONDS = 0.5


class TooSlow(BaseException):
    """Raised when a page reaches its limit. It is not an Exception, so that no filter catches it as its own error."""


class CpuLimit:
    """Context manager that limits one page after the other. Outside the main thread Python handles no signals, so there
    a page is only measured when it is done."""

    def __init__(self) -> None:
        self._end: float | None = None
        self._seconds = 0.0
        self._can_interrupt = threading.current_thread() is threading.main_thread()
        self._before: Any = None

    def __enter__(self) -> "CpuLimit":
        if self._can_interrupt:
            self._before = signal.signal(signal.SIGPROF, self._tick)
            signal.setitimer(signal.ITIMER_PROF, TICK_SECONDS, TICK_SECONDS)
        return self

    def __exit__(self, *_: object) -> None:
        if self._can_interrupt:
            signal.setitimer(signal.ITIMER_PROF, 0)
            signal.signal(signal.SIGPROF, self._before)

    @property
    def reached(self) -> str:
        """The limit of the last page as text for the reason of a drop."""
        return f"more than {self._seconds:.0f} s of CPU time"

    def start(self, characters: int) -> None:
        """Starts the limit of a page of ``characters`` characters."""
        self._seconds = CPU_SECONDS + CPU_SECONDS_PER_CHARACTER * characters
        self._end = time.thread_time() + self._seconds

    def stop(self) -> None:
        """Ends the limit of the page.

        Raises:
            TooSlow: when the page took more time than its limit.
        """
        end, self._end = self._end, None
        if end is not None and time.thread_time() > end:
            raise TooSlow

    def cancel(self) -> None:
        """Ends the limit of a page that was too slow."""
        self._end = None

    def _tick(self, number: int, frame: FrameType | None) -> None:
        if self._end is not None and time.thread_time() > self._end:
            raise TooSlow  # raised again at the next tick if a filter suppresses it

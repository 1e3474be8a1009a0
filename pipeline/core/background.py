"""Calls that may fail or hang, made one after the other in a thread of their own, so that their caller never waits.

call(a) call(b) ──> thread: a, b, …      caller goes on at once
                    └─ b raises ──> one line; later calls are left out
close(seconds)  ──> waits so long at most
"""

import concurrent.futures
import sys
from collections.abc import Callable

Call = concurrent.futures.Future[None]

MOST_WAITING = 10_000
"""Calls that may wait for one that hangs; with more the service is given up."""


class Background:
    """Makes the calls of the service ``name``."""

    def __init__(self, name: str, without: str) -> None:
        """``without`` says, in the line about a failure, what goes on without the service."""
        self._name, self._without = name, without
        self._thread = concurrent.futures.ThreadPoolExecutor(1, thread_name_prefix=name)
        self._last: Call | None = None
        self._made = self._done = 0
        self._given_up = False

    def call(self, function: Callable[[], object]) -> None:
        """Call ``function`` after all earlier ones, unless one of them failed."""
        if self._made - self._done >= MOST_WAITING:
            self._give_up(f"has not answered for {MOST_WAITING:,} calls")
        if not self._given_up:
            self._made += 1
            self._last = self._thread.submit(self._make, function)
            self._last.add_done_callback(self._look_at)

    def close(self, seconds: float) -> None:
        """Wait ``seconds`` at most for what was called; what is not done by then is left out."""
        if self._last and concurrent.futures.wait([self._last], seconds).not_done:
            self._give_up(f"did not finish within {seconds:g} s")
        self._thread.shutdown(wait=False, cancel_futures=True)

    def _make(self, function: Callable[[], object]) -> None:
        if not self._given_up:
            function()

    def _look_at(self, call: Call) -> None:
        self._done += 1
        if not call.cancelled() and (error := call.exception()):
            self._give_up(one_line(error))

    def _give_up(self, wrong: str) -> None:
        if not self._given_up:
            self._given_up = True
            print(f"{self._name}: {wrong}; {self._without}", file=sys.stderr, flush=True)


def one_line(error: BaseException) -> str:
    """The type of ``error`` and the first line of its text."""
    return f"{type(error).__name__}: {str(error).strip().partition(chr(10))[0]}"

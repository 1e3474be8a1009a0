"""Calls that may fail or hang, made one after the other in a thread of their own, so that their caller never waits.

call(a) call(b) ──> thread: a, b, …      caller goes on at once
                    └─ b raises ──> one line; later calls are left out
close(seconds)  ──> waits so long at most
"""

import queue
import sys
import threading
from collections.abc import Callable

Call = Callable[[], object]

MOST_WAITING = 10_000
"""Calls that may wait for one that hangs; with more the service is given up."""


class Background:
    """Makes the calls of the service ``name``. Its thread is a daemon: one that hangs does not keep the process."""

    def __init__(self, name: str, without: str) -> None:
        """``without`` says, in the line about a failure, what goes on without the service."""
        self._name, self._without = name, without
        self._calls: queue.SimpleQueue[Call | None] = queue.SimpleQueue()
        self._given_up = False
        self._thread = threading.Thread(target=self._make, name=name, daemon=True)
        self._thread.start()

    def call(self, function: Call) -> None:
        """Call ``function`` after all earlier ones, unless one of them failed."""
        if self._calls.qsize() >= MOST_WAITING:
            self._give_up(f"has not answered for {MOST_WAITING:,} calls")
        if not self._given_up:
            self._calls.put(function)

    def close(self, seconds: float) -> None:
        """Wait ``seconds`` at most for what was called; what is not done by then is left out."""
        self._calls.put(None)
        self._thread.join(seconds)
        if self._thread.is_alive():
            self._give_up(f"did not finish within {seconds:g} s")

    def _make(self) -> None:
        while (function := self._calls.get()) is not None:
            if self._given_up:
                continue
            try:
                function()
            except Exception as error:  # noqa: BLE001 whatever the service raises ends its own part only
                self._give_up(one_line(error))

    def _give_up(self, wrong: str) -> None:
        if not self._given_up:
            self._given_up = True
            print(f"{self._name}: {wrong}; {self._without}", file=sys.stderr, flush=True)


def one_line(error: BaseException) -> str:
    """The type of ``error`` and the first line of its text."""
    return f"{type(error).__name__}: {str(error).strip().partition(chr(10))[0]}"

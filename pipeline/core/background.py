"""A thread that makes calls which may fail or hang, in their order. The caller does not wait for them.

call(a) call(b) ──> thread: a, b, …      the caller continues at once
                    └─ b raises ──> one line on stderr; the later calls are skipped
close(seconds)  ──> waits for the thread, at most this long
"""

import queue
import sys
import threading
from collections.abc import Callable

Call = Callable[[], object]

QUEUE_LIMIT = 10_000
"""The largest number of waiting calls. When a call hangs and more of them wait, the service is given up."""


class Background:
    """Makes the calls of the service ``name``. Its thread is a daemon: a call that hangs does not keep the process."""

    def __init__(self, name: str, consequence: str) -> None:
        """Starts the thread. The line about a failure ends with its ``consequence``."""
        self._name, self._consequence = name, consequence
        self._calls: queue.SimpleQueue[Call | None] = queue.SimpleQueue()
        self._given_up = False
        self._thread = threading.Thread(target=self._make_calls, name=name, daemon=True)
        self._thread.start()

    def call(self, function: Call) -> None:
        """Calls ``function`` after all earlier ones, unless one of them failed."""
        if self._calls.qsize() >= QUEUE_LIMIT:
            self._give_up(f"has not answered for {QUEUE_LIMIT:,} calls")
        if not self._given_up:
            self._calls.put(function)

    def close(self, seconds: float) -> None:
        """Waits for the calls, at most ``seconds``. Calls that are not finished then are skipped."""
        self._calls.put(None)
        self._thread.join(seconds)
        if self._thread.is_alive():
            self._give_up(f"did not finish within {seconds:g} s")

    def _make_calls(self) -> None:
        while (function := self._calls.get()) is not None:
            if self._given_up:
                continue
            try:
                function()
            except Exception as error:  # noqa: BLE001 an error of the service must not end the run
                self._give_up(one_line(error))

    def _give_up(self, reason: str) -> None:
        if not self._given_up:
            self._given_up = True
            print(f"{self._name}: {reason}; {self._consequence}", file=sys.stderr, flush=True)


def one_line(error: BaseException) -> str:
    """Returns the type of ``error`` and the first line of its text."""
    return f"{type(error).__name__}: {str(error).strip().partition(chr(10))[0]}"

"""Reads the rows of the next update while this one is computed.

    loop      take(0) ──── update ──── take(16) ──── update ──── take(32) ...
    thread       read 16 ────────┘        read 32 ────────┘

The rows are a function of the position alone, so reading ahead changes no result, and there is nothing to save.
"""

import time
from collections.abc import Callable, Hashable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Generic, TypeVar

P = TypeVar("P", bound=Hashable)
T = TypeVar("T")


class Prefetch(Generic[P, T]):
    """Calls ``read`` in a thread of its own, at most one position ahead; the thread ends with the object."""

    def __init__(self, read: Callable[[P], T]) -> None:
        self._read = read
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="prefetch")
        self._ahead: dict[P, Future[T]] = {}
        self.waited_seconds = 0.0
        """The duration of the last ``take``."""

    def take(self, position: P, following: P | None) -> T:
        """Returns the result of ``read(position)``, or raises its error; begins to read ``following`` unless None."""
        started = time.perf_counter()
        ready = self._ahead.pop(position, None) or self._thread.submit(self._read, position)
        self._ahead = {} if following is None else {following: self._thread.submit(self._read, following)}
        try:
            return ready.result()
        finally:
            self.waited_seconds = time.perf_counter() - started

"""Counts what the task of this process reads, for the progress that the main process shows.

count(records=1) ──> Amounts ── every half second ──> report: the worker's pipe (run/workers.py) ──> StageProgress
"""

import contextlib
import dataclasses
import time
from collections.abc import Callable, Iterator

COUNT_EVERY_SECONDS = 0.5


@dataclasses.dataclass(frozen=True)
class Amounts:
    """The amounts that a task has read: records, and bytes of raw files."""

    records: int = 0
    raw_bytes: int = 0

    def __add__(self, other: "Amounts") -> "Amounts":
        return Amounts(self.records + other.records, self.raw_bytes + other.raw_bytes)


class _Counter:
    """Amounts that were counted in this process and not yet reported."""

    def __init__(self, report: Callable[[Amounts], None]) -> None:
        self.report, self.unreported, self.reported_at = report, Amounts(), time.monotonic()

    def flush(self) -> None:
        if self.unreported != Amounts():
            self.report(self.unreported)
        self.unreported, self.reported_at = Amounts(), time.monotonic()


_counter: list[_Counter] = []
"""The counter of this process, while a task runs whose progress is shown."""


@contextlib.contextmanager
def counting(report: Callable[[Amounts], None]) -> Iterator[None]:
    """Reports what is counted (``count``) inside the block: at its end, and every COUNT_EVERY_SECONDS."""
    before = _counter[:]
    _counter[:] = [_Counter(report)]
    try:
        yield
        _counter[0].flush()
    finally:
        _counter[:] = before


def count(records: int = 0, raw_bytes: int = 0) -> None:
    """Adds to the amounts that the task of this process has read."""
    for counter in _counter:
        counter.unreported += Amounts(records, raw_bytes)
        if time.monotonic() - counter.reported_at >= COUNT_EVERY_SECONDS:
            counter.flush()

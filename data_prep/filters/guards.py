"""Guards of cleaning against filters that are not ours: a limit on the CPU time of a page, and errors at a page.

    with CpuLimit() as limit:      a signal arrives every TICK_SECONDS of CPU time
        limit.start(characters)    ── is the limit of this page reached? ──> TooSlow, raised in the running code

    a dropped page: python.ManyQuestions.failed   "ZeroDivisionError in my_filters.py, line 20"

The time of a page is the CPU time of the thread that cleans it, so other work on the machine does not decide what is
dropped. The limit is thousands of times the cost of an ordinary page. The signal interrupts Python code and the
matching of ``re`` and ``regex``; other compiled code returns first. The filters of the project take time proportional
to the length of the page (benchmarks/robustness/adversarial_cost.py).

Errors that do not depend on the page (of the system, of missing packages or names) end the task. A class that fails at
most of the pages that it judges ends the stage.
"""

import signal
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any

from headrace.data_prep.filters.filter import FAILED, PageFailedError, is_within
from headrace.pipeline.core.errors import HeadraceError, TaskError
from headrace.pipeline.core.user_classes import position

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


NOT_OF_A_PAGE = (HeadraceError, OSError, MemoryError, ImportError, NameError)
"""Errors that do not depend on the page. An UnboundLocalError does, although it is a NameError."""
MANY = 10
"""The smallest number of pages of a shard that end its task when code fails at all of them."""


class PageErrors:
    """Context manager that turns an error at a page in the block into a PageFailedError.

    ``reason`` is the first part of the reason; ``file`` is that of the class, if it is known.
    """

    def __init__(self, reason: str, file: Path | None = None) -> None:
        self._reason, self._file = reason, file

    def __enter__(self) -> None:
        """Does nothing."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        is_general = isinstance(error, NOT_OF_A_PAGE) and not isinstance(error, UnboundLocalError)
        if isinstance(error, Exception) and not is_general:
            file, line = position(error, self._file)
            value = f"{type(error).__name__} in {file.name}, line {line}"  # its message may hold addresses of memory
            raise PageFailedError(self._reason, value) from error


def count_failure(failure: PageFailedError, counts: "Counter[str]") -> None:
    """Counts a page as ``failed:<base reason>:<error>``."""
    counts[f"failed:{failure.base_reason}:{failure.error}"] += 1


def refuse_failed_shard(counts: "Counter[str]", documents: int, where: str) -> None:
    """Refuses the result of a task in which code failed at all ``documents``, and so saves the time of the other tasks.

    Raises:
        TaskError: when they are MANY or more.
    """
    failures = _failures(counts)
    if MANY <= documents == sum(errors.total() for errors in failures.values()):
        reason = max(failures, key=lambda reason: failures[reason].total())
        raise _refusal(where, reason, failures[reason], documents)


def refuse_failed_classes(counts: "Counter[str]", base_reasons: Sequence[str], where: str) -> None:
    """Refuses the result of a stage in which a class failed at more than half of the pages that it judged.

    ``counts`` are the sums over all tasks, so the verdict does not depend on the shards. ``base_reasons`` are those of
    all filters, in order: a class does not judge pages that an earlier filter has dropped.

    Raises:
        TaskError: naming the class.
    """
    for reason, errors in _failures(counts).items():
        index = base_reasons.index(reason)
        earlier = {"too_slow", *base_reasons[:index]}.difference(base_reasons[index:])
        rules = [name for name in counts if name.startswith("dropped:")]
        before = [name for name in rules if any(is_within(rule, name.removeprefix("dropped:")) for rule in earlier)]
        judged = counts["documents_in"] - sum(counts[name] for name in before)
        if 2 * errors.total() > judged:
            raise _refusal(where, reason, errors, judged)


def _failures(counts: "Counter[str]") -> Mapping[str, "Counter[str]"]:
    """Returns the errors of each class that has failed, by its base reason, with their numbers of pages."""
    failures: dict[str, Counter[str]] = defaultdict(Counter)
    for name, number in counts.items():
        if name.startswith("failed:"):
            _, reason, error = name.split(":", 2)
            failures[reason][error] = number
    return failures


def _refusal(where: str, reason: str, errors: "Counter[str]", documents: int) -> TaskError:
    error = min(errors, key=lambda error: (-errors[error], error))
    problem = f"{reason}.{FAILED} at {errors.total():,} of {documents:,} pages: {error}"
    remedy = "correct the class and run again; if its file does not change, remove the stage's folder before"
    return TaskError(where, problem, remedy)

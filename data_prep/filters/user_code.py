"""Errors of code that is not ours at a page: a class of the user, or a filter of another project.

    a dropped page: python.ManyQuestions.failed   "ZeroDivisionError in my_filters.py, line 20"

Errors that do not depend on the page (of the system, of missing packages or names) end the task. A class that fails at
most of the pages that it judges ends the stage.
"""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType

from headrace.data_prep.filters.filter import FAILED, PageFailedError, is_within
from headrace.pipeline.core.errors import HeadraceError, TaskError
from headrace.pipeline.core.user_classes import position

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

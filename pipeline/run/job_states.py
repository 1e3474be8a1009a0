"""The state of a job in words, from its entries in the queue, its logs, and the tasks that are not done."""

from collections.abc import Iterable, Mapping, Sequence

from headrace.pipeline.clusters.base import CANCELLED, COMPLETED, PENDING, RUNNING, Entry, Job
from headrace.pipeline.core.errors import HeadraceError


def state_of_job(entries: Sequence[Entry], job: Job, missing: Sequence[int], reported: HeadraceError | None) -> str:
    """Returns the state of a phase from the ``entries`` of its ``job``.

    Its tasks ``missing`` are not done; ``reported`` is their last error.
    """
    live = [entry for entry in entries if entry.is_live]
    ended = {entry.index or 0: entry for entry in entries if not entry.is_live}
    indices = {0 if job.width is None else task % job.width for task in missing}
    if not live:
        failure = _failure(ended, job, sorted(indices))
        return f"{failure} ({reported})" if reported and _ran(job, indices) else failure
    started = [entry.state for entry in live if entry.state != PENDING]
    state = (RUNNING if RUNNING in started else started[0]) if started else f"{PENDING} ({live[0].reason})"
    failed = {index for index, entry in ended.items() if entry.state != COMPLETED}
    known = {entry.index for entry in entries}
    lost = set() if None in known else indices - known  # cancelled before they ran, or forgotten after their end
    failure = _failure(ended, job, sorted((failed | lost) - {entry.index for entry in live}))
    wait = f"; {live[0].remedy}" if live[0].remedy and (not started or len(entries) == 1) else ""
    return f"{state}, {failure}" if failure else f"{state}, job {live[0].job}{wait}"


def _failure(ended: Mapping[int, Entry], job: Job, indices: Sequence[int]) -> str:
    """Returns how the first of the array ``indices`` ended, of those that have a log if there are any: ``FAILED, see
    <log>``, and what to do if that is known. The text is empty without ``indices``."""
    if not indices:
        return ""
    ran = _ran(job, indices)
    index = min(ran, default=indices[0])
    entry = ended.get(index)
    if ran:
        text = f"{entry.state if entry else 'FAILED'}, see {job.log_of(index)}"
    elif entry and entry.state != CANCELLED:
        text = f"{entry.state} ({entry.reason}) without a log, {_named(job, indices)}"
    else:
        text = f"{CANCELLED} before it ran, {_named(job, indices)}"
    return f"{text}; {entry.remedy}" if entry and entry.remedy else text


def _ran(job: Job, indices: Iterable[int]) -> list[int]:
    """Returns those of the array ``indices`` of ``job`` that have a log."""
    return [index for index in indices if job.log_of(index).is_file()]


def _named(job: Job, indices: Sequence[int]) -> str:
    """Returns ``job 7``, or ``index 2 of job 7`` when ``indices`` are only some of an array."""
    if len(indices) == (job.width or 1):
        return f"job {job.job}"
    more = f" and {len(indices) - 1} more" if len(indices) > 1 else ""
    return f"index {indices[0]}{more} of job {job.job}"

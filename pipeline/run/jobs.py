"""The jobs of a run: records in the artifacts' folders, states in words, which `headrace status` prints, and logs.

    <artifact>/logs/submissions.json   {phase: {"token": "5f0c…", "job": {...}}}, until the job is recorded
    <artifact>/logs/jobs.json          {phase: {"job": "117", "log": "<run>/logs/clean.clean-117", "width": 40, ...}}
    Cluster.states                     the scheduler's states of jobs; it may forget a job after its end
    part records                       the tasks that are done, independent of the scheduler

The records are stored with the artifact, not with the run: runs of a sweep share the jobs of their common artifacts.
One job may be recorded for several phases and stages. A submission that stays in its file got no answer, or its command
was killed: the scheduler is asked for a job with its token before anything is submitted or cancelled.
"""

import dataclasses
import itertools
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence, Set
from pathlib import Path
from typing import Any

from headrace.pipeline.clusters.base import CANCELLED, COMPLETED, PENDING, RUNNING, Entry, Job, Scheduler
from headrace.pipeline.clusters.own_cluster import class_of, has_class, name_of
from headrace.pipeline.core import work_log
from headrace.pipeline.core.errors import ConfigError, HeadraceError, TaskError
from headrace.pipeline.core.json_files import read_sealed, write_sealed
from headrace.pipeline.core.secrets import redacted
from headrace.pipeline.report.formatting import visible
from headrace.pipeline.run.saved_run import AnyPhase, AnyStage, is_own


def state_of_job(entries: Sequence[Entry], job: Job, missing: Sequence[int], reported: HeadraceError | None) -> str:
    """Returns the state of a phase from the ``entries`` of its ``job``.

    Its tasks ``missing`` are not done; ``reported`` is their last error.
    """
    live = [entry for entry in entries if entry.is_live]
    ended = {entry.index or 0: entry for entry in entries if not entry.is_live}
    unfinished = {0 if job.width is None else task % job.width for task in missing}
    if not live:
        failure = _failure(ended, job, sorted(unfinished))
        return f"{failure} ({reported})" if reported and _ran(job, unfinished) else failure
    if failure := _failure(ended, job, sorted(_failed(entries, unfinished) - {entry.index for entry in live})):
        return f"{_state_of(live)}, {failure}"
    waits = len(entries) == 1 or all(entry.state == PENDING for entry in live)
    remedy = f"; {live[0].remedy}" if live[0].remedy and waits else ""
    return f"{_state_of(live)}, job {live[0].job}{remedy}"


def _state_of(live: Sequence[Entry]) -> str:
    """Returns the state of a job with the ``live`` entries: what runs counts before what waits."""
    started = [entry.state for entry in live if entry.state != PENDING]
    if not started:
        return f"{PENDING} ({live[0].reason})"
    return RUNNING if RUNNING in started else started[0]


def _failed(entries: Sequence[Entry], unfinished: Set[int]) -> set[int]:
    """Returns the array indices that ended early, or that the queue has no more although they are ``unfinished``: they
    were cancelled before they ran, or forgotten after their end."""
    failed = {entry.index or 0 for entry in entries if not entry.is_live and entry.state != COMPLETED}
    known = {entry.index for entry in entries}
    return failed if None in known else failed | (unfinished - known)


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


JOBS = "logs/jobs.json"
SUBMISSIONS = "logs/submissions.json"
UNANSWERED = "its submission got no answer yet: run the command again, which submits nothing twice"


@dataclasses.dataclass(frozen=True)
class Submission:
    """A job that is being submitted, or was without an answer."""

    token: str
    job: Job
    """The job, without an id, and the beginning of its logs without one."""


@dataclasses.dataclass(frozen=True)
class Queued:
    """A job that waits or runs."""

    job: Job
    is_running: bool
    """Whether it has started, for an array any of its indices."""


def announce(stage: AnyStage, phase: AnyPhase, submission: Submission) -> None:
    """Records that a job for ``phase`` will now be submitted."""
    _change(stage, SUBMISSIONS, {phase.name: dataclasses.asdict(submission)})


def withdraw(stage: AnyStage, phase: AnyPhase) -> None:
    """Removes the submission of ``phase``: the scheduler refused it, or its job is recorded."""
    _change(stage, SUBMISSIONS, {phase.name: None})


def record(stage: AnyStage, phase: AnyPhase, job: Job) -> None:
    """Records ``job`` as the latest of ``phase``. Its submission has its answer."""
    _change(stage, JOBS, {phase.name: dataclasses.asdict(job)})
    withdraw(stage, phase)


def _change(stage: AnyStage, name: str, changes: Mapping[str, Any]) -> None:
    """Writes ``changes`` of a file of records by phase; None removes a phase."""
    path = stage.folder / name
    before = read_sealed(path) if path.is_file() else {}
    after = {phase: value for phase, value in {**before, **changes}.items() if value is not None}
    if after != before:
        write_sealed(path, after)


def files(stage: AnyStage) -> list[Path]:
    """Returns the files of records of ``stage`` that are there."""
    return [path for name in (JOBS, SUBMISSIONS) if (path := stage.folder / name).is_file()]


def submissions(stage: AnyStage) -> dict[str, Submission]:
    """Returns the submission of each phase of ``stage`` that got no answer yet."""
    path = stage.folder / SUBMISSIONS
    fields_by_phase = read_sealed(path) if path.is_file() else {}
    return {
        phase: Submission(fields["token"], job)
        for phase, fields in fields_by_phase.items()
        if _may_load(job := Job.read(fields["job"]), path)
    }


def adopt(work: Sequence[tuple[AnyStage, AnyPhase]], scheduler: Scheduler) -> None:
    """Records the jobs of ``work`` whose submission got no answer, where ``scheduler`` has them.

    A job that such a job replaces is cancelled, as after an answer.

    Raises:
        ConfigError, TaskError: when the scheduler cannot be asked.
    """
    lost = [(stage, phase, submission) for stage, phase in work if (submission := submissions(stage).get(phase.name))]
    lost = [(stage, phase, submission) for stage, phase, submission in lost if has_class(submission.job.cluster)]
    server = scheduler.job_server if lost else ""
    for stage, phase, submission in lost:
        if not _is_of(submission.job, scheduler, server):
            _refuse_second(submission.job, f"{stage.name}.{phase.name}", stage.folder / SUBMISSIONS)
    own = {submission.token: submission.job for _, _, submission in lost if _is_of(submission.job, scheduler, server)}
    ids = scheduler.submitted(own) if own else {}
    for stage, phase, submission in lost:
        if (id := ids.get(submission.token)) is not None:
            before = queued([(stage, phase)], scheduler).get((stage.name, phase.name))
            if before is not None and before.job.job != id:
                scheduler.cancel([before.job])
            record(stage, phase, submission.job.identified(id))


def records(stage: AnyStage) -> dict[str, Job]:
    """Returns the latest job of each phase of ``stage`` that was ever submitted."""
    path = stage.folder / JOBS
    fields_by_phase = read_sealed(path) if path.is_file() else {}
    return {phase: job for phase, fields in fields_by_phase.items() if _may_load(job := Job.read(fields), path)}


def _may_load(job: Job, record: Path) -> bool:
    """Whether the class of the cluster of ``job`` may be loaded: another user's ``record`` could name any file."""
    return ":" not in job.cluster or is_own(record)


def queued(work: Sequence[tuple[AnyStage, AnyPhase]], scheduler: Scheduler) -> dict[tuple[str, str], Queued]:
    """Returns the jobs of these phases that wait or run on ``scheduler``, by the names of stage and phase.

    Raises:
        ConfigError, TaskError: when the scheduler cannot be asked.
    """
    recorded = {(stage.name, phase.name): records(stage).get(phase.name) for stage, phase in work}
    jobs = {key: job for key, job in recorded.items() if job and has_class(job.cluster)}
    server = scheduler.job_server if jobs else ""
    for stage, phase in work:
        job = jobs.get((stage.name, phase.name))
        if job is not None and not _is_of(job, scheduler, server):
            _refuse_second(job, f"{stage.name}.{phase.name}", stage.folder / JOBS)
            del jobs[stage.name, phase.name]
    entries = scheduler.states(list(jobs.values()))
    live = {key: [entry for entry in entries[job.job] if entry.is_live] for key, job in jobs.items()}
    return {
        key: Queued(jobs[key], any(entry.state != PENDING for entry in live_entries))
        for key, live_entries in live.items()
        if live_entries
    }


def _is_of(job: Job, scheduler: Scheduler, server: str) -> bool:
    """Whether ``scheduler``, which asks ``server``, has ``job``."""
    return job.cluster == name_of(scheduler) and job.server in ("", server)


def _refuse_second(job: Job, work: str, record: Path) -> None:
    """Refuses to submit ``work`` while another scheduler may have its ``job``, which is in the file ``record``.

    Raises:
        ConfigError: when the job waits or runs there, or cannot be asked for. A server that is gone has no jobs.
    """
    try:
        cluster = class_of(job.cluster)
        is_gone = getattr(cluster, "is_gone", None)  # a class of the user's own may know no servers
        if is_gone is not None and is_gone(job.server):
            return
        live = [entry for entry in cluster.states([job])[job.job] if entry.is_live] if job.job else [None]
        if not live:
            return
        where = next((entry.remedy for entry in live if entry), "")
    except (ConfigError, TaskError) as error:
        where = error.problem
    name = f"job {job.job}" if job.job else "a job whose submission got no answer"
    server = f" at {job.server}" if job.server else ""
    problem = f"{name} of {job.cluster.rpartition(':')[2]}{server} may wait or run{f' ({where})' if where else ''}"
    remedy = f"submit or cancel it there; if that cluster is gone, remove {record} (nothing is submitted twice)"
    raise ConfigError(work, problem, remedy)


def states(stages: Sequence[AnyStage]) -> dict[str, str]:
    """Returns ``asked_states``; where a scheduler cannot be asked, the id of the job and why."""
    try:
        return asked_states(stages)
    except (ConfigError, TaskError) as error:
        known, waiting = _submitted(stages)
        unknown = {name: f"submitted as job {job.job} ({error.problem})" for name, (_, _, job) in waiting.items()}
        return _in_order(stages, known | unknown)


def asked_states(stages: Sequence[AnyStage]) -> dict[str, str]:
    """Returns the states of submitted, unfinished stages: the scheduler's state, the first failed task, the reason.

    Raises:
        ConfigError, TaskError: when a scheduler cannot be asked.
    """
    known, waiting = _submitted(stages)
    for server in dict.fromkeys((job.cluster, job.server) for _, _, job in waiting.values()):
        of_server = {name: work for name, work in waiting.items() if (work[2].cluster, work[2].server) == server}
        known |= _states_on(server[0], of_server)
    return _in_order(stages, known)


def _in_order(stages: Sequence[AnyStage], known: Mapping[str, str]) -> dict[str, str]:
    return {stage.name: known[stage.name] for stage in stages if stage.name in known}


def _submitted(stages: Sequence[AnyStage]) -> tuple[dict[str, str], dict[str, tuple[AnyPhase, AnyStage, Job]]]:
    """Returns the states that need no scheduler, and the current phase and the job of the other submitted stages."""
    waiting: dict[str, tuple[AnyPhase, AnyStage, Job]] = {}
    known: dict[str, str] = {}
    for stage in stages:
        jobs = {} if stage.is_whole else records(stage)
        current = next((phase for phase in stage.phases if stage.missing(phase)), None)
        if current is not None and not stage.is_whole and current.name in submissions(stage):
            known[stage.name] = UNANSWERED
        elif current is not None and current.name in jobs and has_class(jobs[current.name].cluster):
            waiting[stage.name] = (current, stage, jobs[current.name])
    return known, waiting


def live(stages: Sequence[AnyStage]) -> dict[str, list[Job]]:
    """Returns the jobs of ``stages`` that wait or run, by their cluster.

    Raises:
        ConfigError, TaskError: when a scheduler cannot be asked.
    """
    submitted: dict[tuple[str, str], dict[str, Job]] = defaultdict(dict)
    unfinished = [stage for stage in stages if not stage.is_whole]
    for job in itertools.chain(*(records(stage).values() for stage in unfinished)):
        submitted[job.cluster, job.server][job.job] = job
    lost = {submission.token: submission.job for stage in unfinished for submission in submissions(stage).values()}
    for cluster in filter(has_class, {job.cluster for job in lost.values()}):
        own = {token: job for token, job in lost.items() if job.cluster == cluster}
        for token, id in class_of(cluster).submitted(own).items():
            submitted[cluster, own[token].server][id] = own[token].identified(id)
    live_by_cluster: dict[str, list[Job]] = defaultdict(list)
    for (cluster, _), jobs in submitted.items():
        entries = class_of(cluster).states(list(jobs.values())) if has_class(cluster) else {}
        live_by_cluster[cluster] += [jobs[id] for id, own in entries.items() if any(entry.is_live for entry in own)]
    in_order = {
        cluster: sorted(jobs, key=lambda job: (len(job.job), job.job)) for cluster, jobs in live_by_cluster.items()
    }
    return {cluster: jobs for cluster, jobs in in_order.items() if jobs}


def cancel(cluster: str, jobs: Sequence[Job]) -> None:
    """Cancels ``jobs`` of the class of that name."""
    class_of(cluster).cancel(jobs)


def _states_on(cluster: str, waiting: Mapping[str, tuple[AnyPhase, AnyStage, Job]]) -> dict[str, str]:
    """Returns the states of the stages ``waiting``, which were submitted to ``cluster``."""
    entries = class_of(cluster).states([job for _, _, job in waiting.values()])
    known: dict[str, str] = {}
    shown: dict[str, str] = {}
    for name, (phase, stage, job) in waiting.items():
        earlier = shown.setdefault(job.job, name)
        if earlier != name:
            is_live = any(entry.is_live for entry in entries[job.job])
            known[name] = f"{PENDING if is_live else CANCELLED} (after {earlier}), job {job.job}"
        else:
            known[name] = state_of_job(entries[job.job], job, stage.missing(phase), work_log.error_of(stage.folder))
    return known


TAIL_BYTES = 1 << 18


def log_files(stage: AnyStage) -> list[Path]:
    """Returns the logs of ``stage`` that exist: of its jobs, its ranks and its workers, the newest first."""
    files = set((stage.folder / "logs").rglob("*.log"))
    for job in records(stage).values():
        files |= set(Path(job.log).parent.glob(f"{Path(job.log).name}*.log"))
    return sorted((path for path in files if path.stat().st_size), key=lambda path: -path.stat().st_mtime_ns)


def tail(path: Path, lines: int) -> list[str]:
    """Returns the last ``lines`` of ``path``, with control characters made visible, without secrets."""
    with path.open("rb") as stream:
        stream.seek(max(0, path.stat().st_size - TAIL_BYTES))
        text = stream.read().decode("utf-8", "replace")
    return redacted("\n".join(visible(text, len(text)).splitlines()[-lines:])).splitlines()

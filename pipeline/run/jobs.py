"""The jobs of a run: records in the artifacts' folders, states in words, which `headrace status` prints.

    <artifact>/logs/jobs.json     {phase: {"job": "117", "log": "<run>/logs/clean.clean-117", "token": "5f0c…", ...}}
    Cluster.states                the scheduler's states of jobs; it may forget a job after its end
    part records                  the tasks that are done, independent of the scheduler

The records are stored with the artifact, not with the run: runs of a sweep share the jobs of their common artifacts.
One job may be recorded for several phases and stages. A job is recorded before its submission, without an id. One that
stays so got no answer, or its command was killed: the scheduler is asked for a job with its token before anything is
submitted or cancelled.
"""

import dataclasses
import functools
import inspect
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from headrace.pipeline.clusters import CLUSTERS
from headrace.pipeline.clusters.base import CANCELLED, COMPLETED, PENDING, RUNNING, Cluster, Entry, Job, Scheduler
from headrace.pipeline.core import work_log
from headrace.pipeline.core.errors import ConfigError, HeadraceError, TaskError
from headrace.pipeline.core.json_files import read_sealed, write_sealed
from headrace.pipeline.core.user_classes import load_class, loading_errors
from headrace.pipeline.run.saved_run import AnyPhase, AnyStage, is_own

JOBS = "logs/jobs.json"
UNANSWERED = "its submission got no answer yet: run the command again, which submits nothing twice"


def name_of(cluster: Cluster) -> str:
    """Returns the name of the class of ``cluster`` in records of jobs: ``slurm``, or ``<file>:<class>``."""
    cls = type(cluster)
    is_known = cluster.type in CLUSTERS and CLUSTERS[cluster.type] is cls
    return cluster.type if is_known else f"{inspect.getfile(cls)}:{cls.__qualname__}"


def has_class(name: str) -> bool:
    """Whether ``class_of`` has a class of this ``name``, which is not loaded."""
    return ":" in name or name in CLUSTERS


@functools.cache
def class_of(name: str) -> type[Cluster]:
    """Returns the class of this ``name``, for which ``has_class`` is true.

    Raises:
        ConfigError: when the file of a class of the user's own is gone, or fails.
    """
    if ":" not in name:
        cls: type[Cluster] = CLUSTERS[name]
        return cls
    path, _, class_name = name.rpartition(":")
    file, where = Path(path), "cluster.type"
    if not file.is_file():
        raise ConfigError(where, f"no file {path!r}, which had the class of these jobs", "bring it back")
    with loading_errors(where, file):
        return load_class(where, file, class_name, "cluster", lambda cls: hasattr(cls, "scheduler"))


def record(stage: AnyStage, phase: AnyPhase, job: Job | None) -> None:
    """Records ``job`` as the latest of ``phase``; None: the scheduler refused it."""
    path = stage.folder / JOBS
    before = read_sealed(path) if path.is_file() else {}
    after = {name: fields for name, fields in before.items() if name != phase.name}
    if job is not None:
        after[phase.name] = dataclasses.asdict(job)
    write_sealed(path, after)


def files(stage: AnyStage) -> list[Path]:
    """Returns the files of records of ``stage`` that are there."""
    return [path for path in (stage.folder / JOBS,) if path.is_file()]


def records(stage: AnyStage) -> dict[str, Job]:
    """Returns the latest job of each phase of ``stage``, by the name of the phase.

    A class of a user's own is loaded later, so the records of another user that name one, which may be any file, are
    left out, as are those of clusters that are not installed.
    """
    jobs = {phase: Job.read(fields) for path in files(stage) for phase, fields in read_sealed(path).items()}
    return {
        phase: job
        for phase, job in jobs.items()
        if has_class(job.cluster) and (":" not in job.cluster or is_own(stage.folder / JOBS))
    }


def queued(work: Sequence[tuple[AnyStage, AnyPhase]], scheduler: Scheduler) -> dict[tuple[str, str], Job]:
    """Returns the jobs of these phases that wait or run on ``scheduler``, by the names of stage and phase.

    Jobs whose submission got no answer are recorded with their id, where the scheduler has them.

    Raises:
        ConfigError: when another scheduler may have a job of these phases; also when the scheduler cannot be asked.
        TaskError: when the scheduler does not answer.
    """
    recorded = [(stage, phase, job) for stage, phase in work if (job := records(stage).get(phase.name))]
    server = scheduler.job_server if recorded else ""
    jobs = {}
    for stage, phase, job in recorded:
        if job.cluster == name_of(scheduler) and job.server in ("", server):
            jobs[stage.name, phase.name] = job
        else:
            _refuse_second(job, f"{stage.name}.{phase.name}", stage.folder / JOBS)
    lost = {job.token: job for job in jobs.values() if not job.job}
    ids = scheduler.submitted(lost) if lost else {}
    for stage, phase, job in recorded:
        if job.token in ids:
            jobs[stage.name, phase.name] = job.identified(ids[job.token])
            record(stage, phase, jobs[stage.name, phase.name])
    jobs = {key: job for key, job in jobs.items() if job.job}
    entries = scheduler.states(list(jobs.values()))
    return {key: job for key, job in jobs.items() if any(entry.is_live for entry in entries[job.job])}


def _refuse_second(job: Job, work: str, record: Path) -> None:
    """Refuses to submit ``work`` while another scheduler may have its ``job``, which is in the file ``record``.

    Raises:
        ConfigError: when the job waits or runs there, or the scheduler cannot be asked.
    """
    where = ""
    try:
        if job.job:
            live = [entry for entry in class_of(job.cluster).states([job])[job.job] if entry.is_live]
            if not live:
                return
            where = live[0].remedy
    except (ConfigError, TaskError) as error:
        where = error.problem
    name = f"job {job.job}" if job.job else "a job whose submission got no answer"
    server = f" at {job.server}" if job.server else ""
    problem = f"{name} of {job.cluster.rpartition(':')[2]}{server} may wait or run{f' ({where})' if where else ''}"
    remedy = f"submit or cancel it there; if that cluster is gone, remove {record} (nothing is submitted twice)"
    raise ConfigError(work, problem, remedy)


def live(stages: Sequence[AnyStage]) -> dict[str, list[Job]]:
    """Returns the jobs of ``stages`` that wait or run, by their cluster.

    Raises:
        ConfigError, TaskError: when a scheduler cannot be asked.
    """
    recorded = [job for stage in stages if not stage.is_whole for job in records(stage).values()]
    live_jobs = {}
    for cluster, jobs in _by_cluster(recorded).items():
        lost = {job.token: job for job in jobs if not job.job}
        ids = class_of(cluster).submitted(lost) if lost else {}
        known = {job.job: job for job in jobs if job.job}
        known |= {id: lost[token].identified(id) for token, id in ids.items()}
        entries = class_of(cluster).states(list(known.values())) if known else {}
        waiting = [known[id] for id, of_job in entries.items() if any(entry.is_live for entry in of_job)]
        if waiting:
            live_jobs[cluster] = sorted(waiting, key=lambda job: (len(job.job), job.job))
    return live_jobs


def cancel(cluster: str, jobs: Sequence[Job]) -> None:
    """Cancels ``jobs`` of the class of that name."""
    class_of(cluster).cancel(jobs)


def states(stages: Sequence[AnyStage]) -> dict[str, str]:
    """Returns ``asked_states``; where a scheduler cannot be asked, the id of the job and why."""
    try:
        return asked_states(stages)
    except (ConfigError, TaskError) as error:
        problem = error.problem
    current = {stage.name: job for stage, _, job in _current(stages)}
    return {name: f"submitted as job {job.job} ({problem})" if job.job else UNANSWERED for name, job in current.items()}


def asked_states(stages: Sequence[AnyStage]) -> dict[str, str]:
    """Returns the states of submitted, unfinished stages: the scheduler's state, the first failed task, the reason.

    Raises:
        ConfigError, TaskError: when a scheduler cannot be asked.
    """
    current = _current(stages)
    entries = {
        (cluster, id): of_job
        for cluster, jobs in _by_cluster(job for _, _, job in current if job.job).items()
        for id, of_job in class_of(cluster).states(jobs).items()
    }
    known: dict[str, str] = {}
    first_stages: dict[tuple[str, str], str] = {}
    for stage, phase, job in current:
        of_job = entries.get((job.cluster, job.job), [])
        first = first_stages.setdefault((job.cluster, job.job), stage.name)
        if not job.job:
            known[stage.name] = UNANSWERED
        elif first != stage.name:
            state = PENDING if any(entry.is_live for entry in of_job) else CANCELLED
            known[stage.name] = f"{state} (after {first}), job {job.job}"
        else:
            known[stage.name] = state_of_job(of_job, job, stage.missing(phase), work_log.error_of(stage.folder))
    return known


def _current(stages: Sequence[AnyStage]) -> list[tuple[AnyStage, AnyPhase, Job]]:
    """Returns the unfinished stages whose current phase was submitted, with this phase and its job."""
    current = []
    for stage in stages:
        jobs = {} if stage.is_whole else records(stage)
        phase = next((phase for phase in stage.phases if stage.missing(phase)), None) if jobs else None
        if phase is not None and phase.name in jobs:
            current.append((stage, phase, jobs[phase.name]))
    return current


def _by_cluster(jobs: Iterable[Job]) -> dict[str, list[Job]]:
    by_cluster = defaultdict(list)
    for job in jobs:
        by_cluster[job.cluster].append(job)
    return by_cluster


def state_of_job(entries: Sequence[Entry], job: Job, missing: Sequence[int], reported: HeadraceError | None) -> str:
    """Returns the state of a phase from the ``entries`` of its ``job``.

    Its tasks ``missing`` are not done; ``reported`` is their last error.
    """
    unfinished = {job.index_of(task) for task in missing}
    ended = {entry.index or 0: entry for entry in entries if not entry.is_live}
    live = [entry for entry in entries if entry.is_live]
    if not live:
        failure = _failure(ended, job, unfinished)
        return f"{failure} ({reported})" if reported and _with_log(job, unfinished) else failure
    state = _state_of(live)
    known = {entry.index for entry in entries}
    early = {index for index, entry in ended.items() if entry.state != COMPLETED}
    gone = set() if None in known else unfinished - known  # cancelled before they ran, or forgotten after their end
    if failed := (early | gone) - {entry.index for entry in live}:
        return f"{state}, {_failure(ended, job, failed)}"
    waits = len(entries) == 1 or all(entry.state == PENDING for entry in live)
    remedy = f"; {live[0].remedy}" if live[0].remedy and waits else ""
    return f"{state}, job {live[0].job}{remedy}"


def _state_of(live: Sequence[Entry]) -> str:
    """Returns the state of a job with the ``live`` entries: what runs counts before what waits."""
    started = [entry.state for entry in live if entry.state != PENDING]
    if not started:
        return f"{PENDING} ({live[0].reason})"
    return RUNNING if RUNNING in started else started[0]


def _failure(ended: Mapping[int, Entry], job: Job, failed: set[int]) -> str:
    """Returns how the first of the array indices ``failed`` ended, of those that have a log if there are any, and what
    to do if that is known: ``FAILED, see <log>``. The text is empty without an index."""
    if not failed:
        return ""
    with_log = _with_log(job, failed)
    index = min(with_log or failed)
    entry = ended.get(index)
    which = f"job {job.job}"
    if len(failed) != (job.width or 1):
        more = f" and {len(failed) - 1} more" if len(failed) > 1 else ""
        which = f"index {index}{more} of {which}"
    if with_log:
        text = f"{entry.state if entry else 'FAILED'}, see {job.log_of(index)}"
    elif entry and entry.state != CANCELLED:
        text = f"{entry.state} ({entry.reason}) without a log, {which}"
    else:
        text = f"{CANCELLED} before it ran, {which}"
    return f"{text}; {entry.remedy}" if entry and entry.remedy else text


def _with_log(job: Job, indices: Iterable[int]) -> list[int]:
    """Returns those of the array ``indices`` of ``job`` that have a log, so have begun."""
    return [index for index in indices if job.log_of(index).is_file()]

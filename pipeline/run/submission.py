"""Submission of a run to a cluster: the same stages as on one machine, as a chain of jobs.

    texts … packed ──> weights.weights ──> scores.scores ──> ...      small data: the data stages are one job
    texts.texts ──> clean.0-filter ──> ...                            large data: a job for each phase

Each job starts when the one before it succeeded; with notices, one more starts after any end of all of them
(run/notice_program.py). The command returns at once; the jobs do the work. Submitting again submits only missing tasks
without a queued job. Queued jobs keep their resources: ``headrace cancel`` stops them, and the next command submits
others.

A full queue does not take the rest of a chain. The last job that it took submits it at its end, as the command that
submitted the run would do:

    <root>/runs/rest-118-<run>.json     {"run_json": …}: job 118, which may be that of another run, submits its rest

python -m headrace.pipeline.run.submission RUN_JSON
"""

import dataclasses
import itertools
import secrets
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from rich.table import Table

from headrace.pipeline.clusters.base import FullQueueError, Job, JobPhase, JobRequest, Scheduler, adopt_job, rests
from headrace.pipeline.core.claim import claimed_when_free
from headrace.pipeline.core.errors import HeadraceError, RetryableError
from headrace.pipeline.core.json_files import read_sealed, write_sealed
from headrace.pipeline.core.stage import Phase
from headrace.pipeline.output.terminal import show_table, terminal
from headrace.pipeline.run.jobs import name_of, queued, record, records
from headrace.pipeline.run.planned_stage import PlannedStage, save_stage
from headrace.pipeline.run.planner import load
from headrace.pipeline.run.saved_run import RUN_JSON, SavedRun, frozen, stage_of_job, take_effect
from headrace.pipeline.tracking.notices import noticed, send, wants_notices

CLAIM = "submission.claim"
"""The claim of a command that submits, among the runs of its root: two at once would both submit what is missing."""


@dataclasses.dataclass(frozen=True)
class Work:
    """The missing tasks of a phase, and their job if it waits or runs."""

    step: PlannedStage
    phase: Phase
    job: Job | None

    @property
    def tasks(self) -> list[int]:
        return self.step.missing(self.phase)


def submit(stages: Sequence[PlannedStage], scheduler: Scheduler, run_json: Path, takes_effect: bool = True) -> None:
    """Submits the missing tasks of ``stages``, each job after the one before it, and prints what was submitted.

    A ``run_json`` that is a draft takes effect with the first job: a submission without one changes nothing. A job that
    submits the rest of its chain does not replace settings of a later start (``takes_effect``).

    Raises:
        ConfigError: when settings cannot be passed on, or this machine cannot submit.
        TaskError: when the scheduler refuses a job. Those submitted before it stay in the queue; when it is only full,
            the last of them submits the rest, and nothing is raised.
        RetryableError: when the scheduler gives no answer: the same command goes on.
    """
    scheduler.check(run_json)
    with claimed_when_free(run_json.parent.with_name(CLAIM), "submission"):
        while not _submit(stages, scheduler, run_json, takes_effect):
            pass


def _submit(stages: Sequence[PlannedStage], scheduler: Scheduler, run_json: Path, takes_effect: bool) -> bool:
    """Submits as ``submit`` does. Returns False when there is room in the queue again for jobs that it did not take."""
    for stage in stages:
        stage.finish_if_complete()
    missing = _missing(stages)
    if not missing:
        _take_effect(run_json, takes_effect)
        terminal().print("everything was done before: nothing to submit")
        return True
    draft, run_json = run_json, frozen(run_json)
    saved = SavedRun(draft, read_sealed(draft))
    jobs = queued(missing, scheduler)
    work = [Work(stage, phase, jobs.get((stage.name, phase.name))) for stage, phase in missing]
    server = scheduler.job_server
    table = Table("stage", "phase", "tasks", "job", "after", "", box=None, header_style="bold")
    chain: list[str] = []
    submitted = 0
    full = ""
    for rest in rests(run_json, run=saved.id):
        rest.unlink(missing_ok=True)
    try:
        for group in _grouped(work, scheduler):
            after = chain[-1] if chain else None
            if (job := group[0].job) is not None:
                note = "submitted before"
            else:
                job, note = _submit_group(group, saved.label, scheduler, server, run_json, after), "submitted"
                submitted += 1
            chain.append(job.job)
            if after is None:
                _take_effect(draft, takes_effect)
            table.add_row(*_cells(group), job.job, after or "", note)
    except FullQueueError as error:
        if not chain:
            raise
        write_sealed(run_json.parent.with_name(f"rest-{chain[-1]}-{saved.id}.json"), {"run_json": str(run_json)})
        full = f"{error.problem}; so job {chain[-1]} submits the rest at its end"
    finally:
        if submitted and not full:  # the job that submits the rest submits that of the notice, too
            _submit_notice(scheduler, run_json, saved.label, chain)
        if table.row_count:
            show_table(table)
    for note in scheduler.notes():
        print(note)
    print(f"logs: {run_json.parent / 'logs'}/<stage>.<phase>-<job>_<index>.log")
    follow, stop = saved.command("status"), saved.command("cancel")
    if submitted:
        print(f"submitted {submitted} jobs; follow them with `{follow}`, stop them with `{stop}`")
    else:
        print(f"nothing new was submitted: `{follow}` shows how far it is; for other resources first `{stop}`")
    if full:
        print(full)
    return not (full and _ended_well(missing, scheduler, chain[-1]))


def _ended_well(missing: Sequence[tuple[PlannedStage, Phase]], scheduler: Scheduler, job: str) -> bool:
    """Whether ``job`` has done its work, perhaps before it could read that it submits the rest."""
    work = [
        (stage, phase) for stage, phase in missing if (known := records(stage).get(phase.name)) and known.job == job
    ]
    return not any(stage.missing(phase) for stage, phase in work) and not queued(work, scheduler)


def _submit_notice(scheduler: Scheduler, run_json: Path, name: str, awaited: Sequence[str]) -> None:
    """Submits the job that sends a notice after the jobs ``awaited``, where the run asks for notices and the scheduler
    has such jobs. A refusal is one line: the other jobs are in the queue."""
    submit_notice = getattr(scheduler, "submit_notice", None)
    if submit_notice is None or not wants_notices(run_json):
        return
    try:
        submit_notice(run_json, f"{name}:notice", awaited)
    except HeadraceError as error:
        print(f"notify: no job sends a notice after these: {error}", file=sys.stderr)


def planned_jobs(stages: Sequence[PlannedStage], scheduler: Scheduler, run_json: Path, name: str) -> list[list[str]]:
    """Returns the commands that would submit the missing tasks of ``stages``, if no job of theirs was in the queue.

    Jobs have the numbers 1, 2, … in dependencies, and comments are those of another submission. Nothing is written.

    Raises:
        ConfigError: when settings cannot be passed on, or this machine cannot submit.
    """
    scheduler.check(run_json)
    work = [Work(stage, phase, None) for stage, phase in _missing(stages)]
    groups = _grouped(work, scheduler)
    return [
        scheduler.command(_request(group, name, run_json.resolve(), str(number) if number else None))
        for number, group in enumerate(groups)
    ]


def _missing(stages: Sequence[PlannedStage]) -> list[tuple[PlannedStage, Phase]]:
    return [(stage, phase) for stage in stages if not stage.is_whole for phase in stage.phases if stage.missing(phase)]


def _grouped(work: Sequence[Work], scheduler: Scheduler) -> Iterator[list[Work]]:
    """Yields the work of each job: one phase; all consecutive data phases when they run in one job."""
    data = {item.step.name: item.step.description for item in work if not item.step.stage.distributed}
    raw_bytes = sum(file["bytes"] for description in data.values() for file in description.get("raw_files", ()))
    joins = scheduler.joins(raw_bytes)

    def job(item: Work) -> tuple[object, ...]:
        if item.job:
            return (item.job.job,)
        return () if joins and not item.step.stage.distributed else (item.step.name, item.phase.name)

    for _, group in itertools.groupby(work, job):
        yield list(group)


def _submit_group(
    group: Sequence[Work], name: str, scheduler: Scheduler, server: str, run_json: Path, after: str | None
) -> Job:
    """Submits one job for ``group``, to start once job ``after`` has succeeded, and records it for each phase.

    It is recorded before, without an id. So after a kill at any point the same command finds the job by its token.
    """
    request = _request(group, name, run_json, after)
    request.log.parent.mkdir(parents=True, exist_ok=True)
    if request.kind == "ranks":
        save_stage(group[0].step, stage_of_job(run_json, request.stage))
    width = scheduler.array_width(request)
    job = Job("", str(request.log), width, name_of(scheduler), request.name, server, request.token)
    earlier = [records(item.step).get(item.phase.name) for item in group]
    for item in group:
        record(item.step, item.phase, job)
    try:
        job = job.identified(scheduler.submit(request))
    except RetryableError:  # there may be a job
        raise
    except HeadraceError:
        for item, before in zip(group, earlier, strict=True):
            record(item.step, item.phase, before)
        raise
    for item in group:
        record(item.step, item.phase, job)
    return job


def _request(group: Sequence[Work], name: str, run_json: Path, after: str | None) -> JobRequest:
    """Returns the job for ``group`` of the run ``name``, to start once job ``after`` has succeeded."""
    first, last = group[0], group[-1]
    return JobRequest(
        kind="ranks" if first.step.stage.distributed else "tasks" if len(group) == 1 else "stages",
        name=f"{name}:{_title(group)}",
        run_json=run_json,
        stage=first.step.name,
        last=last.step.name,
        phase=first.phase.name,
        folder=first.step.folder,
        tasks=first.phase.tasks,
        missing=first.tasks,
        phases=[
            JobPhase(item.step.name, item.phase.name, item.phase.tasks, str(item.step.folder.resolve()))
            for item in group
        ],
        after=after,
        token=secrets.token_hex(8),
    )


def _title(group: Sequence[Work]) -> str:
    """Returns ``texts``, ``duplicates.verify`` when the stage has several phases, or ``texts..packed``."""
    stage, phase = group[0].step, group[0].phase
    if stage is not group[-1].step:
        return f"{stage.name}..{group[-1].step.name}"
    return f"{stage.name}.{phase.name}" if len(stage.phases) > 1 and len(group) == 1 else stage.name


def _cells(group: Sequence[Work]) -> tuple[str, str, str]:
    """Returns the stage, the phase and the number of tasks of a row of the table."""
    tasks = str(sum(len(item.tasks) for item in group))
    if len(group) == 1:
        return group[0].step.name, group[0].phase.name, tasks
    return _title(group), f"{len(group)}-phases", tasks


def _take_effect(draft: Path, takes_effect: bool) -> None:
    if takes_effect and draft.name != RUN_JSON:
        take_effect(draft)


def main(run_json: Path) -> int:
    """Submits the rest of the run in ``run_json``. A failure is printed, and sent to the user who waits for the run."""
    with noticed(run_json):
        try:
            config, stages = load(run_json)
            if scheduler := config.cluster.scheduler:
                submit(stages, scheduler, run_json, takes_effect=False)
        except HeadraceError as error:
            print(f"headrace: {error}", file=sys.stderr, flush=True)
            send("waits", "report", f"the rest of the chain is not submitted: {error}")
            return error.exit_status
    return 0


if __name__ == "__main__":
    adopt_job()
    sys.exit(main(Path(sys.argv[1])))

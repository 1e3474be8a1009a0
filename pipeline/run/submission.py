"""Submission of a run to a cluster: the same steps as on one machine, as a chain of jobs.

    clean.clean ──> weights.weights ──> scores.scores ──> ...      each job starts when the one before it succeeded

The command returns at once; the jobs do the work. Submitting again submits only missing tasks without a queued job.
"""

import hashlib
from collections.abc import Sequence
from pathlib import Path

from rich.table import Table

from headrace.pipeline.clusters.base import Job, JobRequest, Scheduler
from headrace.pipeline.core.json_files import read_sealed, write_sealed
from headrace.pipeline.core.stage import Phase
from headrace.pipeline.core.terminal import terminal
from headrace.pipeline.run.jobs import job_name, record
from headrace.pipeline.run.planner import Step


def submit(steps: Sequence[Step], scheduler: Scheduler, run_json: Path) -> None:
    """Submits the missing tasks of ``steps``, each job after the one before it, and prints what was submitted.

    Raises:
        ConfigError: when settings cannot be passed on, or this machine cannot submit.
        TaskError: when the scheduler refuses a job. Those submitted before it stay in the queue.
    """
    scheduler.check(run_json)
    for step in steps:
        step.finish_if_complete()
    work = [(step, phase) for step in steps if not step.is_whole for phase in step.phases if step.missing(phase)]
    if not work:
        terminal().print("everything was done before: nothing to submit")
        return
    run_json = _frozen(run_json)
    entries = scheduler.states([job_name(step, phase) for step, phase in work])
    table = Table("stage", "phase", "tasks", "job", "after", "", box=None, header_style="bold")
    previous: int | None = None
    submitted = []
    try:
        for step, phase in work:
            live = [entry.job for entry in entries[job_name(step, phase)] if entry.is_live]
            after = "" if previous is None else str(previous)
            if live:
                previous, note = max(live), "submitted before"
            else:
                job = _submit_phase(step, phase, scheduler, run_json, previous)
                previous, note = job.job, "submitted"
                submitted.append(job.job)
            table.add_row(step.name, phase.name, str(len(step.missing(phase))), str(previous), after, note)
    finally:
        if table.row_count:
            terminal().print(table)
    print(f"logs: {run_json.parent / 'logs'}/<stage>.<phase>-<job>_<index>.log")
    print(_last_line(submitted, scheduler))


def _last_line(submitted: Sequence[int], scheduler: Scheduler) -> str:
    if not submitted:
        return "nothing new was submitted: `headrace status` shows how far it is"
    cancel = scheduler.cancel_command(submitted)
    return f"submitted {len(submitted)} jobs; follow them with `headrace status`, stop them with `{cancel}`"


def _frozen(run_json: Path) -> Path:
    """Copies ``run_json`` to a file named after its content, so later runs do not change what queued jobs read."""
    values = read_sealed(run_json)
    name = hashlib.sha256(run_json.read_bytes()).hexdigest()[:12]
    path = run_json.resolve().with_name(f"run-{name}.json")
    write_sealed(path, values)
    return path


def _submit_phase(step: Step, phase: Phase, scheduler: Scheduler, run_json: Path, after: int | None) -> Job:
    """Submits the missing tasks of ``phase``, to start once job ``after`` has succeeded, and records the job."""
    request = JobRequest(
        name=job_name(step, phase),
        run_json=run_json,
        stage=step.name,
        phase=phase.name,
        folder=step.folder,
        tasks=phase.tasks,
        missing=step.missing(phase),
        distributed=step.stage.distributed,
        after=after,
    )
    request.log.parent.mkdir(parents=True, exist_ok=True)
    job = scheduler.submit(request)
    record(step, phase, job)
    return job

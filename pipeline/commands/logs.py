"""``headrace logs``: the logs of a run: their paths, their ends, and the tasks that run or failed.

headrace logs                         the stage that your newest run is at, or ended at
headrace logs small tokens            one stage of the run ``small``
headrace logs small --lines 100       more of each log
headrace logs small clean --task 7    the logs of the array index that runs this task on a cluster

    stage   tokens, 11 of 12 tasks done
    error   tokens task 7: OSError: …
    log     /data/runs/tokens/0b5c2f7d9e11/logs/tokens.log
        …
"""

from collections.abc import Iterator, Sequence
from pathlib import Path

import click

from headrace.pipeline.command_line.choice import chosen_run
from headrace.pipeline.command_line.declaration import command, run_argument
from headrace.pipeline.core import work_log
from headrace.pipeline.core.errors import ConfigError, TaskError, suggestion
from headrace.pipeline.core.settings import Natural, Positive, value_of
from headrace.pipeline.output.terminal import Fact, show
from headrace.pipeline.run import jobs
from headrace.pipeline.run.run_state import CurrentPhase
from headrace.pipeline.run.saved_run import AnyStage
from headrace.pipeline.run.storage import Stored

MAX_LOGS = 3
"""Logs whose ends are printed. The paths of all are printed."""


@command
@run_argument
@click.argument("stage", metavar="[STAGE]", required=False, default="")
@click.option("--lines", metavar="N", default="20", help="Lines of the end of each log; 20 without it.")
@click.option("--task", metavar="N", default="", help="Only the logs of the array index that runs this task.")
def logs(overrides: Sequence[str], run: str, stage: str, lines: str, task: str) -> None:
    """Prints the logs of a stage of a run: paths, last lines, and which tasks run or failed."""
    count = value_of(Positive, lines, "--lines")
    planned = stage_of(chosen_run(overrides, run).stages, stage)
    files = of_task(planned, value_of(Natural, task, "--task")) if task else jobs.log_files(planned)
    show(explain(planned))
    show([("log", str(path)) for path in files])
    begun, held = {*begun_tasks(planned).values()}, tasks_in(planned)
    for path in sorted(files, key=lambda path: path not in begun)[:MAX_LOGS]:
        print(f"\n{path}{f' ({held[path]})' if path in held else ''}:")
        print("\n".join(jobs.tail(path, count)))


def stage_of(stages: Sequence[AnyStage], stage: str) -> AnyStage:
    """Returns the planned ``stage``; without it the first unfinished one that has begun, else the last finished one.

    Raises:
        ConfigError: when the run has no such stage, or nothing has begun.
    """
    if stage:
        named = next((planned for planned in stages if planned.name == stage), None)
        if named is None:
            known = [planned.name for planned in stages]
            raise ConfigError("STAGE", f"the run has no stage {stage!r}", suggestion(stage, known))
        return named
    begun = [planned for planned in stages if not planned.is_whole and (planned.folder / "logs").is_dir()]
    whole = [planned for planned in stages if planned.is_whole]
    if not begun and not whole:
        raise ConfigError("RUN", "no stage has begun", "see headrace status")
    return (begun or whole[::-1])[0]


def explain(stage: AnyStage) -> Iterator[Fact]:
    """Yields how far the stage is, its last error and its unfinished tasks that have begun."""
    if stage.is_whole:
        yield "stage", f"{stage.name}, done"
        return
    tasks = sum(phase.tasks for phase in stage.phases)
    done = tasks - sum(len(stage.missing(phase)) for phase in stage.phases)
    yield "stage", f"{stage.name}, {done} of {tasks or '?'} tasks done"
    if len(stage.phases) > 1 and (current := CurrentPhase.of(stage)):
        yield "at", str(current)
    for state in jobs.states([stage]).values():
        yield "job", state
    if error := work_log.error_of(stage.folder):
        yield "error", str(error)
    if tasks_begun := begun_tasks(stage):
        is_running = Stored(stage.folder).is_in_use or has_live_job(stage)
        for task in tasks_begun:
            yield "running" if is_running else "failed", task


def has_live_job(stage: AnyStage) -> bool:
    """Whether a job of ``stage`` waits or runs; False when the scheduler cannot be asked."""
    try:
        return bool(jobs.live([stage]))
    except (ConfigError, TaskError):
        return False


def begun_tasks(stage: AnyStage) -> dict[str, Path]:
    """Returns the unfinished tasks of ``stage`` whose array index in a job has a log, so has begun, with the log."""
    records = jobs.records(stage)
    log_of_task = {}
    for phase in [] if stage.is_whole else stage.phases:
        for task in stage.missing(phase) if phase.name in records else ():
            log = records[phase.name].log_of_task(task)
            if log.is_file():
                log_of_task[f"{stage.name} {phase.name} task {task}"] = log
    return log_of_task


def tasks_in(stage: AnyStage) -> dict[Path, str]:
    """Returns the log of each array index of the latest jobs of ``stage``, with its index and its tasks as text."""
    records, tasks_by_log = jobs.records(stage), {}
    for phase in stage.phases:
        job = records.get(phase.name)
        if job is not None and job.width:
            for index in range(job.width):
                tasks = ", ".join(map(str, range(index, phase.tasks, job.width)))
                tasks_by_log[job.log_of(index)] = f"array index {index}: {phase.name}, tasks {tasks}"
    return tasks_by_log


def of_task(stage: AnyStage, task: int) -> list[Path]:
    """Returns the logs of the array indices that run ``task`` of the phases of ``stage``.

    Raises:
        ConfigError: when there is none.
    """
    named = dict.fromkeys(job.log_of_task(task) for job in jobs.records(stage).values())
    paths = [path for path in named if path.is_file()]
    if not paths:
        remedy = f"headrace logs RUN {stage.name} prints all; on this machine all tasks of a phase share one"
        raise ConfigError("--task", f"task {task} of {stage.name} has no log of its own", remedy)
    return paths

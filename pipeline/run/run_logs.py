"""The logs of a stage of a run: their paths, their ends, and the tasks that run or failed.

stage   tokens, 11 of 12 tasks done
error   tokens task 7: OSError: …
failed  tokens tokens task 7: /data/runs/runs/0b5c2f7d9e11/logs/tokens.tokens-118_7.log
log     /data/runs/tokens/0b5c2f7d9e11/logs/tokens.log
"""

from collections.abc import Iterator, Sequence
from pathlib import Path

from headrace.pipeline.core import work_log
from headrace.pipeline.core.errors import ConfigError, TaskError, suggestion
from headrace.pipeline.core.secrets import redacted
from headrace.pipeline.output.terminal import Fact, show
from headrace.pipeline.report.formatting import visible
from headrace.pipeline.run import jobs
from headrace.pipeline.run.run_state import CurrentPhase
from headrace.pipeline.run.saved_run import AnyStage
from headrace.pipeline.run.storage import Stored

TAIL_BYTES = 1 << 18
MAX_LOGS = 3
"""Logs whose ends are printed. The paths of all are printed."""


def show_logs(stage: AnyStage, lines: int) -> None:
    """Prints how far ``stage`` is, the paths of its logs, and the last ``lines`` of those of tasks that have begun."""
    files, begun = log_files(stage), begun_tasks(stage)
    show(explain(stage, begun))
    show([("log", str(path)) for path in files])
    for path in sorted(files, key=lambda path: path not in begun.values())[:MAX_LOGS]:
        print("", f"{path}:", *tail(path, lines), sep="\n")


def stage_of(stages: Sequence[AnyStage], stage: str) -> AnyStage:
    """Returns the planned ``stage``; without it the first unfinished one that has begun, else the last finished one.

    Raises:
        ConfigError: when the run has no such stage, or nothing has begun.
    """
    if stage:
        named = next((planned for planned in stages if planned.name == stage), None)
        if named is None:
            known = [planned.name for planned in stages]
            raise ConfigError("--stage", f"the run has no stage {stage!r}", suggestion(stage, known))
        return named
    begun = [planned for planned in stages if not planned.is_whole and (planned.folder / "logs").is_dir()]
    whole = [planned for planned in stages if planned.is_whole]
    if not begun and not whole:
        raise ConfigError("RUN", "no stage has begun", "see headrace status")
    return (begun or whole[::-1])[0]


def explain(stage: AnyStage, begun: dict[str, Path]) -> Iterator[Fact]:
    """Yields how far the stage is, its last error and its unfinished tasks that have ``begun``, with their logs."""
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
    is_running = bool(begun) and (Stored(stage.folder).is_in_use or has_live_job(stage))
    for task, log in begun.items():
        yield "running" if is_running else "failed", f"{task}: {log}"


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


def log_files(stage: AnyStage) -> list[Path]:
    """Returns the logs of ``stage`` that exist: of its jobs, its ranks and its workers, the newest first."""
    logs = set((stage.folder / "logs").rglob("*.log"))
    for job in jobs.records(stage).values():
        logs |= set(Path(job.log).parent.glob(f"{Path(job.log).name}*.log"))
    return sorted((path for path in logs if path.stat().st_size), key=lambda path: -path.stat().st_mtime_ns)


def tail(path: Path, lines: int) -> list[str]:
    """Returns the last ``lines`` of ``path``, with control characters made visible, without secrets."""
    with path.open("rb") as stream:
        stream.seek(max(0, path.stat().st_size - TAIL_BYTES))
        text = stream.read().decode("utf-8", "replace")
    return redacted("\n".join(visible(text, len(text)).splitlines()[-lines:])).splitlines()

"""What became of submitted jobs: SLURM's queue while it remembers them, our own records and logs after that.

    <artifact>/logs/jobs.json      {phase: {"job": 117, "log": "<run>/logs/clean.clean-117", "width": 40}}
    squeue --states=all            what SLURM still knows; without accounting it forgets a job minutes after its end
    part records                   what was done, whatever SLURM says

The records lie beside the artifact, not in the run: runs of a sweep share the jobs that make their common artifacts.
"""

import dataclasses
import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from headrace.pipeline.core import error_report
from headrace.pipeline.core.artifact import read_sealed, write_sealed
from headrace.pipeline.core.errors import ConfigError, HeadraceError, TaskError
from headrace.pipeline.core.settings import digest
from headrace.pipeline.core.stage import Phase
from headrace.pipeline.run.planner import Step

ANSWER_SECONDS = 60.0
"""SLURM's clients wait very long when the controller is away."""

ENDED = frozenset(
    {
        *("BOOT_FAIL", "CANCELLED", "COMPLETED", "DEADLINE", "FAILED"),
        *("NODE_FAIL", "OUT_OF_MEMORY", "PREEMPTED", "REVOKED", "TIMEOUT"),
    }
)
"""The states that a job does not leave by itself (squeue's manual, JOB STATE CODES)."""

JOBS = "logs/jobs.json"


@dataclasses.dataclass(frozen=True)
class Job:
    """A job that was submitted for a phase: SLURM's number, the logs' common beginning, and the array's width."""

    job: int
    log: str
    width: int | None
    """Array index i runs tasks i, i + width, ...; None for a distributed stage, which is no array."""

    def log_of(self, index: int) -> Path:
        return Path(f"{self.log}.log" if self.width is None else f"{self.log}_{index}.log")


@dataclasses.dataclass(frozen=True)
class Entry:
    """One line of the queue: a job, an index of an array, or all pending indices of an array (index None)."""

    name: str
    job: int
    index: int | None
    state: str
    reason: str

    @property
    def is_live(self) -> bool:
        return self.state not in ENDED


def job_name(step: Step, phase: Phase) -> str:
    """The name of the job that makes ``phase``: the same for everybody who would write to the same folder."""
    return f"{step.name}.{phase.name}-{step.address}-{digest(str(step.folder.resolve()))[:6]}"


def record(step: Step, phase: Phase, job: Job) -> None:
    """Remember ``job`` as the latest of ``phase``."""
    path = step.folder / JOBS
    write_sealed(path, (read_sealed(path) if path.is_file() else {}) | {phase.name: dataclasses.asdict(job)})


def records(step: Step) -> dict[str, Job]:
    """The latest job of each phase of ``step`` that was ever submitted."""
    path = step.folder / JOBS
    return {phase: Job(**fields) for phase, fields in read_sealed(path).items()} if path.is_file() else {}


def ask(command: Sequence[str]) -> "subprocess.CompletedProcess[str]":
    """Run a SLURM client. Options and values are separate arguments: no shell sees them.

    Raises:
        ConfigError: when this machine has no such client.
        TaskError: when it does not answer in time.
    """
    # Inside a job SLURM_* describe that job, and clients would take them for options of the new one.
    environment = {name: value for name, value in os.environ.items() if not name.startswith("SLURM_")}
    if "SLURM_CONF" in os.environ:
        environment["SLURM_CONF"] = os.environ["SLURM_CONF"]
    try:
        return subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=ANSWER_SECONDS, env=environment
        )
    except FileNotFoundError:
        raise ConfigError("cluster=slurm", f"no {command[0]} on this machine", "run on a login node") from None
    except subprocess.TimeoutExpired:
        wrong = f"{command[0]} gave no answer within {ANSWER_SECONDS:.0f} s"
        raise TaskError("cluster=slurm", wrong, "is the controller up (scontrol ping)? then run again") from None


def queue(names: Sequence[str]) -> dict[str, list[Entry]]:
    """What SLURM knows about the jobs with ``names``, whoever submitted them.

    Raises:
        ConfigError, TaskError: see ``ask``; also when squeue fails.
    """
    answer = ask(["squeue", "--noheader", "--states=all", f"--name={','.join(names)}", "--format=%j|%F|%K|%T|%r"])
    if answer.returncode:
        raise TaskError("cluster=slurm", f"squeue failed: {answer.stderr.strip()}", "run again when SLURM is up")
    entries: dict[str, list[Entry]] = {name: [] for name in names}
    for line in answer.stdout.splitlines():
        name, job, index, state, reason = line.split("|", 4)
        if name in entries:
            entry = Entry(name, int(job), int(index) if index.isdigit() else None, state, reason)
            entries[name].append(entry)
    return entries


def states(steps: Sequence[Step]) -> dict[str, str]:
    """The state of each unfinished step that was submitted: SLURM's word, the first task that failed, and why."""
    waiting: dict[str, tuple[Phase, Step, Job]] = {}
    for step in steps:
        jobs = {} if step.is_whole else records(step)
        current = next((phase for phase in step.phases if step.missing(phase)), None)
        if current is not None and current.name in jobs:
            waiting[step.name] = (current, step, jobs[current.name])
    if not waiting:
        return {}
    try:
        entries = queue([job_name(step, phase) for phase, step, _ in waiting.values()])
    except (ConfigError, TaskError) as error:
        return {name: f"submitted as job {job.job} ({error.wrong})" for name, (_, _, job) in waiting.items()}
    return {
        name: _state(entries[job_name(step, phase)], job, step.missing(phase), error_report.find(step.folder))
        for name, (phase, step, job) in waiting.items()
    }


def _state(entries: Sequence[Entry], job: Job, missing: Sequence[int], reported: HeadraceError | None) -> str:
    """The state of a phase whose tasks ``missing`` are not done, and the last error that one ``reported``."""
    live = [entry for entry in entries if entry.is_live]
    latest = [entry for entry in entries if entry.job == job.job]
    if not live:
        indices = sorted({0 if job.width is None else task % job.width for task in missing})
        failure = _failure(latest, job, indices)
        if not failure:
            return f"CANCELLED before it ran, job {job.job}"
        return f"{failure} ({reported})" if reported else failure
    begun = [entry.state for entry in live if entry.state != "PENDING"]
    word = ("RUNNING" if "RUNNING" in begun else begun[0]) if begun else f"PENDING ({live[0].reason})"
    failed = [entry.index or 0 for entry in latest if not entry.is_live and entry.state != "COMPLETED"]
    failure = _failure(latest, job, failed)
    return f"{word}, {failure}" if failure else f"{word}, job {live[0].job}"


def _failure(latest: Sequence[Entry], job: Job, indices: Sequence[int]) -> str:
    """``FAILED, see <log>``: of the array ``indices`` that left no result, the first that ever ran; else nothing."""
    words: Mapping[int, str] = {entry.index or 0: entry.state for entry in latest if not entry.is_live}
    ran = [index for index in indices if job.log_of(index).is_file()]
    return f"{words.get(ran[0], 'FAILED')}, see {job.log_of(ran[0])}" if ran else ""

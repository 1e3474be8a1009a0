"""Submission to SLURM: the same steps as on one machine, as a chain of jobs. Returns at once; the jobs do the rest.

    clean.clean        array 0-39     sbatch array.sbatch run.json clean clean 40 python
      | afterok
    weights.weights    2 x 8 ranks    sbatch train.sbatch run.json weights <folder> 3 python
      | afterok
    scores.scores      2 x 8 ranks    sbatch train.sbatch run.json scores <folder> 3 python
    ...

The scripts in slurm/ are static. Settings become options of sbatch and arguments of the script, as elements of an
argument list: no shell reads them, so no value can be taken for a command. Submitting again submits what is missing and
has no job in the queue; a job that fails takes those that wait for it out of the queue (--kill-on-invalid-dep=yes).
"""

import hashlib
import os
import shutil
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from rich.table import Table

from headrace.pipeline.clusters.settings import Slurm
from headrace.pipeline.core.artifact import read_sealed, write_sealed
from headrace.pipeline.core.errors import ConfigError, TaskError
from headrace.pipeline.core.stage import Phase
from headrace.pipeline.core.terminal import terminal
from headrace.pipeline.run.jobs import Job, ask, job_name, queue, record
from headrace.pipeline.run.planner import Step

SCRIPTS = Path(__file__).resolve().parents[2] / "slurm"


def submit(steps: Sequence[Step], slurm: Slurm, run_json: Path) -> None:
    """Submit what ``steps`` miss, each job after the one before it, and say what was submitted.

    Raises:
        ConfigError: when settings cannot be passed on, or this machine has no SLURM.
        TaskError: when SLURM refuses a job; those submitted before it stay in the queue.
    """
    check(slurm, run_json)
    for step in steps:
        step.finish_if_complete()
    work = [(step, phase) for step in steps if not step.is_whole for phase in step.phases if step.missing(phase)]
    if not work:
        terminal().print("everything was done before: nothing to submit")
        return
    run_json = _frozen(run_json)
    entries = queue([job_name(step, phase) for step, phase in work])
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
                job = _submit_phase(step, phase, slurm, run_json, previous)
                record(step, phase, job)
                previous, note = job.job, "submitted"
                submitted.append(job.job)
            table.add_row(step.name, phase.name, str(len(step.missing(phase))), str(previous), after, note)
    finally:
        if table.row_count:
            terminal().print(table)
    print(f"logs: {run_json.parent / 'logs'}/<stage>.<phase>-<job>_<index>.log")
    print(_last_line(submitted))


def _last_line(submitted: Sequence[int]) -> str:
    if not submitted:
        return "nothing new was submitted: `headrace status` shows how far it is"
    numbers = " ".join(map(str, submitted))
    return f"submitted {len(submitted)} jobs; follow them with `headrace status`, stop them with `scancel {numbers}`"


def check(slurm: Slurm, run_json: Path) -> None:
    """Refuse a machine without SLURM, and settings that sbatch would read as something else.

    Raises:
        ConfigError: naming the setting and its value.
    """
    if shutil.which("sbatch") is None:
        raise ConfigError("cluster=slurm", "no sbatch on this machine", "run on a login node")
    if "\\" in str(run_json.resolve()):
        raise ConfigError(
            "root", f"{str(run_json.resolve())!r} holds a backslash: SLURM puts no log there", "rename it"
        )
    for option in slurm.options:
        if not option.startswith("--"):
            raise ConfigError("cluster.options", f"{option!r} is not an option of sbatch", "write --name=value")
    if slurm.site_env is not None and not Path(slurm.site_env).is_file():
        raise ConfigError("cluster.site_env", f"no file {slurm.site_env!r}", "copy slurm/site.env.example and name it")


def _frozen(run_json: Path) -> Path:
    """A copy of ``run_json`` named after its content: what later runs write does not change what queued jobs read."""
    values = read_sealed(run_json)
    name = hashlib.sha256(run_json.read_bytes()).hexdigest()[:12]
    path = run_json.resolve().with_name(f"run-{name}.json")
    write_sealed(path, values)
    return path


def _submit_phase(step: Step, phase: Phase, slurm: Slurm, run_json: Path, after: int | None) -> Job:
    """Submit the missing tasks of ``phase``, to start once job ``after`` has succeeded."""
    log = run_json.parent / "logs" / f"{step.name}.{phase.name}"
    log.parent.mkdir(parents=True, exist_ok=True)
    options = [*_common_options(slurm), f"--job-name={job_name(step, phase)}"]
    if after is not None:
        options.append(f"--dependency=afterok:{after}")
    where = _pattern(log)
    if step.stage.distributed:
        width = None
        options += [f"--output={where}-%j.log", *_rank_options(slurm)]
        script = ["train.sbatch", str(run_json), step.name, str(step.folder.resolve()), str(slurm.train_attempts)]
    else:
        width = min(phase.tasks, slurm.array_tasks)
        indices = array_list({task % width for task in step.missing(phase)}, slurm.array_running)
        options += [f"--output={where}-%A_%a.log", f"--array={indices}", *_task_options(slurm)]
        script = ["array.sbatch", str(run_json), step.name, phase.name, str(width)]
    site_env = [] if slurm.site_env is None else [str(Path(slurm.site_env).resolve())]
    number = _sbatch([*options, *slurm.options, str(SCRIPTS / script[0]), *script[1:], sys.executable, *site_env], step)
    return Job(number, f"{log}-{number}", width)


def _common_options(slurm: Slurm) -> list[str]:
    given = {"partition": slurm.partition, "account": slurm.account, "qos": slurm.qos}
    return [f"--chdir={os.getcwd()}", *(f"--{name}={value}" for name, value in given.items() if value is not None)]


def _rank_options(slurm: Slurm) -> list[str]:
    options = [f"--nodes={slurm.nodes}", f"--ntasks-per-node={slurm.ranks_per_node}"]
    options += [f"--cpus-per-task={slurm.train_cpus}", f"--time={slurm.train_time}"]
    options += [f"--signal=B:USR2@{slurm.signal_seconds}"]
    options += _memory(slurm.train_memory)
    return options + [f"--gres=gpu:{slurm.gpus_per_node}"] * (slurm.gpus_per_node > 0)


def _task_options(slurm: Slurm) -> list[str]:
    return [f"--cpus-per-task={slurm.data_cpus}", f"--time={slurm.data_time}", *_memory(slurm.data_memory)]


def _memory(memory: str | None) -> list[str]:
    return [] if memory is None else [f"--mem={memory}"]


def _pattern(log: Path) -> str:
    """``log`` for sbatch's --output, in which % begins a replacement."""
    return str(log).replace("%", "%%")


def array_list(indices: Iterable[int], running: int | None) -> str:
    """``indices`` as sbatch's --array wants them, at most ``running`` at once: ``3,7-9%2``."""
    spans: list[list[int]] = []
    for index in sorted(indices):
        if spans and spans[-1][-1] == index - 1:
            spans[-1][1:] = [index]
        else:
            spans.append([index])
    return ",".join("-".join(map(str, span)) for span in spans) + ("" if running is None else f"%{running}")


def _sbatch(arguments: Sequence[str], step: Step) -> int:
    """Submit one job; its number.

    Raises:
        TaskError: with everything that sbatch said, when it refuses.
    """
    answer = ask(["sbatch", "--parsable", *arguments])
    number = answer.stdout.strip().split(";")[0]
    if answer.returncode or not number.isdigit():
        said = ", ".join((answer.stderr + answer.stdout).strip().splitlines())
        remedy = "correct the cluster settings and run again (jobs submitted before this one stay in the queue)"
        raise TaskError("cluster=slurm", f"sbatch refused the job of stage {step.name!r}: {said}", remedy)
    return int(number)

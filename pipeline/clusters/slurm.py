"""A SLURM cluster: settings become options of sbatch and arguments of the scripts in slurm/.

    clean.clean        array 0-39     sbatch array.sbatch run.json clean clean 40 python
      | afterok
    weights.weights    2 x 8 ranks    sbatch train.sbatch run.json weights <folder> 3 python
      | afterok
    scores.scores      2 x 8 ranks    sbatch train.sbatch run.json scores <folder> 3 python
    ...

The scripts are static. Options and arguments are elements of an argument list: no shell reads them, so no value can be
taken for a command. A job that fails removes those that wait for it from the queue (--kill-on-invalid-dep=yes).
"""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from headrace.pipeline.clusters.base import Entry, Job, JobRequest, Scheduler
from headrace.pipeline.core.errors import ConfigError, TaskError
from headrace.pipeline.core.settings import Natural, Positive, settings
from headrace.pipeline.core.variables import CORES, JOB, RESTARTS

SCRIPTS = Path(__file__).resolve().parents[2] / "slurm"

ANSWER_SECONDS = 60.0
"""SLURM's clients wait very long when the controller is away."""

ENDED = frozenset(
    {
        *("BOOT_FAIL", "CANCELLED", "COMPLETED", "DEADLINE", "FAILED"),
        *("NODE_FAIL", "OUT_OF_MEMORY", "PREEMPTED", "REVOKED", "TIMEOUT"),
    }
)
"""The states that a job does not leave by itself (squeue's manual, JOB STATE CODES)."""

TimeLimit = Annotated[str, Field(pattern=r"^(\d+-)?\d+(:\d+){0,2}$")]
"""A time in the syntax of sbatch: minutes, minutes:seconds, hours:minutes:seconds, days-hours, …"""
Memory = Annotated[str, Field(pattern=r"^\d+[KMGTkmgt]?$")]
"""A size in the syntax of sbatch: megabytes, or a number with a unit."""


@settings
class Slurm:
    """A SLURM cluster: a chain of jobs. A phase of a data stage is an array job. Training and scoring are a multi-node
    job each."""

    type: Literal["slurm"] = "slurm"
    partition: str | None = None
    """Partition of every job; None takes the cluster's default."""
    account: str | None = None
    """Account to charge; None takes the user's default."""
    qos: str | None = None
    """Quality of service; None takes the default."""
    data_time: TimeLimit = "04:00:00"
    """Time limit of one array index of a data stage."""
    data_cpus: Positive = 1
    """Cores of one array index."""
    data_memory: Memory | None = None
    """Memory of one array index, such as 8G; None takes the partition's default."""
    array_tasks: Positive = 1000
    """Most array indices of one job (the cluster's MaxArraySize − 1); more tasks than that share an index."""
    array_running: Positive | None = None
    """Most array indices that run at once; None sets no limit."""
    train_time: TimeLimit = "24:00:00"
    """Time limit of the training job and of the scoring job. An unfinished training goes back into the queue and
    resumes."""
    signal_seconds: Annotated[int, Field(ge=0, le=65535)] = 600
    """Seconds before the time limit at which the training is asked to save and stop."""
    train_attempts: Positive = 3
    """A training whose ranks were killed, hung or found a full disk goes back into the queue, unless so many attempts
    in a row began from the same checkpoint."""
    nodes: Positive = 1
    """Nodes of the training job and of the scoring job. The settings below are for these jobs, too."""
    ranks_per_node: Positive = 1
    """Ranks on each node: one for each GPU."""
    gpus_per_node: Natural = 0
    """GPUs requested on each node (--gres=gpu:N); 0 works on CPU."""
    train_cpus: Positive = 1
    """Cores of one rank."""
    train_memory: Memory | None = None
    """Memory of one node of the training job; None takes the default."""
    site_env: str | None = None
    """A shell file that every job sources first (modules, proxies). Example: slurm/site.env.example."""
    options: tuple[str, ...] = ()
    """More options for every sbatch, such as --constraint=h100."""

    job_variables: ClassVar[Mapping[str, str]] = {
        JOB: "SLURM_JOB_ID",
        RESTARTS: "SLURM_RESTART_COUNT",
        CORES: "SLURM_CPUS_PER_TASK",
    }
    rank_variables: ClassVar[Mapping[str, str]] = {
        "RANK": "SLURM_PROCID",
        "WORLD_SIZE": "SLURM_NTASKS",
        "LOCAL_RANK": "SLURM_LOCALID",
        "LOCAL_WORLD_SIZE": "SLURM_NTASKS_PER_NODE",
    }

    @property
    def scheduler(self) -> Scheduler | None:
        return self

    def world(self, ranks: int) -> int:
        return self.nodes * self.ranks_per_node

    def check(self, run_json: Path) -> None:
        """Refuses a machine without SLURM, and settings that sbatch would read as something else.

        Raises:
            ConfigError: naming the setting and its value.
        """
        if shutil.which("sbatch") is None:
            raise ConfigError("cluster=slurm", "no sbatch on this machine", "run on a login node")
        if "\\" in str(run_json.resolve()):
            wrong = f"{str(run_json.resolve())!r} holds a backslash: SLURM puts no log there"
            raise ConfigError("root", wrong, "rename it")
        limit = _seconds(self.train_time)
        if limit and self.signal_seconds >= limit:
            wrong = f"{self.signal_seconds} s is not below cluster.train_time ({self.train_time}, {limit} s)"
            remedy = "lower it, or raise cluster.train_time: the training would be asked to stop at once"
            raise ConfigError("cluster.signal_seconds", wrong, remedy)
        for option in self.options:
            if not option.startswith("--"):
                raise ConfigError("cluster.options", f"{option!r} is not an option of sbatch", "write --name=value")
        if self.site_env is not None and not Path(self.site_env).is_file():
            wrong = f"no file {self.site_env!r}"
            raise ConfigError("cluster.site_env", wrong, "copy slurm/site.env.example and name it")

    def submit(self, request: JobRequest) -> Job:
        """Submits one job with sbatch.

        Raises:
            TaskError: with the message of sbatch, when it refuses the job.
        """
        width = None if request.distributed else min(request.tasks, self.array_tasks)
        options = [*self._common_options(), f"--job-name={request.name}"]
        if request.after is not None:
            options.append(f"--dependency=afterok:{request.after}")
        log = str(request.log).replace("%", "%%")  # in --output a % begins a replacement
        if width is None:
            options += [f"--output={log}-%j.log", *self._rank_options()]
            script = ["train.sbatch", str(request.run_json), request.stage]
            script += [str(request.folder.resolve()), str(self.train_attempts)]
        else:
            indices = array_list({task % width for task in request.missing}, self.array_running)
            options += [f"--output={log}-%A_%a.log", f"--array={indices}", *self._task_options()]
            script = ["array.sbatch", str(request.run_json), request.stage, request.phase, str(width)]
        site_env = [] if self.site_env is None else [str(Path(self.site_env).resolve())]
        command = [str(SCRIPTS / script[0]), *script[1:], sys.executable, *site_env]
        number = _sbatch([*options, *self.options, *command], request.stage)
        return Job(number, f"{request.log}-{number}", width)

    def cancel_command(self, jobs: Sequence[int]) -> str:
        return " ".join(["scancel", *map(str, jobs)])

    @staticmethod
    def states(names: Sequence[str]) -> dict[str, list[Entry]]:
        """The entries of squeue for the jobs with these ``names``. Without accounting, SLURM forgets a job minutes
        after its end.

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
                number = int(index) if index.isdigit() else None
                entries[name].append(Entry(int(job), number, state, state not in ENDED, reason))
        return entries

    def _common_options(self) -> list[str]:
        given = {"partition": self.partition, "account": self.account, "qos": self.qos}
        return [f"--chdir={os.getcwd()}", *(f"--{name}={value}" for name, value in given.items() if value is not None)]

    def _rank_options(self) -> list[str]:
        options = [f"--nodes={self.nodes}", f"--ntasks-per-node={self.ranks_per_node}"]
        options += [f"--cpus-per-task={self.train_cpus}", f"--time={self.train_time}"]
        options += [f"--signal=B:USR2@{self.signal_seconds}"]
        options += _memory(self.train_memory)
        return options + [f"--gres=gpu:{self.gpus_per_node}"] * (self.gpus_per_node > 0)

    def _task_options(self) -> list[str]:
        return [f"--cpus-per-task={self.data_cpus}", f"--time={self.data_time}", *_memory(self.data_memory)]


def _memory(memory: str | None) -> list[str]:
    return [] if memory is None else [f"--mem={memory}"]


def _seconds(limit: str) -> int | None:
    """Returns a time limit of sbatch in seconds (0: no limit); None when it is not a time."""
    found = re.fullmatch(r"(?:(\d+)-)?(\d+)(?::(\d+))?(?::(\d+))?", limit)
    if found is None:
        return None
    days, *clock = (int(number or 0) for number in found.groups())
    if found[1] is None and found[4] is None:
        clock = [0, *clock[:2]]  # minutes, or minutes:seconds
    hours, minutes, seconds = clock
    return ((days * 24 + hours) * 60 + minutes) * 60 + seconds


def array_list(indices: Iterable[int], running: int | None) -> str:
    """The value of sbatch's --array for ``indices``, at most ``running`` at once: ``3,7-9%2``."""
    spans: list[list[int]] = []
    for index in sorted(indices):
        if spans and spans[-1][-1] == index - 1:
            spans[-1][1:] = [index]
        else:
            spans.append([index])
    return ",".join("-".join(map(str, span)) for span in spans) + ("" if running is None else f"%{running}")


def _sbatch(arguments: Sequence[str], stage: str) -> int:
    """Submits one job and returns its number.

    Raises:
        TaskError: with the whole message of sbatch, when it refuses the job.
    """
    answer = ask(["sbatch", "--parsable", *arguments])
    number = answer.stdout.strip().split(";")[0]
    if answer.returncode or not number.isdigit():
        message = ", ".join((answer.stderr + answer.stdout).strip().splitlines())
        remedy = "correct the cluster settings and run again (jobs submitted before this one stay in the queue)"
        raise TaskError("cluster=slurm", f"sbatch refused the job of stage {stage!r}: {message}", remedy)
    return int(number)


def ask(command: Sequence[str]) -> "subprocess.CompletedProcess[str]":
    """Runs a SLURM client. Options and values are separate arguments: no shell reads them.

    Raises:
        ConfigError: when this machine has no such client.
        TaskError: when it does not answer in time.
    """
    # In a job, SLURM_* describe that job: clients would read them as options of the new one.
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

"""The protocol of a cluster: where a run's work happens, and what its jobs are.

    headrace ── Scheduler.submit ──> job ── WORKER ──> tasks of a phase, or whole data stages
                                      └──── JOB_RANK ─> one rank of a distributed stage
    headrace ── Cluster.states ────> the scheduler's entries for the jobs of a run
    worker ──── adopt_job, _rank ──> the variables of core/environment.py, from those of the cluster's launcher

A cluster is one settings class. Its fields are the settings of ``cluster=<type>``, and its field ``type`` is a Literal.
``pipeline/clusters/__init__.py`` lists the classes. A class of the user's own (``cluster.type=my_cluster:Pool``
``+cluster.queue=night``) implements ``Scheduler``; examples/files_cluster.py is a small one.
"""

import dataclasses
import os
from collections.abc import Iterable, Mapping, MutableMapping, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple, Protocol

from headrace.pipeline.core.environment import CORES, JOB, NODE, NODE_CORES, NODE_GPUS, NODES, RESTARTS
from headrace.pipeline.core.errors import ConfigError, TaskError
from headrace.pipeline.core.settings import settings

WORKER = "headrace.pipeline.run.worker"
"""The module that a job runs for each array index: ``python -m WORKER RUN_JSON STAGE PHASE INDEX WIDTH``; for several
data stages in one job: ``python -m WORKER RUN_JSON FIRST..LAST WORKERS``."""

JOB_RANK = ("headrace.pipeline.run.rank", "of_job")
"""The module of each rank of a job, and its first argument: ``python -m … of_job RUN_JSON STAGE``."""

REST = "headrace.pipeline.run.submission"
"""The module that a job runs at its end when the queue did not take those after it: ``python -m REST RUN_JSON``."""

Kind = Literal["tasks", "stages", "ranks"]
"""The work of a job: an array of tasks of one phase, whole data stages with a pool of workers, or the ranks of a
distributed stage."""

CORES_BESIDE_GPU = 8
"""Cores of a rank with a GPU, for its main thread, reading, compiling and NCCL."""

PENDING, RUNNING, COMPLETED, CANCELLED = "PENDING", "RUNNING", "COMPLETED", "CANCELLED"
"""The states of an entry that have a meaning here. All other states are only printed."""


def rests(run_json: Path, job: str = "*", run: str = "*") -> list[Path]:
    """Returns the files, among the runs, by which the ``job`` submits the rest of the chain of a ``run`` at its end."""
    return sorted(run_json.resolve().parents[1].glob(f"rest-{job}-{run}.json"))


class FullQueueError(TaskError):
    """The queue takes no more jobs of this user now. There is no job; those before it stay in the queue."""


class JobPhase(NamedTuple):
    """A phase that a job works on."""

    stage: str
    phase: str
    tasks: int
    """The number of its tasks."""
    folder: str
    """The folder of the artifact of the stage."""


@dataclasses.dataclass(frozen=True)
class JobRequest:
    """A job to submit."""

    kind: Kind
    name: str
    """The name that the queue shows."""
    run_json: Path
    stage: str
    """The stage; the first one of several."""
    last: str
    """The last one of several stages; else the stage."""
    phase: str
    """The phase; that of the first stage of several."""
    folder: Path
    """The folder of the artifact of the stage."""
    tasks: int
    """The number of tasks of the phase."""
    missing: Sequence[int]
    """The tasks of the phase that are not done."""
    phases: Sequence[JobPhase]
    """The phases of the job with tasks that are not done, in their order."""
    after: str | None
    """The job that must succeed before this one starts."""
    token: str = ""
    """A word that belongs to this submission alone. The scheduler keeps it with the job, for ``submitted``."""

    @property
    def log(self) -> Path:
        """The common beginning of the paths of the logs."""
        work = self.phase if self.stage == self.last else self.last
        return self.run_json.parent / "logs" / f"{self.stage}.{work}"


@dataclasses.dataclass(frozen=True)
class Job:
    """A job that was submitted for a phase: its id, the common beginning of its logs, the width of its array."""

    job: str
    """The id that the scheduler gives it."""
    log: str
    width: int | None
    """Array index i runs tasks i, i + width, ...; None for a job that is no array."""
    cluster: str = "slurm"
    """The name of the class of the cluster that it was submitted to."""
    name: str = ""
    """The name that the queue shows."""
    server: str = ""
    """The address or name of the server that knows it; empty for a cluster whose machines know a single one."""
    token: str = ""
    """The word by which the scheduler finds the job whose submission got no answer, so whose id is empty."""

    @classmethod
    def read(cls, fields: Mapping[str, Any]) -> "Job":
        """Returns the job of a record."""
        return cls(**{field.name: fields[field.name] for field in dataclasses.fields(cls) if field.name in fields})

    def identified(self, id: str) -> "Job":
        """Returns this job, which was described before its submission, with the ``id`` that it got."""
        return dataclasses.replace(self, job=id, log=f"{self.log}-{id}")

    def log_of_task(self, task: int) -> Path:
        """The log of the array index that runs ``task``."""
        return self.log_of(self.index_of(task))

    def index_of(self, task: int) -> int:
        """Returns the array index that runs ``task``; 0 for a job that is no array."""
        return 0 if self.width is None else task % self.width

    def log_of(self, index: int) -> Path:
        """The log of array index ``index``; of the whole job when it is no array."""
        return Path(f"{self.log}.log" if self.width is None else f"{self.log}_{index}.log")


@dataclasses.dataclass(frozen=True)
class Entry:
    """One line of a scheduler's queue: a job, or an index of an array. Index None stands for all of a job."""

    job: str
    index: int | None
    state: str
    """PENDING, RUNNING, COMPLETED, CANCELLED, or the scheduler's own word for anything else."""
    is_live: bool
    """Whether the job still waits or runs."""
    reason: str = ""
    """Why it waits, or ended."""
    remedy: str = ""
    """The remedy after this end, or for a job that waits for a person; empty where the log has the cause."""


class Cluster(Protocol):
    """The machine or cluster that runs the tasks and the ranks of a run."""

    @property
    def type(self) -> str:
        """The name of the class in settings and in records of jobs."""

    @property
    def shares_packages(self) -> bool:
        """Whether tasks and ranks have the packages that are installed for this command."""

    @property
    def scheduler(self) -> "Scheduler | None":
        """This cluster, if it takes jobs; None when the command itself does the work."""

    def world(self, ranks: int) -> int:
        """The number of ranks of a training. ``ranks`` is their number where the command itself does the work."""

    @staticmethod
    def states(jobs: Sequence[Job]) -> dict[str, list[Entry]]:
        """Returns the entries of each of ``jobs``, by its id, of any user and with any settings.

        Raises:
            ConfigError: when this machine cannot ask the scheduler.
            TaskError: when the scheduler does not answer.
        """

    @staticmethod
    def submitted(jobs: Mapping[str, Job]) -> dict[str, str]:
        """Returns the id of the job that was submitted with each token of ``jobs``; none where there is no such job.

        ``jobs`` are described as before their submission.

        Raises:
            ConfigError: when this machine cannot ask the scheduler.
            TaskError: when the scheduler does not answer.
        """

    @staticmethod
    def cancel(jobs: Sequence[Job]) -> None:
        """Cancels ``jobs``. Jobs that have ended are left as they are.

        Raises:
            ConfigError: when this machine cannot ask the scheduler.
            TaskError: when the scheduler refuses, or does not answer.
        """


class Scheduler(Cluster, Protocol):
    """A cluster that takes jobs and runs them later."""

    def check(self, run_json: Path) -> None:
        """Checks the settings and this machine before anything is submitted.

        Raises:
            ConfigError: naming the setting and its value.
        """

    def joins(self, raw_bytes: int) -> bool:
        """Whether the data stages of ``raw_bytes`` bytes of raw files run in one job, instead of one job a phase."""

    def notes(self) -> Iterable[str]:
        """Yields lines for the user who submits."""

    def array_width(self, request: JobRequest) -> int | None:
        """Returns the number of array indices that the tasks of ``request`` share; None for a job that is no array."""

    @property
    def job_server(self) -> str:
        """The address or name of the server that knows the jobs, for their records: ``Job.server``. A machine may reach
        another one tomorrow: ``states`` of a job that it does not reach is a live entry, whose remedy says where."""

    def command(self, request: JobRequest) -> list[str]:
        """Returns the command that submits a job, as a list of arguments: what ``headrace plan --jobs`` shows."""

    def submit(self, request: JobRequest) -> str:
        """Submits one job and returns its id. The job writes ``Job.log_of`` and runs ``WORKER`` once for each array
        index, or once for several stages, or ``JOB_RANK`` once for each rank.

        With the method ``submit_notice(run_json, name, ended)``, a scheduler starts one more job after any end of the
        jobs ``ended``: notice_program.py.

        Raises:
            TaskError: with the scheduler's message, when it refuses the job: there is none. FullQueueError when it
                may take it later; its jobs then run ``REST`` at their end.
            RetryableError: when it is not known whether there is a job.
        """


@settings
class Local:
    """This machine: a pool of worker processes for data, ranks for training and scoring."""

    type: Literal["local"] = "local"

    @property
    def shares_packages(self) -> bool:
        return True

    @property
    def scheduler(self) -> Scheduler | None:
        return None

    def world(self, ranks: int) -> int:
        return ranks

    @staticmethod
    def states(jobs: Sequence[Job]) -> dict[str, list[Entry]]:
        """Returns no entries: there are no jobs."""
        return {job.job: [] for job in jobs}

    @staticmethod
    def submitted(jobs: Mapping[str, Job]) -> dict[str, str]:
        """Returns nothing: there are no jobs."""
        return {}

    @staticmethod
    def cancel(jobs: Sequence[Job]) -> None:
        """Does nothing: there are no jobs."""


def check_ranks(ranks: int, gpus: int) -> None:
    """Checks that each of the ``ranks`` of a node has one of its ``gpus``, if it has some.

    Raises:
        ConfigError: when there are more ranks.
    """
    if 0 < gpus < ranks:
        problem = f"{ranks} ranks are more than the {gpus} GPUs (cluster.gpus_per_node)"
        raise ConfigError("cluster.ranks_per_node", problem, "give one rank for each GPU")


JOB_VARIABLES = {
    JOB: "SLURM_JOB_ID",
    RESTARTS: "SLURM_RESTART_COUNT",
    CORES: "SLURM_CPUS_PER_TASK",
    NODE: "SLURMD_NODENAME",
    NODES: "SLURM_JOB_NUM_NODES",
    NODE_CORES: "SLURM_CPUS_ON_NODE",
    NODE_GPUS: "SLURM_GPUS_ON_NODE",
}
"""Variables of core/environment.py → SLURM's names of them, for every process of a job. Other clusters set ours."""
RANK_VARIABLES = {
    "RANK": "SLURM_PROCID",
    "WORLD_SIZE": "SLURM_NTASKS",
    "LOCAL_RANK": "SLURM_LOCALID",
    "LOCAL_WORLD_SIZE": "SLURM_NTASKS_PER_NODE",
}
"""Variables of a rank → the names that srun gives them."""


def adopt_job(environment: MutableMapping[str, str] = os.environ) -> None:
    """Sets the variables of core/environment.py from those of the launcher that started this process."""
    environment.update(_renamed(JOB_VARIABLES, environment))


def adopt_rank(environment: MutableMapping[str, str] = os.environ) -> None:
    """Sets the variables of a rank from those of the launcher that started it, unless they are set."""
    if "RANK" not in environment:
        environment.update(_renamed(RANK_VARIABLES, environment))


def _renamed(names: Mapping[str, str], environment: Mapping[str, str]) -> dict[str, str]:
    return {ours: environment[theirs] for ours, theirs in names.items() if theirs in environment}

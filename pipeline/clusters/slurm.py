"""A SLURM cluster: settings become options of sbatch and arguments of the scripts in slurm/.

    texts … packed     one job        sbatch data.sbatch run.json texts..packed 4 python      small data
    texts.texts        array 0-39     sbatch array.sbatch run.json texts texts 40 python      large data: each phase
      | afterok
    weights.weights    2 x 8 ranks    sbatch train.sbatch run.json weights <folder> 3 python
      | afterok
    scores.scores      2 x 8 ranks    sbatch train.sbatch run.json scores <folder> 3 python

The scripts are static. Options and arguments are elements of an argument list: no shell reads them, so no value can be
taken for a command. A job that fails removes those that wait for it from the queue (--kill-on-invalid-dep=yes).
"""

import os
import shutil
import sys
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from headrace.pipeline.clusters import slurm_client, slurm_options
from headrace.pipeline.clusters.base import Entry, Job, JobRequest, Kind, Scheduler
from headrace.pipeline.clusters.slurm_options import Gpus, MemorySize, TimeLimit
from headrace.pipeline.core.errors import ConfigError
from headrace.pipeline.core.settings import FilePath, Positive, TextList, settings

SCRIPTS = Path(__file__).resolve().parents[2] / "slurm"

CORES_BESIDE_GPU = 8
"""Cores of a rank with a GPU, for its main thread, reading, compiling and NCCL."""


@settings
class Slurm:
    """A SLURM cluster: a chain of jobs. The data stages are one job when the data are small; else each of their phases
    is an array job. Training and scoring are a multi-node job each. The report is a data job, too."""

    type: Literal["slurm"] = "slurm"
    partition: str | None = None
    """Partition of every job; None takes the cluster's default."""
    account: str | None = None
    """Account to charge; None takes the user's default."""
    qos: str | None = None
    """Quality of service; None takes the default."""
    options: TextList = ()
    """More options of sbatch for every job, such as --constraint=h100."""
    data_partition: str | None = None
    """Partition of the data jobs; None takes ``partition``."""
    data_account: str | None = None
    """Account of the data jobs; None takes ``account``."""
    data_qos: str | None = None
    """Quality of service of the data jobs; None takes ``qos``."""
    data_options: TextList = ()
    """More options of sbatch for the data jobs, after ``options``."""
    data_time: TimeLimit = "04:00:00"
    """Time limit of one array index of a data stage, or of the one job of all data stages."""
    data_cpus: Positive = 1
    """Cores of one array index."""
    data_memory: MemorySize | None = None
    """Memory of one array index, such as 8G; None takes the partition's default."""
    array_tasks: Positive = 1000
    """Most array indices of one job, if the cluster allows so many (MaxArraySize); more tasks share an index."""
    array_running: Positive | None = None
    """Most array indices that run at once; None sets no limit."""
    one_job: Literal["auto", "always", "never"] = "auto"
    """All data stages run in one job, instead of a job for each phase; ``auto``: when the raw files have at most
    ``one_job_bytes`` bytes."""
    one_job_bytes: Positive = 1_000_000_000
    """Most bytes of raw files, as they are stored, that ``auto`` takes for small."""
    one_job_tasks: Positive = 4
    """Tasks that run at once in the one job. It has the cores and the memory of so many array indices."""
    train_partition: str | None = None
    """Partition of the training job and of the scoring job; None takes ``partition``. The settings below are for these
    jobs, too."""
    train_account: str | None = None
    """Account of these jobs; None takes ``account``."""
    train_qos: str | None = None
    """Quality of service of these jobs; None takes ``qos``."""
    train_options: TextList = ()
    """More options of sbatch for these jobs, after ``options``."""
    train_time: TimeLimit = "24:00:00"
    """Time limit. An unfinished training goes back into the queue and resumes."""
    signal_seconds: Annotated[int, Field(ge=0, le=65535)] = 600
    """Seconds before the time limit at which the training is asked to save and stop."""
    train_attempts: Positive = 3
    """A training whose ranks were killed, hung or found a full disk goes back into the queue, unless so many attempts
    in a row began from the same checkpoint."""
    nodes: Positive = 1
    """The number of nodes of the training and scoring jobs."""
    ranks_per_node: Positive = 1
    """Ranks on each node: one for each GPU."""
    gpus_per_node: Gpus = "0"
    """GPUs requested on each node: 8, or h100:8 with their type (--gres=gpu:h100:8); 0 works on CPU."""
    train_cpus: Positive | None = None
    """Cores of one rank; None takes 8 where it has a GPU, else 1."""
    train_memory: MemorySize | None = None
    """Memory of one node; None takes the default."""
    launcher: TextList = ()
    """A command that starts the Python of every task and rank, such as [apptainer, exec, --nv, image.sif]."""
    srun_options: TextList = ()
    """More options of srun, such as pyxis' --container-image=…; when there are some, srun starts data jobs, too."""
    python: str | None = None
    """The Python of tasks and ranks, as a path inside the container; None takes the Python of this command."""
    replaced_jobs: Literal["pending", "all", "none"] = "pending"
    """The jobs of a run that are replaced when it is submitted with other resources: those that wait, all (running ones
    are cancelled; finished tasks and checkpoints are kept), or none."""
    site_env: FilePath | None = None
    """A shell file that every job sources first (modules, proxies). Example: slurm/site.env.example."""

    @property
    def shares_packages(self) -> bool:
        return not (self.python or self.launcher or self.srun_options)

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
        slurm_options.check_root(run_json)
        slurm_options.check_signal(self.signal_seconds, self.train_time)
        if 0 < self._gpus < self.ranks_per_node:
            problem = f"{self.ranks_per_node} ranks are more than the {self._gpus} GPUs (cluster.gpus_per_node)"
            raise ConfigError("cluster.ranks_per_node", problem, "give one rank for each GPU")
        for name in ("options", "data_options", "train_options", "srun_options"):
            slurm_options.check_options(getattr(self, name), "srun" if name[0] == "s" else "sbatch", f"cluster.{name}")
        if (file := self.site_env) is not None and not Path(file).is_file():
            raise ConfigError("cluster.site_env", f"no file {file!r}", "copy slurm/site.env.example and name it")

    def joins(self, raw_bytes: int) -> bool:
        return self.one_job == "always" or (self.one_job == "auto" and raw_bytes <= self.one_job_bytes)

    def replaces(self, is_running: bool) -> bool:
        return self.replaced_jobs == "all" or (self.replaced_jobs == "pending" and not is_running)

    def resources(self, kind: Kind) -> tuple[str, ...]:
        return slurm_options.with_places(os.environ, self._given(kind))

    def notes(self) -> Iterable[str]:
        yield from slurm_options.notes(os.environ, (self._given("tasks"), self._given("ranks")))
        if not self._gpus:
            yield "training and scoring are without GPUs (cluster.gpus_per_node=0)"
        elif self._gpus > self.ranks_per_node:
            idle = self._gpus - self.ranks_per_node
            yield f"{idle} of {self._gpus} GPUs of a node have no rank (cluster.ranks_per_node)"
        if (most := self._most_indices) < self.array_tasks:
            yield f"a job array of this cluster has at most {most} indices: more tasks than that share them"

    def array_width(self, request: JobRequest) -> int | None:
        if request.kind != "tasks":
            return None
        width = min(request.tasks, self.array_tasks)
        return width if width == 1 else min(width, self._most_indices)

    @cached_property
    def _most_indices(self) -> int:
        """The highest number of array indices of a job: that of the cluster, at most ``array_tasks``."""
        return min(self.array_tasks, slurm_client.most_array_indices() or self.array_tasks)

    def submit(self, request: JobRequest) -> str:
        """Submits one job with sbatch, and returns its number.

        Raises:
            TaskError, RetryableError: see ``slurm_client.sbatch``.
        """
        return slurm_client.sbatch(self.command(request), request.stage, request.token)

    def submit_notice(self, run_json: Path, name: str, ended: Sequence[str]) -> str:
        """Submits the job ``name``, which starts after any end of the jobs ``ended``; returns its number."""
        given = slurm_options.with_places(os.environ, (*self._placement("tasks"), *self.options, *self.data_options))
        script = [str(SCRIPTS / "notice.sbatch"), str(run_json), *self._python("tasks")]
        return slurm_client.sbatch_notice(run_json, name, ended, given, script)

    @property
    def job_server(self) -> str:
        return slurm_client.cluster_name()

    def command(self, request: JobRequest) -> list[str]:
        options = [f"--chdir={os.getcwd()}", f"--job-name={request.name}", *slurm_options.dependency(request)]
        log = str(request.log).replace("%", "%%")  # in --output a % begins a replacement
        width = self.array_width(request)
        if width is None:
            options.append(f"--output={log}-%j.log")
        else:
            indices = slurm_options.array_list({task % width for task in request.missing}, self.array_running)
            options += [f"--output={log}-%A_%a.log", f"--array={indices}"]
        options += self.resources(request.kind)
        comment = slurm_client.comment(options, request.token)
        return ["sbatch", "--parsable", *options, f"--comment={comment}", *self._script(request, width)]

    @staticmethod
    def submitted(jobs: Mapping[str, Job]) -> dict[str, str]:
        return slurm_client.submitted(jobs, jobs.values())

    @staticmethod
    def cancel(jobs: Sequence[Job]) -> None:
        slurm_client.cancel(slurm_client.own_numbers(jobs))

    @staticmethod
    def states(jobs: Sequence[Job]) -> dict[str, list[Entry]]:
        return slurm_client.queued(jobs)

    def _given(self, kind: Kind) -> tuple[str, ...]:
        """Returns the options that the settings give for jobs of ``kind``."""
        own = self.train_options if kind == "ranks" else self.data_options
        return (*self._placement(kind), *self._sizes(kind), *self.options, *own)

    def _placement(self, kind: Kind) -> list[str]:
        """Returns the options of partition, account and QOS: those of the kind of job, else those of every job."""
        if kind == "ranks":
            own = (self.train_partition, self.train_account, self.train_qos)
        else:
            own = (self.data_partition, self.data_account, self.data_qos)
        every = {"partition": self.partition, "account": self.account, "qos": self.qos}
        chosen = (other if given is None else given for given, other in zip(own, every.values(), strict=True))
        return [f"--{name}={value}" for name, value in zip(every, chosen, strict=True) if value is not None]

    def _sizes(self, kind: Kind) -> list[str]:
        """Returns the options of nodes, cores, time, memory and GPUs."""
        if kind != "ranks":
            memory = slurm_options.memory_option(self.data_memory, self._indices(kind))
            return [self._data_cores(kind), f"--time={self.data_time}", *memory]
        cores = self.train_cpus or (CORES_BESIDE_GPU if self._gpus else 1)
        sizes = [f"--nodes={self.nodes}", f"--ntasks-per-node={self.ranks_per_node}"]
        sizes += [f"--cpus-per-task={cores}", f"--time={self.train_time}"]
        sizes += [f"--signal=B:USR2@{self.signal_seconds}", *slurm_options.memory_option(self.train_memory)]
        return sizes + [f"--gres=gpu:{self.gpus_per_node}"] * (self._gpus > 0)

    @property
    def _gpus(self) -> int:
        """The number of GPUs of each node."""
        return int(self.gpus_per_node.rpartition(":")[2])

    def _data_cores(self, kind: Kind) -> str:
        return f"--cpus-per-task={self.data_cpus * self._indices(kind)}"

    def _indices(self, kind: Kind) -> int:
        """Returns the number of array indices whose resources a data job of ``kind`` has."""
        return self.one_job_tasks if kind == "stages" else 1

    def _script(self, request: JobRequest, width: int | None) -> list[str]:
        """Returns the path of the script of ``request``, and its arguments."""
        run_json, stage = str(request.run_json), request.stage
        if request.kind == "ranks":
            name, arguments = "train", [run_json, stage, str(request.folder.resolve()), str(self.train_attempts)]
        elif request.kind == "stages":
            name, arguments = "data", [run_json, f"{stage}..{request.last}", str(self.one_job_tasks)]
        else:
            name, arguments = "array", [run_json, stage, request.phase, str(width)]
        return [str(SCRIPTS / f"{name}.sbatch"), *arguments, *self._python(request.kind)]

    def _python(self, kind: Kind) -> list[str]:
        """Returns the last arguments of a script: PYTHON [SITE_ENV [LAUNCHER …]]."""
        site_env = str(Path(self.site_env).resolve()) if self.site_env else ""
        python, *launcher = self._start(kind)
        return [python, *([site_env, *launcher] if site_env or launcher else [])]

    def _start(self, kind: Kind) -> list[str]:
        """Returns the Python that the script of a job calls for slurm_job.py or data_job.py, and their arguments, which
        start a task, or of srun, which starts a rank."""
        srun = ["srun", self._data_cores(kind)] if kind != "ranks" and self.srun_options else []
        start = [*srun, *self.srun_options, *self.launcher, self.python or sys.executable]
        return [sys.executable, *(start if start != [sys.executable] else [])]

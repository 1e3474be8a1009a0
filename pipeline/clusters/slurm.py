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
import re
import secrets
import shutil
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from headrace.pipeline.clusters import slurm_client
from headrace.pipeline.clusters.base import CORES_BESIDE_GPU, Entry, Job, JobRequest, Kind, Scheduler, check_ranks
from headrace.pipeline.core.errors import ConfigError
from headrace.pipeline.core.settings import FilePath, Positive, TextList, settings

SCRIPTS = Path(__file__).resolve().parents[2] / "slurm"

TimeLimit = Annotated[str, Field(pattern=r"^(\d+-)?\d+(:\d+){0,2}$")]
"""A time in the syntax of sbatch: minutes, minutes:seconds, hours:minutes:seconds, days-hours, …"""
MemorySize = Annotated[str, Field(pattern=r"^\d+[KMGTkmgt]?$")]
"""A size in the syntax of sbatch: megabytes, or a number with a unit."""
Gpus = Annotated[str, Field(pattern=r"^([\w.-]+:)?\d{1,4}$", coerce_numbers_to_str=True)]
"""A number of GPUs, or a type and a number: 8, h100:8."""

SMALL_BYTES = 1_000_000_000
"""The most bytes of raw files whose data stages are one job with ``one_job=auto``."""
HIDES = "would hide the jobs from headrace status and cancel"
REFUSED = {
    **dict.fromkeys(("--job-name", "--clusters", "--array", "--dependency", "--output", "--parsable"), HIDES),
    "--wait": "would keep sbatch from answering until the job has ended (headrace status --watch waits for a run)",
    "--test-only": "submits nothing (headrace plan shows what a run would do)",
}
"""Options of sbatch that Headrace sets, or with which it would not find its jobs again."""


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
    data_options: TextList = ()
    """More options of sbatch for the data jobs, after ``options``, such as --account or --qos of their own."""
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
    """All data stages run in one job, instead of a job for each phase; ``auto``: when the raw files have at most a
    gigabyte, as they are stored."""
    one_job_tasks: Positive = 4
    """Tasks that run at once in the one job. It has the cores and the memory of so many array indices."""
    train_partition: str | None = None
    """Partition of the training job and of the scoring job; None takes ``partition``. The settings below are for these
    jobs, too."""
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
        limit = limit_seconds(self.train_time)
        if limit and self.signal_seconds >= limit:
            problem = f"{self.signal_seconds} s is not below cluster.train_time ({self.train_time}, {limit} s)"
            remedy = "lower it, or raise cluster.train_time: the training would be asked to stop at once"
            raise ConfigError("cluster.signal_seconds", problem, remedy)
        check_ranks(self.ranks_per_node, self._gpus)
        for name in ("options", "data_options", "train_options", "srun_options"):
            for option in getattr(self, name):
                check_option(option, f"cluster.{name}", is_of_srun=name == "srun_options")
        if (file := self.site_env) is not None and not Path(file).is_file():
            raise ConfigError("cluster.site_env", f"no file {file!r}", "copy slurm/site.env.example and name it")

    def joins(self, raw_bytes: int) -> bool:
        return self.one_job == "always" or (self.one_job == "auto" and raw_bytes <= SMALL_BYTES)

    def _options(self, kind: Kind) -> tuple[str, ...]:
        """Returns the options that the settings give for jobs of ``kind``."""
        of_kind = self.train_options if kind == "ranks" else self.data_options
        return (*self._placement(kind), *self._sizes(kind), *self.options, *of_kind)

    def notes(self) -> Iterable[str]:
        if not self._gpus:
            yield "training and scoring are without GPUs (cluster.gpus_per_node=0)"
        elif self._gpus > self.ranks_per_node:
            idle = self._gpus - self.ranks_per_node
            yield f"{idle} of {self._gpus} GPUs of a node have no rank (cluster.ranks_per_node)"

    def array_width(self, request: JobRequest) -> int | None:
        return min(request.tasks, self.array_tasks) if request.kind == "tasks" else None

    def submit(self, request: JobRequest) -> str:
        """Submits one job with sbatch, and returns its number.

        Raises:
            TaskError, RetryableError: see ``slurm_client.sbatch``.
        """
        return slurm_client.sbatch(self.command(request), request.stage, request.token)

    def submit_notice(self, run_json: Path, name: str, ended: Sequence[str]) -> str:
        """Submits the job ``name``, which starts after any end of the jobs ``ended``; returns its number.

        It has neither the time nor the memory of other jobs: those may be what ended them.
        """
        options = [f"--chdir={os.getcwd()}", f"--job-name={name}", f"--dependency=afterany:{':'.join(ended)}"]
        options += [f"--output={_escaped(run_json.parent / 'logs' / 'notice')}-%j.log", *self._placement("tasks")]
        options += [*self.options, *self.data_options, "--time=10"]
        script = [str(SCRIPTS / "notice.sbatch"), str(run_json), *self._python("tasks")]
        token = secrets.token_hex(8)
        command = ["sbatch", "--parsable", *options, slurm_client.comment(options, token), *script]
        return slurm_client.sbatch(command, "notice", token)

    @property
    def job_server(self) -> str:
        return slurm_client.cluster_name()

    def command(self, request: JobRequest) -> list[str]:
        options = [f"--chdir={os.getcwd()}", f"--job-name={request.name}"]
        if request.after:
            options.append(f"--dependency=afterok:{request.after}")
        width = self.array_width(request)
        if width is None:
            options.append(f"--output={_escaped(request.log)}-%j.log")
        else:
            indices = array_list({task % width for task in request.missing}, self.array_running)
            options += [f"--output={_escaped(request.log)}-%A_%a.log", f"--array={indices}"]
        options += self._options(request.kind)
        comment = slurm_client.comment(options, request.token)
        return ["sbatch", "--parsable", *options, comment, *self._script(request, width)]

    @staticmethod
    def submitted(jobs: Mapping[str, Job]) -> dict[str, str]:
        for where in slurm_client.elsewhere(jobs.values()).values():
            raise ConfigError("cluster=slurm", "a submission got no answer", where)
        return slurm_client.submitted(jobs)

    @staticmethod
    def cancel(jobs: Sequence[Job]) -> None:
        slurm_client.cancel(jobs)

    @staticmethod
    def states(jobs: Sequence[Job]) -> dict[str, list[Entry]]:
        return slurm_client.queued(jobs)

    def _placement(self, kind: Kind) -> list[str]:
        """Returns the options of partition, account and QOS."""
        of_kind = self.train_partition if kind == "ranks" else self.data_partition
        chosen = {"partition": of_kind or self.partition, "account": self.account, "qos": self.qos}
        return [f"--{name}={value}" for name, value in chosen.items() if value is not None]

    def _sizes(self, kind: Kind) -> list[str]:
        """Returns the options of nodes, cores, time, memory and GPUs."""
        if kind != "ranks":
            sizes = [self._data_cores(kind), f"--time={self.data_time}"]
            if self.data_memory is not None:
                number = self.data_memory.rstrip("KMGTkmgt")
                unit = self.data_memory[len(number) :]
                sizes.append(f"--mem={int(number) * self._indices(kind)}{unit}")
            return sizes
        cores = self.train_cpus or (CORES_BESIDE_GPU if self._gpus else 1)
        sizes = [f"--nodes={self.nodes}", f"--ntasks-per-node={self.ranks_per_node}"]
        sizes += [f"--cpus-per-task={cores}", f"--time={self.train_time}", f"--signal=B:USR2@{self.signal_seconds}"]
        if self.train_memory is not None:
            sizes.append(f"--mem={self.train_memory}")
        if self._gpus > 0:
            sizes.append(f"--gres=gpu:{self.gpus_per_node}")
        return sizes

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


def check_option(option: str, setting: str, is_of_srun: bool) -> None:
    """Checks an ``option`` of sbatch, or of srun, that a user gives in ``setting``.

    sbatch takes ``--job=x`` for ``--job-name=x``, so the beginning of a refused option is refused, too.

    Raises:
        ConfigError: when it is no option, would hide the jobs, or would break them.
    """
    name, _, value = option.partition("=")
    if not option.startswith("--"):
        program = "srun" if is_of_srun else "sbatch"
        raise ConfigError(setting, f"{option!r} is not an option of {program}", "write --name=value")
    if is_of_srun:
        if name == "--export" and value.split(",")[0] != "ALL":
            problem = f"{option!r} would take the address at which the ranks meet from them"
            raise ConfigError(setting, problem, "write --export=ALL,NAME=value")
        return
    refused = name if name in REFUSED else next((known for known in REFUSED if known.startswith(name)), "")
    if name != "--" and (effect := REFUSED.get(refused)):
        raise ConfigError(setting, f"{option!r} {effect}", "remove it")


def limit_seconds(limit: str) -> int | None:
    """Returns a time limit of sbatch in seconds (0: no limit); None when it is not a time."""
    match = re.fullmatch(r"(?:(\d+)-)?(\d+)(?::(\d+))?(?::(\d+))?", limit)
    if match is None:
        return None
    days, *clock = (int(number or 0) for number in match.groups())
    if match[1] is None and match[4] is None:
        clock = [0, *clock[:2]]  # minutes, or minutes:seconds
    hours, minutes, seconds = clock
    return ((days * 24 + hours) * 60 + minutes) * 60 + seconds


def array_list(indices: Iterable[int], running: int | None) -> str:
    """Returns the value of sbatch's --array for ``indices``, at most ``running`` at once: ``3,7-9%2``."""
    spans: list[list[int]] = []
    for index in sorted(indices):
        if spans and spans[-1][-1] == index - 1:
            spans[-1][1:] = [index]
        else:
            spans.append([index])
    return ",".join("-".join(map(str, span)) for span in spans) + ("" if running is None else f"%{running}")


def _escaped(log: Path) -> str:
    """Returns ``log`` for --output, where a % begins a replacement."""
    return str(log).replace("%", "%%")

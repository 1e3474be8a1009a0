"""An example of a cluster of one's own: each job is a process, described by files in the folder $FILES_CLUSTER.

    python examples/files_cluster.py headrace ARGUMENT ...    the command line, with the cluster registered
    python examples/files_cluster.py worker ARGUMENT ...      the worker, with the cluster registered
    python examples/files_cluster.py rank ARGUMENT ...        a rank, with the cluster registered
    python examples/files_cluster.py job NUMBER               the job: waits, then runs the workers

    <number>.json     the job: process, the job before it, the workers' arguments, their logs
    <number>.state    PENDING, RUNNING, COMPLETED or FAILED
    hold              while it exists, pending jobs do not start

Everything that a new cluster needs is in the class and in ``register``.
"""

import json
import os
import runpy
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from headrace.pipeline import clusters
from headrace.pipeline.clusters.base import (
    COMPLETED,
    JOB_RANK,
    PENDING,
    RUNNING,
    WORKER,
    Entry,
    Job,
    JobRequest,
    Kind,
    Scheduler,
)
from headrace.pipeline.clusters.local import Local
from headrace.pipeline.clusters.slurm import Slurm
from headrace.pipeline.core.charges import Charge
from headrace.pipeline.core.environment import CORES, JOB
from headrace.pipeline.core.settings import Positive, settings

POLL_SECONDS = 0.1


@settings
class Files:
    """Jobs as processes of this machine."""

    type: Literal["files"] = "files"
    width: Positive = 2
    """Array indices of one job, ranks of a training, and workers of a job that runs all data stages."""
    one_job: bool = False
    """Whether all data stages run in one job."""

    job_variables: ClassVar[Mapping[str, str]] = {JOB: "FILES_JOB", CORES: "FILES_CORES"}
    rank_variables: ClassVar[Mapping[str, str]] = {
        "RANK": "FILES_RANK",
        "LOCAL_RANK": "FILES_RANK",
        "WORLD_SIZE": "FILES_RANKS",
        "LOCAL_WORLD_SIZE": "FILES_RANKS",
    }

    @property
    def shares_packages(self) -> bool:
        return True

    @property
    def scheduler(self) -> Scheduler | None:
        return self

    def world(self, ranks: int) -> int:
        return self.width

    def check(self, run_json: Path) -> None:
        assert folder().is_dir()

    def joins(self, raw_bytes: int) -> bool:
        return self.one_job

    def resources(self, kind: Kind) -> tuple[str, ...]:
        return (f"width {self.width}",)

    def notes(self) -> tuple[str, ...]:
        return ()

    def replaces(self, is_running: bool) -> bool:
        return not is_running

    def array_width(self, request: JobRequest) -> int | None:
        return min(self.width, request.tasks) if request.kind == "tasks" else None

    def submit(self, request: JobRequest) -> int:
        number, width = len(list(folder().glob("*.json"))) + 1, self.array_width(request)
        job = Job(0, str(request.log), width).numbered(number)
        where = [str(request.run_json), request.stage]
        arrays = [] if width is None else sorted({task % width for task in request.missing})
        ranks = self.width if request.kind == "ranks" else 0
        workers = [[*where, request.phase, str(index), str(width)] for index in arrays] or [where] * ranks
        workers = workers or [[where[0], f"{request.stage}..{request.last}", str(self.width)]]
        logs = [str(job.log_of(index)) for index in (arrays or [0] * len(workers))]
        set_state(number, PENDING)
        command = [sys.executable, __file__, "job", str(number)]
        with path_of_log(number).open("wb") as output:
            process = subprocess.Popen(command, stdout=output, stderr=output, start_new_session=True)
        values = {"process": process.pid, "after": request.after, "workers": workers, "token": request.token}
        path = folder() / f"{number}.json"
        path.with_suffix(".new").write_text(json.dumps({**values, "logs": logs, "ranks": ranks}))
        path.with_suffix(".new").rename(path)
        return number

    @staticmethod
    def states(jobs: Sequence[Job]) -> dict[int, list[Entry]]:
        entries: dict[int, list[Entry]] = {}
        for number in {job.job for job in jobs}:
            state = state_of(number).read_text()
            is_live = state in (PENDING, RUNNING) and is_alive(read(number)["process"])
            word = state if is_live or state not in (PENDING, RUNNING) else "CANCELLED"
            entries[number] = [Entry(number, None, word, is_live, "Files")]
        return entries

    @staticmethod
    def submitted(tokens: Collection[str]) -> dict[str, int]:
        numbers = {read(number)["token"]: number for number in (int(path.stem) for path in folder().glob("*.json"))}
        return {token: numbers[token] for token in tokens if token in numbers}

    @staticmethod
    def charges(jobs: Sequence[str]) -> list[Charge]:
        return []

    @staticmethod
    def cancel(jobs: Sequence[int]) -> None:
        for job in jobs:
            os.killpg(read(job)["process"], signal.SIGKILL)


def register() -> None:
    """Does the work of one line in the union of pipeline/clusters/__init__.py."""
    clusters.AnyCluster = Annotated[Local | Slurm | Files, Field(discriminator="type")]
    clusters.CLUSTERS["files"] = Files


def folder() -> Path:
    return Path(os.environ["FILES_CLUSTER"])


def read(job: int) -> dict[str, Any]:
    values: dict[str, Any] = json.loads((folder() / f"{job}.json").read_text())
    return values


def path_of_log(job: int) -> Path:
    return folder() / f"{job}.log"


def state_of(job: int) -> Path:
    return folder() / f"{job}.state"


def set_state(job: int, state: str) -> None:
    """Replaces the file at once: a reader never finds it empty."""
    new = folder() / f"{job}.new"
    new.write_text(state)
    new.replace(state_of(job))


def is_alive(process: int) -> bool:
    try:
        return "\nState:\tZ" not in Path(f"/proc/{process}/status").read_text()
    except FileNotFoundError:
        return False


def run_job(number: int) -> None:
    path = folder() / f"{number}.json"
    while not path.exists() or (folder() / "hold").exists():
        time.sleep(POLL_SECONDS)
    job = read(number)
    while job["after"] and (state := state_of(job["after"]).read_text()) != COMPLETED:
        if state == "FAILED" or not is_alive(read(job["after"])["process"]):
            return
        time.sleep(POLL_SECONDS)
    set_state(number, RUNNING)
    statuses = [worker.wait() for worker in list(started(number, job))]
    set_state(number, "FAILED" if any(statuses) else COMPLETED)


def started(number: int, job: Mapping[str, Any]) -> "Iterator[subprocess.Popen[bytes]]":
    """The workers of ``job``."""
    with socket.socket() as free:
        free.bind(("localhost", 0))
        port = str(free.getsockname()[1])
    for rank, (arguments, log) in enumerate(zip(job["workers"], job["logs"], strict=True)):
        environment = os.environ | {"FILES_JOB": str(number), "FILES_CORES": "1"}
        if job["ranks"]:
            environment |= {"FILES_RANK": str(rank), "FILES_RANKS": str(job["ranks"])}
            environment |= {"MASTER_ADDR": "localhost", "MASTER_PORT": port}
        with open(log, "ab") as output:
            command = [sys.executable, __file__, "rank" if job["ranks"] else "worker", *arguments]
            yield subprocess.Popen(command, stdout=output, stderr=output, env=environment)


if __name__ == "__main__":
    role, *rest = sys.argv[1:]
    if role == "job":
        run_job(int(rest[0]))
    else:
        sys.modules["files_cluster"] = sys.modules[
            "__main__"
        ]  # the classes stay importable once it runs another module
        register()
        module = {"worker": WORKER, "rank": JOB_RANK}.get(role, "headrace")
        sys.argv = [module, *rest]
        runpy.run_module(module, run_name="__main__", alter_sys=True)

"""An example of a cluster of one's own: each job is a process, described by files in the folder $FILES_CLUSTER.

    PYTHONPATH=examples headrace … cluster.type=files_cluster:Files +cluster.width=4
    python examples/files_cluster.py job NUMBER               the job: waits, then runs the workers

    <number>.json     the job: process, the job before it, the workers' arguments, their logs
    <number>.state    PENDING, RUNNING, COMPLETED or FAILED
    hold              while it exists, pending jobs do not start

A job gives its processes the variables of core/environment.py by their names.
"""

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from headrace.pipeline.clusters.base import (
    COMPLETED,
    JOB_RANK,
    PENDING,
    RUNNING,
    WORKER,
    Entry,
    Job,
    JobRequest,
    Scheduler,
)
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

    def notes(self) -> tuple[str, ...]:
        return ()

    def array_width(self, request: JobRequest) -> int | None:
        return min(self.width, request.tasks) if request.kind == "tasks" else None

    @property
    def job_server(self) -> str:
        return ""

    def submit(self, request: JobRequest) -> str:
        number, width = str(len(list(folder().glob("*.json"))) + 1), self.array_width(request)
        job = Job("", str(request.log), width).identified(number)
        where = [str(request.run_json), request.stage]
        arrays = [] if width is None else sorted({task % width for task in request.missing})
        ranks = self.width if request.kind == "ranks" else 0
        workers = [[*where, request.phase, str(index), str(width)] for index in arrays] or [where] * ranks
        workers = workers or [[where[0], f"{request.stage}..{request.last}", str(self.width)]]
        logs = [str(job.log_of(index)) for index in (arrays or [0] * len(workers))]
        set_state(number, PENDING)
        command = [sys.executable, __file__, "job", number]
        with path_of_log(number).open("wb") as output:
            process = subprocess.Popen(command, stdout=output, stderr=output, start_new_session=True)
        values = {"process": process.pid, "after": request.after, "workers": workers, "token": request.token}
        path = folder() / f"{number}.json"
        path.with_suffix(".new").write_text(json.dumps({**values, "logs": logs, "ranks": ranks}))
        path.with_suffix(".new").rename(path)
        return number

    @staticmethod
    def states(jobs: Sequence[Job]) -> dict[str, list[Entry]]:
        entries: dict[str, list[Entry]] = {}
        for number in {job.job for job in jobs}:
            state = state_now(number)
            entries[number] = [Entry(number, None, state, state in (PENDING, RUNNING), "Files")]
        return entries

    @staticmethod
    def submitted(jobs: Mapping[str, Job]) -> dict[str, str]:
        numbers = {read(number)["token"]: number for number in (path.stem for path in folder().glob("*.json"))}
        return {token: numbers[token] for token in jobs if token in numbers}

    @staticmethod
    def cancel(jobs: Sequence[Job]) -> None:
        for job in jobs:
            with contextlib.suppress(ProcessLookupError):  # it has just ended
                os.killpg(read(job.job)["process"], signal.SIGKILL)


def folder() -> Path:
    return Path(os.environ["FILES_CLUSTER"])


def read(job: str) -> dict[str, Any]:
    values: dict[str, Any] = json.loads((folder() / f"{job}.json").read_text())
    return values


def path_of_log(job: str) -> Path:
    return folder() / f"{job}.log"


def state_of(job: str) -> Path:
    return folder() / f"{job}.state"


def set_state(job: str, state: str) -> None:
    """Replaces the file at once: a reader never finds it empty."""
    new = folder() / f"{job}.new"
    new.write_text(state)
    new.replace(state_of(job))


def state_now(job: int) -> str:
    """Returns the state of ``job``. Its process is looked at first: it leaves its last state before it ends."""
    has_ended = not is_alive(read(job)["process"])
    state = state_of(job).read_text()
    return "CANCELLED" if has_ended and state in (PENDING, RUNNING) else state


def is_alive(process: int) -> bool:
    try:
        return "\nState:\tZ" not in Path(f"/proc/{process}/status").read_text()
    except FileNotFoundError:
        return False


def run_job(number: str) -> None:
    path = folder() / f"{number}.json"
    while not path.exists() or (folder() / "hold").exists():
        time.sleep(POLL_SECONDS)
    job = read(number)
    while job["after"] and (state := state_now(job["after"])) != COMPLETED:
        if state in ("FAILED", "CANCELLED"):
            return
        time.sleep(POLL_SECONDS)
    set_state(number, RUNNING)
    statuses = [worker.wait() for worker in list(started(number, job))]
    set_state(number, "FAILED" if any(statuses) else COMPLETED)


def started(number: str, job: Mapping[str, Any]) -> "Iterator[subprocess.Popen[bytes]]":
    """The workers of ``job``."""
    with socket.socket() as free:
        free.bind(("localhost", 0))
        port = str(free.getsockname()[1])
    for rank, (arguments, log) in enumerate(zip(job["workers"], job["logs"], strict=True)):
        environment = os.environ | {JOB: number, CORES: "1"}
        if job["ranks"]:
            environment |= {"RANK": str(rank), "LOCAL_RANK": str(rank)}
            environment |= dict.fromkeys(("WORLD_SIZE", "LOCAL_WORLD_SIZE"), str(job["ranks"]))
            environment |= {"MASTER_ADDR": "localhost", "MASTER_PORT": port}
        with open(log, "ab") as output:
            command = [sys.executable, "-m", *(JOB_RANK if job["ranks"] else [WORKER]), *arguments]
            yield subprocess.Popen(command, stdout=output, stderr=output, env=environment)


if __name__ == "__main__":
    run_job(sys.argv[2])

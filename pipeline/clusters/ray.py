"""A Ray cluster, for teams without SLURM. Each request is a job of Ray, submitted as ``ray job submit`` does.

    headrace ── POST /api/jobs/ ──> job of Ray: ray_job.py ──> waits for the job before it
                                                    ├─> a task of Ray for each array index ── runs WORKER
                                                    └─> a placement group of nodes ── each runs JOB_RANK for its ranks

All data stages are one job; training, scoring and the report are one each. The job server is asked by HTTP (Ray's
documentation, Ray Jobs REST API), so the machine that submits needs no Ray. It refuses a second job with an id that it
knows, and forgets all jobs when the head starts again.
"""

import json
import os
import shlex
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field

from headrace.pipeline.clusters.base import (
    CANCELLED,
    COMPLETED,
    CORES_BESIDE_GPU,
    PENDING,
    RUNNING,
    Entry,
    Job,
    JobRequest,
    Scheduler,
    check_ranks,
)
from headrace.pipeline.core.errors import ConfigError, HeadraceError, RetryableError, TaskError
from headrace.pipeline.core.settings import Positive, settings

RAY_JOB = "headrace.pipeline.clusters.ray_job"
"""The module that the entrypoint of a job runs."""
DEFAULT = "http://127.0.0.1:8265"
VARIABLES = ("RAY_API_SERVER_ADDRESS", "RAY_ADDRESS")
"""The variables that ``ray job submit`` reads. In RAY_ADDRESS, only an address of the job server counts here."""
TOKEN = "RAY_AUTH_TOKEN"
"""The variable with the token of a cluster that asks for one."""
ANSWER_SECONDS = 60.0

STATES = {"PENDING": PENDING, "RUNNING": RUNNING, "SUCCEEDED": COMPLETED, "STOPPED": CANCELLED}
"""Ray's state of a job → ours; FAILED stays as it is."""
LIVE = (PENDING, RUNNING)


@settings
class Ray:
    """A Ray cluster: a job for all data stages, one for training, one for scoring, one for the report."""

    type: Literal["ray"] = "ray"
    address: str | None = None
    """Address of its job server, such as http://head:8265; None takes RAY_API_SERVER_ADDRESS or RAY_ADDRESS, else the
    head on this machine."""
    data_cpus: Positive = 1
    """Cores of one task of a data stage."""
    nodes: Positive = 1
    """The number of machines of the training and scoring jobs."""
    ranks_per_node: Positive = 1
    """Ranks on each machine: one for each GPU."""
    gpus_per_node: Annotated[int, Field(ge=0, le=9999)] = 0
    """GPUs requested on each machine; 0 works on CPU."""
    train_cpus: Positive | None = None
    """Cores of one rank; None takes 8 where it has a GPU, else 1."""
    attempts: Positive = 3
    """A data task or a training whose processes or machines were lost starts again, unless so many attempts in a row
    have failed, of a training from the same checkpoint."""

    @property
    def shares_packages(self) -> bool:
        return False

    @property
    def scheduler(self) -> Scheduler | None:
        return self

    def world(self, ranks: int) -> int:
        return self.nodes * self.ranks_per_node

    @property
    def job_server(self) -> str:
        named = [self.address or "", *(os.environ.get(name, "") for name in VARIABLES)]
        address = next((name for name in named if name.startswith(("http://", "https://"))), DEFAULT)
        return address.rstrip("/")

    def check(self, run_json: Path) -> None:
        """Refuses settings that cannot work, and a job server that does not answer.

        Raises:
            ConfigError: naming the setting and its value.
            TaskError: when the job server does not answer.
        """
        if self.address is not None and not self.address.startswith(("http://", "https://")):
            problem = f"{self.address!r} is not the address of a job server"
            raise ConfigError("cluster.address", problem, "give that of the dashboard: http://head:8265")
        check_ranks(self.ranks_per_node, self.gpus_per_node)
        entries(self.job_server)

    def joins(self, raw_bytes: int) -> bool:
        return True

    def notes(self) -> Iterable[str]:
        if not self.gpus_per_node:
            yield "training and scoring are without GPUs (cluster.gpus_per_node=0)"

    def array_width(self, request: JobRequest) -> int | None:
        return None

    def command(self, request: JobRequest) -> list[str]:
        options = [f"--address={self.job_server}", f"--submission-id={_id_of(request.token)}"]
        metadata = f"--metadata-json={json.dumps(_metadata(request))}"
        return ["ray", "job", "submit", "--no-wait", *options, metadata, "--", *self._entrypoint(request)]

    def submit(self, request: JobRequest) -> str:
        """Submits one job and returns its id, which follows from the token of the submission.

        Raises:
            TaskError: when the job server refuses it, and has no such job.
            RetryableError: when it gives no clear answer.
        """
        id, server = _id_of(request.token), self.job_server
        fields = {"entrypoint": shlex.join(self._entrypoint(request)), "submission_id": id}
        try:
            ask(server, "", {**fields, "metadata": _metadata(request)})
        except HeadraceError as refusal:
            try:
                is_known = id in entries(server)
            except TaskError:
                remedy = "run again when the head is up: nothing is submitted twice"
                raise RetryableError("cluster=ray", refusal.problem, remedy) from None
            if not is_known:
                raise
        return id

    def _entrypoint(self, request: JobRequest) -> list[str]:
        """Returns the command of the job. Ray runs it on a machine of the cluster, with that machine's Python."""
        work: dict[str, Any] = {
            "id": _id_of(request.token),
            "folder": os.getcwd(),
            "run_json": str(request.run_json),
            "log": str(request.log.resolve()),
            "after": request.after,
            "phases": request.phases,
            "attempts": self.attempts,
        }
        if request.kind == "ranks":  # the bundle has the resources of one machine, by Ray's names
            cores = self.train_cpus or (CORES_BESIDE_GPU if self.gpus_per_node else 1)
            bundle = {"CPU": cores * self.ranks_per_node, "GPU": self.gpus_per_node}
            work |= {"nodes": self.nodes, "ranks_per_node": self.ranks_per_node}
            work |= {"bundle": {name: number for name, number in bundle.items() if number}}
        else:
            work |= {"cpus": self.data_cpus}
        return ["python", "-m", RAY_JOB, json.dumps(work)]

    @staticmethod
    def submitted(jobs: Mapping[str, Job]) -> dict[str, str]:
        known = {address: entries(address) for address in {job.server for job in jobs.values()}}
        return {token: _id_of(token) for token, job in jobs.items() if _id_of(token) in known[job.server]}

    @staticmethod
    def cancel(jobs: Sequence[Job]) -> None:
        for job in jobs:
            if job.job in entries(job.server):
                ask(job.server, f"{job.job}/stop", {})

    @staticmethod
    def states(jobs: Sequence[Job]) -> dict[str, list[Entry]]:
        known = {address: entries(address, may_be_gone=True) for address in {job.server for job in jobs}}
        return {job.job: [known[job.server][job.job]] if job.job in known[job.server] else [] for job in jobs}


def _id_of(token: str) -> str:
    """Returns the id of the job that is submitted with ``token``."""
    return f"headrace-{token}"


def _metadata(request: JobRequest) -> dict[str, str]:
    """Returns what the job server keeps with the job; the name is what ``ray job list`` shows."""
    return {"name": request.name, "after": request.after or ""}


def entries(address: str, may_be_gone: bool = False) -> dict[str, Entry]:
    """Returns the entry of each submitted job that the server knows, by its id.

    Ray knows no dependencies: a job whose metadata name a live job as ``after`` waits for it, so it is PENDING. Where
    the head ``may_be_gone`` and nothing listens at the address, its jobs have ended with it: there are none.

    Raises:
        ConfigError, TaskError: see ``ask``.
    """
    try:
        known = ask(address, "")
    except TaskError as error:
        if may_be_gone and isinstance(error.__cause__, ConnectionRefusedError):
            return {}
        raise
    jobs = {job["submission_id"]: job for job in known if job.get("submission_id")}
    states = {id: STATES.get(job["status"], job["status"]) for id, job in jobs.items()}
    waiting = {id for id, job in jobs.items() if states.get((job["metadata"] or {}).get("after")) in LIVE}
    return {
        id: Entry(id, None, PENDING, True, "Dependency")
        if id in waiting and states[id] in LIVE
        else Entry(id, None, states[id], states[id] in LIVE, one_line(job["message"] or ""))
        for id, job in jobs.items()
    }


def ask(address: str, path: str, body: Mapping[str, Any] | None = None) -> Any:
    """Returns the answer of the job server at ``address``; with a ``body``, the request is a POST.

    Raises:
        ConfigError: when ``address`` is not that of a job server.
        TaskError: when it refuses, or does not answer.
    """
    import http.client  # most commands ask no server
    import urllib.error
    import urllib.request

    headers = {"Content-Type": "application/json"}
    if token := os.environ.get(TOKEN):
        headers["Authorization"] = f"Bearer {token}"
    data = None if body is None else json.dumps(body).encode()
    named_by = f"cluster.address, {' or '.join(VARIABLES)}"
    try:
        request = urllib.request.Request(f"{address}/api/jobs/{path}", data, headers)
        with urllib.request.urlopen(request, timeout=ANSWER_SECONDS) as answer:
            return json.loads(answer.read())
    except urllib.error.HTTPError as error:
        last_line = one_line(error.read().decode(errors="replace").strip().rpartition("\n")[2])
        remedy = "correct the cluster settings and run again"
        raise TaskError("cluster=ray", f"{address} refused: {error.code} {last_line}", remedy) from None
    except (OSError, http.client.HTTPException) as error:
        cause = getattr(error, "reason", error)
        remedy = f"is the head up (ray status)? ray start --head starts one; {named_by} names it"
        failure = TaskError("cluster=ray", f"{address} does not answer ({cause})", remedy)
        raise failure from (cause if isinstance(cause, OSError) else error)
    except ValueError:
        remedy = "give the address of its dashboard: http://head:8265"
        raise ConfigError(named_by, f"{address} is no job server of Ray", remedy) from None


def one_line(text: object) -> str:
    """Returns ``text``, or an error, as one line."""
    return " ".join(str(text).split())[:500]

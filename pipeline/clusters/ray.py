"""A Ray cluster, for teams without SLURM. Each request is a job of Ray, submitted as ``ray job submit`` does.

    headrace ── POST /api/jobs/ ──> job of Ray: ray_job.py ──> waits for the job before it
                                                    ├─> a task of Ray for each array index ── runs WORKER
                                                    └─> a placement group of nodes ── each runs JOB_RANK for its ranks

All data stages are one job. It submits the tasks of one phase after the other to all machines of the cluster. Training
and scoring are a job each, and the report is one.
"""

import json
import os
import secrets
import shlex
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field

from headrace.pipeline.clusters import ray_client
from headrace.pipeline.clusters.base import NOTICE, Entry, Job, JobRequest, Kind, Scheduler
from headrace.pipeline.core.errors import ConfigError, HeadraceError, RetryableError, TaskError
from headrace.pipeline.core.settings import Positive, settings

RAY_JOB = "headrace.pipeline.clusters.ray_job"
"""The module that the entrypoint of a job runs."""
CORES_BESIDE_GPU = 8
"""Cores of a rank with a GPU, for its main thread, reading, compiling and NCCL."""


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
        return (self.address or ray_client.default_address()).rstrip("/")

    def check(self, run_json: Path) -> None:
        """Refuses settings that cannot work, and a job server that does not answer.

        Raises:
            ConfigError: naming the setting and its value.
            TaskError: when the job server does not answer.
        """
        if self.address is not None and not self.address.startswith(("http://", "https://")):
            problem = f"{self.address!r} is not the address of a job server"
            raise ConfigError("cluster.address", problem, "give that of the dashboard: http://head:8265")
        if 0 < self.gpus_per_node < self.ranks_per_node:
            problem = f"{self.ranks_per_node} ranks are more than the {self.gpus_per_node} GPUs (cluster.gpus_per_node)"
            raise ConfigError("cluster.ranks_per_node", problem, "give one rank for each GPU")
        ray_client.entries(self.job_server)

    def joins(self, raw_bytes: int) -> bool:
        return True

    def resources(self, kind: Kind) -> tuple[str, ...]:
        if kind != "ranks":
            return (f"{self.data_cpus} CPU a task",)
        return (f"{self.nodes} x {self.ranks_per_node} ranks", *(f"{n} {name}" for name, n in self._bundle.items()))

    def notes(self) -> Iterable[str]:
        if not self.gpus_per_node:
            yield "training and scoring are without GPUs (cluster.gpus_per_node=0)"

    def replaces(self, is_running: bool) -> bool:
        return not is_running

    def array_width(self, request: JobRequest) -> int | None:
        return None

    def command(self, request: JobRequest) -> list[str]:
        options = [f"--address={self.job_server}", f"--submission-id={_id_of(request.token)}"]
        metadata = f"--metadata-json={json.dumps(self._metadata(request))}"
        return ["ray", "job", "submit", "--no-wait", *options, metadata, "--", *self._entrypoint(request)]

    def submit(self, request: JobRequest) -> str:
        """Submits one job and returns its id, which follows from the token of the submission.

        Raises:
            TaskError: when the job server refuses it, and has no such job.
            RetryableError: when it gives no clear answer.
        """
        id, server = _id_of(request.token), self.job_server
        fields: dict[str, Any] = {"entrypoint": shlex.join(self._entrypoint(request)), "submission_id": id}
        try:
            ray_client.submit(server, {**fields, "metadata": self._metadata(request)})
        except HeadraceError as refusal:
            if not _is_known(server, id, refusal):
                raise
        return id

    def submit_notice(self, run_json: Path, name: str, ended: Sequence[str]) -> str:
        """Submits the job ``name``, which waits for the end of the jobs ``ended`` and sends a notice; returns its id.

        Raises:
            ConfigError, TaskError: when the job server does not take it.
        """
        id = _id_of(secrets.token_hex(8))
        entrypoint = shlex.join(["python", "-m", NOTICE, str(run_json), "ended", *ended])
        fields = {"entrypoint": entrypoint, "submission_id": id, "metadata": {"name": name, "after": ""}}
        ray_client.submit(self.job_server, fields)
        return id

    @property
    def _bundle(self) -> dict[str, int]:
        """The resources of one machine of a training, by Ray's names."""
        cores = self.train_cpus or (CORES_BESIDE_GPU if self.gpus_per_node else 1)
        return {"CPU": cores * self.ranks_per_node, **({"GPU": self.gpus_per_node} if self.gpus_per_node else {})}

    @staticmethod
    def _metadata(request: JobRequest) -> dict[str, str]:
        """Returns what the job server keeps with the job; the name is what ``ray job list`` shows."""
        return {"name": request.name, "after": request.after or ""}

    def _entrypoint(self, request: JobRequest) -> list[str]:
        """Returns the command of the job. Ray runs it on a machine of the cluster, with that machine's Python."""
        work: dict[str, Any] = {
            "id": _id_of(request.token),
            "folder": os.getcwd(),
            "run_json": str(request.run_json),
            "log": str(request.log.resolve()),
            "before": [*filter(None, [request.after]), *request.ended],
            "must_succeed": request.after,
            "phases": request.phases,
            "attempts": self.attempts,
        }
        if request.kind == "ranks":
            work |= {"nodes": self.nodes, "ranks_per_node": self.ranks_per_node, "bundle": self._bundle}
        else:
            work |= {"cpus": self.data_cpus}
        return ["python", "-m", RAY_JOB, json.dumps(work)]

    @staticmethod
    def submitted(jobs: Mapping[str, Job]) -> dict[str, str]:
        known = {address: ray_client.entries(address) for address in {job.server for job in jobs.values()}}
        return {token: _id_of(token) for token, job in jobs.items() if _id_of(token) in known[job.server]}

    @staticmethod
    def is_gone(server: str) -> bool:
        """Whether no head is at the address ``server`` any more: its jobs have ended with it."""
        return ray_client.is_refused(server)

    @staticmethod
    def cancel(jobs: Sequence[Job]) -> None:
        for job in jobs:
            ray_client.stop(job.server, job.job)

    @staticmethod
    def states(jobs: Sequence[Job]) -> dict[str, list[Entry]]:
        known = {address: ray_client.entries(address) for address in {job.server for job in jobs}}
        return {job.job: [known[job.server][job.job]] if job.job in known[job.server] else [] for job in jobs}


def _id_of(token: str) -> str:
    """Returns the id of the job that is submitted with ``token``."""
    return f"headrace-{token}"


def _is_known(server: str, id: str, refusal: HeadraceError) -> bool:
    """Whether the job server has the job ``id``, whose submission ended with ``refusal``.

    Raises:
        RetryableError: when it does not answer.
    """
    try:
        return id in ray_client.entries(server)
    except TaskError:
        remedy = "run again when the head is up: nothing is submitted twice"
        raise RetryableError("cluster=ray", refusal.problem, remedy) from None

"""Requests to the job server of a Ray cluster, by its HTTP interface (Ray's documentation, Ray Jobs REST API).

    POST /api/jobs/            submits a job with an id of ours; a second one with the same id is refused
    GET  /api/jobs/            the jobs that the head knows; all are forgotten when it starts again
    POST /api/jobs/<id>/stop   stops one

So the machine that submits needs no Ray, and ``headrace status`` does not load it.
"""

import json
import os
from collections.abc import Mapping
from typing import Any

from headrace.pipeline.clusters.base import CANCELLED, COMPLETED, PENDING, RUNNING, Entry
from headrace.pipeline.core.errors import ConfigError, TaskError

DEFAULT = "http://127.0.0.1:8265"
VARIABLES = ("RAY_API_SERVER_ADDRESS", "RAY_ADDRESS")
"""The variables that ``ray job submit`` reads. In RAY_ADDRESS, only an address of the job server counts here."""
TOKEN, HEADERS = "RAY_AUTH_TOKEN", "RAY_JOB_HEADERS"
"""The variables with the token of a cluster that asks for one, and with more headers as JSON."""
ANSWER_SECONDS = 60.0
CORRECT = "correct the cluster settings and run again"

STATES = {"PENDING": PENDING, "RUNNING": RUNNING, "SUCCEEDED": COMPLETED, "STOPPED": CANCELLED}
"""Ray's state of a job → ours; FAILED stays as it is."""
LIVE = (PENDING, RUNNING)


def default_address() -> str:
    """Returns the address of the job server that this user's variables name, else that of a head on this machine."""
    named = [os.environ.get(name, "") for name in VARIABLES]
    return next((address for address in named if address.startswith(("http://", "https://"))), DEFAULT)


def setting_of(address: str) -> str:
    """Returns the variable, or the setting, that gave ``address``."""
    given = {name: os.environ.get(name, "").rstrip("/") for name in VARIABLES}
    return next((name for name, value in given.items() if value and value == address.rstrip("/")), "cluster.address")


def submit(address: str, job: Mapping[str, Any]) -> None:
    """Submits ``job``, the fields of a request.

    Raises:
        ConfigError, TaskError: see ``_ask``.
    """
    _ask(address, "", job)


def stop(address: str, job: str) -> None:
    """Asks the server to stop ``job``. One that has ended, or that the server does not know, is left as it is.

    Raises:
        ConfigError, TaskError: see ``_ask``.
    """
    if job in entries(address):
        _ask(address, f"{job}/stop", {})


def entries(address: str) -> dict[str, Entry]:
    """Returns the entry of each submitted job that the server knows, by its id.

    Ray knows no dependencies: a job whose metadata name a live job as ``after`` waits for it, so it is PENDING.

    Raises:
        ConfigError, TaskError: see ``_ask``.
    """
    jobs = {job["submission_id"]: job for job in _ask(address, "") if job.get("submission_id")}
    states = {id: STATES.get(job["status"], job["status"]) for id, job in jobs.items()}
    waiting = {id for id, job in jobs.items() if states.get((job["metadata"] or {}).get("after")) in LIVE}
    return {
        id: Entry(id, None, PENDING, True, "Dependency")
        if id in waiting and states[id] in LIVE
        else Entry(id, None, states[id], states[id] in LIVE, _one_line(job["message"] or ""))
        for id, job in jobs.items()
    }


def is_refused(address: str) -> bool:
    """Whether the machine of ``address`` answers that nothing listens there."""
    import socket
    from urllib.parse import urlsplit

    parts = urlsplit(address)
    try:
        with socket.create_connection((parts.hostname, parts.port or 80), ANSWER_SECONDS):
            return False
    except ConnectionRefusedError:
        return True
    except OSError:
        return False


def _ask(address: str, path: str, body: Mapping[str, Any] | None = None) -> Any:
    """Returns the answer of the job server at ``address``; with a ``body``, the request is a POST.

    Raises:
        ConfigError: when ``address`` is not that of a job server.
        TaskError: when it refuses, or does not answer.
    """
    import http.client  # most commands ask no server
    import urllib.error
    import urllib.request

    headers = {"Content-Type": "application/json", **json.loads(os.environ.get(HEADERS, "{}"))}
    if token := os.environ.get(TOKEN):
        headers["Authorization"] = f"Bearer {token}"
    data = None if body is None else json.dumps(body).encode()
    try:
        request = urllib.request.Request(f"{address.rstrip('/')}/api/jobs/{path}", data, headers)
        with urllib.request.urlopen(request, timeout=ANSWER_SECONDS) as answer:
            return json.loads(answer.read())
    except urllib.error.HTTPError as error:
        last_line = _one_line(error.read().decode(errors="replace").strip().rpartition("\n")[2])
        raise TaskError("cluster=ray", f"{address} refused: {error.code} {last_line}", CORRECT) from None
    except (OSError, http.client.HTTPException) as error:
        problem = f"{address} does not answer ({getattr(error, 'reason', error)})"
        remedy = "is the head up (ray status)? ray start --head starts one; " + f"{setting_of(address)} names it"
        raise TaskError("cluster=ray", problem, remedy) from None
    except ValueError:
        problem = f"{address} is no job server of Ray"
        remedy = "give the address of its dashboard: http://head:8265"
        raise ConfigError(setting_of(address), problem, remedy) from None


def _one_line(text: str) -> str:
    return " ".join(text.split())[:500]

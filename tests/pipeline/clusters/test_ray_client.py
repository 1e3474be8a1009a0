"""What Headrace asks a job server of Ray, and what it makes of the answers; the server is a stand-in."""

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from headrace.pipeline.clusters import ray
from headrace.pipeline.clusters.base import Job
from headrace.pipeline.clusters.ray import Ray
from headrace.pipeline.core.errors import ConfigError, RetryableError, TaskError
from headrace.pipeline.run import jobs
from headrace.pipeline.run.planned_stage import PlannedStage
from headrace.pipeline.run.submission import planned_jobs, submit
from tests.pipeline.run.conftest import run_json, steps
from tests.pipeline.run.fake_slurm import do, live_ids, unanswered

__all__ = ["run_json", "steps"]


class JobServer(ThreadingHTTPServer):
    """Keeps what is submitted. ``answers`` are given instead of those of the next submissions."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.address = f"http://127.0.0.1:{self.server_address[1]}"
        self.jobs: dict[str, dict[str, Any]] = {}
        self.answers: list[tuple[int, str]] = []
        self.stopped: list[str] = []
        self.headers: list[dict[str, str]] = []


class Handler(BaseHTTPRequestHandler):
    server: JobServer

    def do_GET(self) -> None:
        self.server.headers.append(dict(self.headers))
        self._answer(200, json.dumps(list(self.server.jobs.values())))

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.path != "/api/jobs/":
            id = self.path.split("/")[3]
            self.server.stopped.append(id)
            self.server.jobs[id]["status"] = "STOPPED"
            return self._answer(200, '{"stopped": true}')
        status, text = self.server.answers.pop(0) if self.server.answers else (200, "{}")
        if status != 503:
            self.server.jobs[body["submission_id"]] = {**body, "status": "PENDING", "message": "Job has not\nstarted."}
        self._answer(status, text)

    def _answer(self, status: int, text: str) -> None:
        self.send_response(status)
        self.end_headers()
        self.wfile.write(text.encode())

    def log_message(self, format: str, *arguments: object) -> None:
        """Prints nothing."""


@pytest.fixture
def server() -> Iterator[JobServer]:
    with JobServer() as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


def work_of(job: dict[str, Any]) -> dict[str, Any]:
    """The work that the entrypoint of a job has for an argument."""
    return json.loads(job["entrypoint"].partition("ray_job ")[2].strip("'"))


def test_a_run_is_a_chain_of_jobs(server: JobServer, steps: list[PlannedStage], run_json: Path) -> None:
    do(steps[0], "sort", range(5))
    cluster = Ray(address=f"{server.address}/", nodes=2, ranks_per_node=4, gpus_per_node=4)
    submit(steps, cluster, run_json)
    letters, learned, scores = server.jobs.values()
    assert letters["metadata"] == {"name": "feedfeed:letters", "after": ""}
    folder = str(steps[0].folder)
    assert work_of(letters)["phases"] == [["letters", "sort", 10, folder], ["letters", "join", 1, folder]]
    assert learned["metadata"] == {"name": "feedfeed:learned", "after": letters["submission_id"]}
    bundle = {"CPU": 32, "GPU": 4}
    assert {key: work_of(scores)[key] for key in ("nodes", "ranks_per_node", "bundle", "after")} == {
        "nodes": 2, "ranks_per_node": 4, "bundle": bundle, "after": learned["submission_id"],
    }  # fmt: skip
    assert live_ids(steps) == {"ray": sorted(server.jobs)}
    letters["status"] = "RUNNING"
    first, second = letters["submission_id"], learned["submission_id"]
    assert jobs.states(steps[:2]) == {
        "letters": f"RUNNING, job {first}",
        "learned": f"PENDING (Dependency), job {second}",
    }
    submit(steps, cluster, run_json)
    assert len(server.jobs) == 3, "nothing is submitted twice"


def test_the_server_is_in_the_record(server: JobServer, steps: list[PlannedStage], run_json: Path) -> None:
    """So status and cancel ask it, also of a run with other settings. Another one gets no job while it has one."""
    submit(steps[:1], Ray(address=server.address), run_json)
    assert jobs.records(steps[0])["sort"].server == server.address
    with JobServer() as other:
        threading.Thread(target=other.serve_forever, daemon=True).start()
        with pytest.raises(
            ConfigError, match=rf"^letters.sort: job headrace-\w+ of ray at {server.address} may wait or"
        ):
            submit(steps[:1], Ray(address=other.address), run_json)
        assert not other.jobs
        jobs.cancel("ray", [jobs.records(steps[0])["sort"]])
        assert server.stopped == list(server.jobs)
        submit(steps[:1], Ray(address=other.address), run_json)
        assert len(other.jobs) == 1
        other.shutdown()
    assert jobs.records(steps[0])["sort"].job in other.jobs


def test_a_head_that_is_gone_has_no_jobs(server: JobServer, steps: list[PlannedStage], run_json: Path) -> None:
    with JobServer() as other:  # it never answers
        gone = other.address
    jobs.record(steps[0], steps[0].phases[0], Job("headrace-5f0c", "log", None, "ray", server=gone))
    submit(steps[:1], Ray(address=server.address), run_json)
    assert len(server.jobs) == 1


def test_a_lost_answer(server: JobServer, steps: list[PlannedStage], run_json: Path) -> None:
    server.answers = [(500, "Traceback …\nTimeoutError")]
    submit(steps[:1], Ray(address=server.address), run_json)
    assert jobs.records(steps[0])["sort"].job in server.jobs, "the job is there, whatever was answered"
    server.answers = [(503, "No available agent")]
    with pytest.raises(TaskError) as caught:
        submit(steps[1:2], Ray(address=server.address), run_json)
    assert str(caught.value) == (
        f"cluster=ray: {server.address} refused: 503 No available agent; correct the cluster settings and run again"
    )
    assert not unanswered(*steps), "a refused job is none"


def test_a_server_that_dies_leaves_the_submission_open(
    server: JobServer, steps: list[PlannedStage], run_json: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = Ray(address=server.address)
    with monkeypatch.context() as patch:
        ask, posts = ray.ask, list[str]()

        def dies(address: str, path: str, body: Any = None) -> Any:
            if body is None and not posts:
                return ask(address, path)
            posts.append(path)
            raise TaskError("cluster=ray", "it does not answer", "run again")

        patch.setattr(ray, "ask", dies)
        with pytest.raises(RetryableError, match="nothing is submitted twice"):
            submit(steps[:1], cluster, run_json)
    submission = jobs.records(steps[0])["sort"]
    server.jobs[f"headrace-{submission.token}"] = {
        "submission_id": f"headrace-{submission.token}", "status": "RUNNING", "metadata": {}, "message": "",
    }  # fmt: skip
    submit(steps[:1], cluster, run_json)
    assert list(server.jobs) == [f"headrace-{submission.token}"], "it was found by its token"


def test_a_head_that_started_again_gets_the_missing_work(
    server: JobServer, steps: list[PlannedStage], run_json: Path
) -> None:
    submit(steps, Ray(address=server.address), run_json)
    server.jobs.clear()
    assert jobs.live(steps) == {}
    do(steps[0], "sort", range(10))
    submit(steps, Ray(address=server.address), run_json)
    assert [work_of(job)["phases"][0][:2] for job in server.jobs.values()] == [
        ["letters", "join"], ["learned", "learned"], ["scores", "scores"],
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"address": "ray://head:10001"}, "cluster.address: 'ray://head:10001' is not the address of a job server"),
        ({"gpus_per_node": 1, "ranks_per_node": 2}, "cluster.ranks_per_node: 2 ranks are more than the 1 GPUs"),
    ],
)
def test_settings_that_cannot_work(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        Ray(**settings).check(Path("run.json"))
    assert str(caught.value).startswith(message)


def test_the_default_server_is_that_of_rays_variables(server: JobServer, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ray.VARIABLES:
        monkeypatch.delenv(name, raising=False)
    assert Ray().job_server == ray.DEFAULT
    monkeypatch.setenv("RAY_ADDRESS", "10.0.0.1:6379")  # that of ray.init, which no job server has
    assert Ray().job_server == ray.DEFAULT
    monkeypatch.setenv("RAY_ADDRESS", server.address)
    monkeypatch.setenv(ray.TOKEN, "s3cret")
    Ray().check(Path("run.json"))
    assert server.headers[-1]["Authorization"] == "Bearer s3cret"
    server.server_close()
    server.shutdown()


def test_plan_shows_the_commands(server: JobServer, steps: list[PlannedStage], run_json: Path) -> None:
    commands = planned_jobs(steps, Ray(address=server.address), run_json, "small")
    assert [command[:3] for command in commands] == [["ray", "job", "submit"]] * 3
    assert json.loads(commands[1][6].partition("=")[2]) == {"name": "small:learned", "after": "1"}
    assert server.jobs == {}

"""A root that the machines of two clusters see: each names the jobs of the other, and submits none of its work."""

from pathlib import Path

import pytest

from headrace.pipeline.clusters import ray
from headrace.pipeline.clusters.base import Job
from headrace.pipeline.core.errors import ConfigError, HeadraceError
from headrace.pipeline.run import jobs
from headrace.pipeline.run.planned_stage import PlannedStage
from headrace.pipeline.run.submission import submit
from tests.pipeline.run.fake_slurm import ARRAYS, NAME, FakeSlurm, do

WORDS = "the SLURM cluster 'alpha' has it, and this machine asks 'beta': type the command on a login node there"


@pytest.fixture
def beta(fake: FakeSlurm, steps: list[PlannedStage], run_json: Path) -> FakeSlurm:
    """The clients of a cluster beta, after a run was submitted to alpha; beta has other jobs of the same numbers."""
    fake.configure("ClusterName             = alpha")
    submit(steps, ARRAYS, run_json)
    fake.configure("ClusterName             = beta")
    fake.queue(("101|0-9", "FAILED|NonZeroExitCode"), ("103|N/A", "RUNNING|None"), name="feedfeed:learned")
    return fake


def test_the_name_of_the_cluster_is_in_the_record(beta: FakeSlurm, steps: list[PlannedStage]) -> None:
    assert {job.server for step in steps for job in jobs.records(step).values()} == {"alpha"}


def test_a_job_of_another_cluster_is_named_in_words(beta: FakeSlurm, steps: list[PlannedStage]) -> None:
    assert jobs.states(steps) == {
        "letters": f"ELSEWHERE, job 101; {WORDS}",
        "learned": f"ELSEWHERE, job 103; {WORDS}",
        "scores": f"ELSEWHERE, job 104; {WORDS}",
    }
    live = jobs.live(steps)["slurm"]
    assert [job.job for job in live] == ["101", "102", "103", "104"], "something may be in progress"
    with pytest.raises(ConfigError) as caught:
        jobs.cancel("slurm", live)
    assert str(caught.value) == f"cluster=slurm: job 101 is not cancelled; {WORDS}"
    assert not beta.cancelled


@pytest.mark.parametrize("done", [0, 1])
def test_nothing_is_submitted_twice(beta: FakeSlurm, steps: list[PlannedStage], run_json: Path, done: int) -> None:
    """Neither the first work that is left, nor what follows it."""
    do(steps[0], "sort", range(10 * done))
    with pytest.raises(ConfigError) as caught:
        submit(steps, ARRAYS, run_json)
    record = steps[0].folder / jobs.JOBS
    first = ("letters.sort: job 101", "letters.join: job 102")[done]
    assert str(caught.value).startswith(
        f"{first} of slurm at alpha may wait or run ({WORDS}); submit or cancel it there"
    )
    assert str(caught.value).endswith(f"if that cluster is gone, remove {record} (nothing is submitted twice)")
    assert len(beta.calls) == 4
    for step in steps:
        (step.folder / jobs.JOBS).unlink(missing_ok=True)
    submit(steps, ARRAYS, run_json)
    assert len(beta.calls) == 8 - done


def test_a_submission_without_an_answer_may_be_a_job_of_the_other_cluster(
    fake: FakeSlurm, steps: list[PlannedStage], run_json: Path
) -> None:
    fake.configure("ClusterName = beta")
    jobs.record(steps[0], steps[0].phases[0], Job("", "log", 10, name=NAME, server="alpha", token="5f0c"))
    for command in (lambda: submit(steps, ARRAYS, run_json), lambda: jobs.live(steps)):
        with pytest.raises(ConfigError, match="got no answer"):
            command()
    assert not fake.calls


def test_a_cluster_that_does_not_tell_its_name_is_not_taken_for_the_one(
    beta: FakeSlurm, steps: list[PlannedStage], run_json: Path
) -> None:
    beta.configure("")
    assert "prints no ClusterName" in jobs.states(steps)["letters"]
    with pytest.raises(HeadraceError):
        submit(steps, ARRAYS, run_json)


@pytest.mark.parametrize(("status", "may_run"), [("RUNNING", True), ("FAILED", False), (None, False)])
def test_work_on_another_kind_of_cluster(
    fake: FakeSlurm,
    steps: list[PlannedStage],
    run_json: Path,
    monkeypatch: pytest.MonkeyPatch,
    status: str,
    may_run: bool,
) -> None:
    known = {"submission_id": "headrace-5f0c", "status": status, "metadata": {}, "message": ""}
    monkeypatch.setattr(ray, "ask", lambda *_: [known] if status else [])
    jobs.record(steps[0], steps[0].phases[0], Job("headrace-5f0c", "log", None, "ray", server="http://head:8265"))
    if may_run:
        with pytest.raises(
            ConfigError, match=r"letters.sort: job headrace-5f0c of ray at http://head:8265 may wait or run"
        ):
            submit(steps, ARRAYS, run_json)
    else:
        submit(steps, ARRAYS, run_json)
    assert len(fake.calls) == (0 if may_run else 4)

"""Submissions whose answer is lost: sbatch hangs, is killed, prints something else, or its command is killed."""

import os
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from headrace.pipeline.clusters import slurm_client
from headrace.pipeline.clusters.base import Job
from headrace.pipeline.clusters.slurm import Slurm
from headrace.pipeline.core.errors import RetryableError, TaskError
from headrace.pipeline.core.stage import Phase
from headrace.pipeline.run import jobs, submission
from headrace.pipeline.run.planned_stage import PlannedStage
from headrace.pipeline.run.submission import submit
from tests.other_processes import is_running, wait_until
from tests.pipeline.run.fake_slurm import ARRAYS, FakeSlurm, live_ids, option, unanswered

IN_QUEUE = """
name = [a for a in argv if a.startswith("--job-name=")][0].partition("=")[2]
open(os.path.join(folder, "queue"), "a").write(f"{number}|N/A|PENDING|None|{name}\\n")
"""
HANGS = """
open(os.path.join(folder, "hangs"), "w")
import time; time.sleep(600)
"""


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch, fake: FakeSlurm) -> None:
    """The time for an answer is over as soon as a client hangs. Those that work have all of it."""
    hangs = fake.folder / "hangs"

    class Client(subprocess.Popen[str]):
        def communicate(self, *arguments: Any, timeout: float | None = None) -> tuple[str, str]:
            wait_until(lambda: hangs.exists() or self.poll() is not None)
            if hangs.exists():
                hangs.unlink()
                timeout = 0.1
            return super().communicate(*arguments, timeout=timeout)

    monkeypatch.setattr(slurm_client.subprocess, "Popen", Client)
    for name, seconds in (("SEARCH_SECONDS", 0.2), ("POLL_SECONDS", 0.02)):
        monkeypatch.setattr(slurm_client, name, seconds)


def dependencies(fake: FakeSlurm) -> list[str | None]:
    return [option(argv, "dependency") for argv in fake.argv]


CHAIN = [None, "afterok:101", "afterok:102", "afterok:103"]


def killed(work: Callable[[], None]) -> int:
    """Returns the number of the signal that ends a fork of this process during ``work``; 0 when none does."""
    if not (child := os.fork()):
        try:
            work()
        finally:
            os._exit(0)
    return os.WTERMSIG(os.waitpid(child, 0)[1])


@pytest.mark.parametrize(
    "odd",
    [
        HANGS,
        "print(f'{number};cluster', flush=True)" + HANGS,
        "os.kill(os.getpid(), 9)",
        "print('Welcome to the cluster!')",
        "sys.exit('sbatch: error: Batch job submission failed: Socket timed out on send/recv operation')",
    ],
    ids=["hangs", "prints and hangs", "is killed", "garbage", "an error"],
)
def test_a_job_whose_answer_is_lost_is_found_by_its_token(
    fake: FakeSlurm, steps: list[PlannedStage], run_json: Path, odd: str
) -> None:
    fake.answer_oddly(102, odd)
    submit(steps, ARRAYS, run_json)
    assert dependencies(fake) == CHAIN
    assert [jobs.records(steps[0])[phase].job for phase in ("sort", "join")] == ["101", "102"]
    assert jobs.records(steps[0])["join"].log == f"{run_json.parent}/logs/letters.join-102"
    assert not unanswered(*steps)


def test_without_a_job_the_same_command_submits_it_later(
    fake: FakeSlurm, steps: list[PlannedStage], run_json: Path
) -> None:
    sbatch = (fake.folder / "sbatch").read_text()
    (fake.folder / "sbatch").write_text(f"#!/bin/sh\ntouch {fake.folder}/hangs\nexec sleep 600\n")
    with pytest.raises(RetryableError) as caught:
        submit(steps, ARRAYS, run_json)
    assert str(caught.value) == (
        "cluster=slurm: sbatch gave no answer within 60 s; the queue shows no such job yet; "
        "run again: the queue is searched before a job is submitted"
    )
    assert jobs.states(steps) == {"letters": jobs.UNANSWERED}
    assert jobs.live(steps) == {}
    (fake.folder / "sbatch").write_text(sbatch)
    submit(steps, ARRAYS, run_json)
    assert dependencies(fake) == CHAIN
    assert not unanswered(*steps)


def test_a_job_that_appears_late_is_neither_lost_nor_submitted_again(
    fake: FakeSlurm, steps: list[PlannedStage], run_json: Path
) -> None:
    squeue = (fake.folder / "squeue").read_text()
    (fake.folder / "squeue").write_text("#!/bin/sh\nexit 0\n")
    fake.answer_oddly(101, IN_QUEUE + "sys.exit('sbatch: error: Socket timed out')")
    fake.answer_oddly(102, "os.kill(os.getpid(), 9)")
    with pytest.raises(TaskError, match="sbatch refused the job of stage 'letters': sbatch: error: Socket timed out"):
        submit(steps[:1], ARRAYS, run_json)
    assert not unanswered(steps[0]), "with a refusal and an answer of the queue there is no job"
    with pytest.raises(RetryableError, match="sbatch ended with status -9: it printed no number; the queue shows no"):
        submit(steps[:1], ARRAYS, run_json)
    (fake.folder / "squeue").write_text(squeue)
    assert jobs.live(steps) == {}, "the stand-in shows no job as waiting yet"
    fake.queue(("102|0-9", "PENDING|Priority"))
    assert live_ids(steps) == {"slurm": ["102"]}, "headrace cancel finds it"
    submit(steps, ARRAYS, run_json)
    assert dependencies(fake) == [None, None, "afterok:102", "afterok:103", "afterok:104"]
    assert [jobs.records(steps[0])[phase].job for phase in ("sort", "join")] == ["102", "103"]


@pytest.mark.parametrize("at", [101, 104])
def test_a_command_that_is_killed_before_it_has_the_answer(
    fake: FakeSlurm, steps: list[PlannedStage], run_json: Path, at: int
) -> None:
    for number in range(101, at):
        fake.answer_oddly(number, IN_QUEUE)
    fake.answer_oddly(at, IN_QUEUE + "os.kill(os.getppid(), 9)")
    assert killed(lambda: submit(steps, ARRAYS, run_json)) == signal.SIGKILL
    assert len(fake.calls) == at - 100
    submit(steps, ARRAYS, run_json)
    assert dependencies(fake) == CHAIN
    assert not unanswered(*steps)


def test_sbatch_does_not_outlive_a_killed_command(fake: FakeSlurm, steps: list[PlannedStage], run_json: Path) -> None:
    """An sbatch that waits for a full queue would submit when nobody listens any more."""
    begun = fake.folder / "begun"
    fake.answer_oddly(101, f"open({str(begun)!r}, 'w').write(str(os.getpid())); os.kill(os.getppid(), 9)" + HANGS)
    assert killed(lambda: submit(steps, ARRAYS, run_json)) == signal.SIGKILL
    wait_until(lambda: not is_running(int(begun.read_text())))


def test_a_command_that_is_killed_before_it_records_the_answer(
    fake: FakeSlurm, steps: list[PlannedStage], run_json: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The data stages are one job for two phases: one of them is recorded, the other is not."""
    record, together = jobs.record, Slurm(one_job="always")

    def once(stage: PlannedStage, phase: Phase, job: Job) -> None:
        record(stage, phase, job)
        if job.job:
            raise KeyboardInterrupt

    fake.answer_oddly(101, IN_QUEUE)
    monkeypatch.setattr(submission, "record", once)
    with pytest.raises(KeyboardInterrupt):
        submit(steps, together, run_json)
    assert unanswered(steps[0]) == ["join"]
    monkeypatch.setattr(submission, "record", record)
    submit(steps, together, run_json)
    assert dependencies(fake) == [None, "afterok:101", "afterok:102"]
    assert {job.job for job in jobs.records(steps[0]).values()} == {"101"}


def test_two_commands_at_once_submit_each_job_once(fake: FakeSlurm, steps: list[PlannedStage], run_json: Path) -> None:
    for number in range(101, 105):
        fake.answer_oddly(number, IN_QUEUE + "import time; time.sleep(0.2)")
    if not (child := os.fork()):
        try:
            submit(steps, ARRAYS, run_json)
        finally:
            os._exit(0)
    submit(steps, ARRAYS, run_json)
    os.waitpid(child, 0)
    assert dependencies(fake) == CHAIN


def test_the_comment_of_the_user_follows_the_token(
    fake: FakeSlurm, steps: list[PlannedStage], run_json: Path, tmp_path: Path
) -> None:
    given = Slurm(one_job="never", options=("--comment=mill | of\nthe village",), data_options=("--comm=lab=7",))
    submit(steps, given, run_json)
    tokens, comments = zip(*(call["comment"].split(" ", 1) for call in fake.calls), strict=True)
    assert comments == ("lab=7", "lab=7", "mill | of\nthe village", "mill | of\nthe village")
    assert len({*tokens}) == 4
    for number, token in enumerate(tokens, 101):
        word = token.removeprefix(slurm_client.MARK)
        assert slurm_client.submitted([word, "5f0c"]) == {word: str(number)}

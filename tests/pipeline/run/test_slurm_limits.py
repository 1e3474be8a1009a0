"""What a SLURM refuses, limits, or answers in another form. Its clients are stand-ins."""

import subprocess
import sys
from pathlib import Path

import pytest

from headrace.pipeline.clusters import slurm_client, slurm_job
from headrace.pipeline.clusters.base import REST, FullQueueError, Job, rests
from headrace.pipeline.core import work_log
from headrace.pipeline.core.errors import StoppedError, TaskError
from headrace.pipeline.run import jobs, run_progress
from headrace.pipeline.run.planned_stage import PlannedStage
from headrace.pipeline.run.run_state import short, states_of
from headrace.pipeline.run.submission import submit
from tests.pipeline.run.fake_slurm import ARRAYS, NAME, FakeSlurm, do, option, unanswered

POLICY = "Job violates accounting/QOS policy (job submit limit, user's size and/or time limits)"
FULL = {
    "QOS": f"sbatch: error: QOSMaxSubmitJobPerUserLimit\nsbatch: error: Batch job submission failed: {POLICY}\n",
    "account": f"sbatch: error: AssocGrpSubmitJobsLimit\nsbatch: error: Batch job submission failed: {POLICY}\n",
    "cluster": "sbatch: error: Slurm temporarily unable to accept job, sleeping and retrying",
}


def test_the_last_job_that_a_full_queue_took_submits_the_rest(
    fake: FakeSlurm,
    steps: list[PlannedStage],
    run_json: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fake.refuse(103, FULL["account"])
    waits = "102|0|PENDING|Dependency|feedfeed:letters.join"
    (fake.folder / "queue").write_text(f"101|0-9|RUNNING|None|{NAME}\n{waits}\n")
    submit(steps, ARRAYS, run_json)
    *rows, last = capsys.readouterr().out.splitlines()
    assert [line.split()[3] for line in rows[1:3]] == ["101", "102"]
    assert last.endswith("so job 102 submits the rest at its end")
    assert not unanswered(*steps)
    (frozen,) = run_json.parent.glob("run-*.json")
    started = []
    monkeypatch.setattr(subprocess, "run", lambda command, **_: started.append(command))
    for job, is_last in (("101", False), ("102", True)):
        monkeypatch.setenv("SLURM_JOB_ID", job)
        slurm_job.submit_rest(run_json.parents[1] / "another" / "run.json")  # runs share jobs of common artifacts
        assert started == [[sys.executable, "-m", REST, str(frozen)]] * is_last
    monkeypatch.undo()
    monkeypatch.setenv("PATH", str(fake.folder), prepend=":")
    (fake.folder / "refuse-103").unlink()
    do(steps[0], "sort", range(10))
    do(steps[0], "join", [0])
    before = run_json.read_bytes()
    submit(steps, ARRAYS, frozen, takes_effect=False)
    assert [option(argv, "dependency") for argv in fake.argv] == [None, "afterok:101", None, "afterok:103"]
    assert run_json.read_bytes() == before, "a later start may have changed it"
    assert not rests(frozen)


def test_a_job_that_ends_before_it_could_know_leaves_the_rest_to_the_command(
    fake: FakeSlurm, steps: list[PlannedStage], run_json: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sbatch, asked = slurm_client.sbatch, list[str]()

    def full_once(command: list[str], stage: str, token: str) -> str:
        asked.append(stage)
        if asked.count("learned") == 1 and stage == "learned":
            do(steps[0], "sort", range(10))
            do(steps[0], "join", [0])
            raise FullQueueError("cluster=slurm", "full", "wait")
        return sbatch(command, stage, token)

    monkeypatch.setattr(slurm_client, "sbatch", full_once)
    submit(steps, ARRAYS, run_json)
    assert asked == ["letters", "letters", "learned", "learned", "scores"]
    assert len(fake.calls) == 4


@pytest.mark.parametrize(
    ("words", "remedy"),
    [
        *((words, "it is a limit of the jobs in the queue") for words in FULL.values()),
        ("sbatch: error: QOSMaxWallDurationPerJobLimit", "correct the cluster settings and run again"),
        ("Batch job submission failed: Invalid job array specification", "lower cluster.array_tasks"),
        ("Batch job submission failed: Requested node configuration is not available", "correct the cluster settings"),
    ],
)
def test_a_refusal_names_what_to_do(
    fake: FakeSlurm, steps: list[PlannedStage], run_json: Path, words: str, remedy: str
) -> None:
    fake.refuse(101, words)
    with pytest.raises(TaskError) as caught:
        submit(steps, ARRAYS, run_json)
    assert caught.value.remedy.startswith(remedy)
    assert not unanswered(*steps)


def test_a_client_that_waits_says_why(fake: FakeSlurm, monkeypatch: pytest.MonkeyPatch) -> None:
    def waits(command: list[str], **_: object) -> None:
        raise subprocess.TimeoutExpired(
            command, 60, stderr=b"x\nsbatch: error: Slurm temporarily unable to accept job\n"
        )

    monkeypatch.setattr(subprocess, "run", waits)
    with pytest.raises(
        TaskError, match="no answer within 60 s: sbatch: error: Slurm temporarily unable to accept job;"
    ):
        slurm_client.ask(["sbatch"])


ROW = f"101|0|RUNNING|None|{NAME}"


@pytest.mark.parametrize(
    ("answer", "result"),
    [
        (f"Welcome to the cluster | 7!\n{ROW}\n", 1),
        (f"ARRAY_JOB_ID|ARRAY_TASK_ID|STATE|REASON|NAME\n\n{ROW}\n", 1),
        (f"{ROW}\n101|1|RUNN\n", "squeue printed '101|1|RUNN', which is no whole row"),
    ],
    ids=["greeting", "header", "cut"],
)
def test_an_answer_of_the_queue_in_another_form(fake: FakeSlurm, answer: str, result: int | str) -> None:
    (fake.folder / "squeue").write_text(f"#!/bin/sh\ncat <<'END'\n{answer}END\n")
    if isinstance(result, int):
        assert len(slurm_client.queued([Job("101", "", 10, name=NAME)])["101"]) == result
    else:
        with pytest.raises(TaskError, match=result.replace("|", r"\|")):
            slurm_client.queued([Job("101", "", 10, name=NAME)])


@pytest.mark.parametrize("reported", [None, StoppedError("learned", "stopped on request at step 97", "run again")])
@pytest.mark.parametrize(
    ("entry", "has_log", "state"),
    [
        ("TIMEOUT|TimeLimit", True, "TIMEOUT, see LOG; raise cluster.data_time, or cluster.train_time for a training"),
        (
            "OUT_OF_MEMORY|OutOfMemory",
            True,
            "OUT_OF_MEMORY, see LOG; raise cluster.data_memory, or cluster.train_memory for a training",
        ),
        (
            "BOOT_FAIL|None",
            False,
            "BOOT_FAIL (None) without a log, job 9; its node was taken away: run the same command",
        ),
        ("PENDING|launch failed requeued held", True, "PENDING (launch failed requeued held), job 9"),
        ("COMPLETING|None", True, "COMPLETING, job 9"),
    ],
)
def test_states_of_the_job_of_a_training(
    fake: FakeSlurm,
    steps: list[PlannedStage],
    tmp_path: Path,
    entry: str,
    has_log: bool,
    state: str,
    reported: StoppedError | None,
) -> None:
    jobs.record(steps[1], steps[1].phases[0], Job("9", str(tmp_path / "learned-9"), None, name=NAME))
    if has_log:
        (tmp_path / "learned-9.log").write_text("words\n")
    if reported:
        work_log.write_error(steps[1].folder, reported)
    fake.queue(("9|N/A", entry))
    found = jobs.states(steps)["learned"].replace(str(tmp_path / "learned-9.log"), "LOG")
    assert found.startswith(state)
    assert found.endswith(f" ({reported})") == (reported is not None and "LOG" in state)


@pytest.mark.parametrize(
    ("state", "row"),
    [
        ("PENDING (Dependency), job 2", "PENDING (Dependency)"),
        ("PENDING (Nodes required for job are DOWN, DRAINED or reserved), job 9", "PENDING"),
        ("RUNNING, TIMEOUT, see log; raise it", "RUNNING"),
        ("FAILED (JobLaunchFailure) without a log, job 5", "FAILED (JobLaunchFailure)"),
        (jobs.UNANSWERED, "its submission got no answer yet: run the command again"),
    ],
)
def test_the_row_of_a_stage_has_the_beginning_of_its_state(state: str, row: str) -> None:
    assert short(state) == row


def test_watch_says_once_why_a_job_waits(
    fake: FakeSlurm,
    steps: list[PlannedStage],
    run_json: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    reason = "Nodes required for job are DOWN, DRAINED or reserved"
    monkeypatch.setattr(run_progress, "ASK_SECONDS", 0.0)
    monkeypatch.setattr(run_progress, "POLL_SECONDS", 0.01)
    submit(steps, ARRAYS, run_json)
    capsys.readouterr()
    work = run_progress.Following(steps[0], run_json.parent)
    fake.queue(("101|0-9", f"PENDING|{reason}"))
    assert not work.is_over()
    assert not work.is_over()
    fake.queue(("101|0-3,5-9", "RUNNING|None"))
    assert not work.is_over()
    fake.queue(("101|0-9", "RUNNING|None"))
    assert not work.is_over()
    assert capsys.readouterr().err.splitlines() == [
        f"letters: PENDING ({reason}), job 101",
        "letters: RUNNING, CANCELLED before it ran, index 4 of job 101",
    ]


def test_one_dead_job_is_one_line(fake: FakeSlurm, steps: list[PlannedStage], tmp_path: Path) -> None:
    """A job of several stages; the rows of those after the one that failed say so."""
    job = Job("101", str(tmp_path / "letters.scores-101"), None, name=NAME)
    job.log_of(0).write_text("words\n")
    for step in steps:
        jobs.record(step, step.phases[0], job)
    fake.queue(("101|N/A", "TIMEOUT|TimeLimit"))
    rows, lines = states_of(steps)
    assert [row.state for row in rows] == ["TIMEOUT", "CANCELLED (after letters)", "CANCELLED (after letters)"]
    assert lines == [f"letters: TIMEOUT, see {job.log_of(0)}; {slurm_client.REMEDIES['TIMEOUT']}"]


@pytest.mark.parametrize("state", ["FAILED|NonZeroExitCode", "RUNNING|None", "PENDING|Dependency"])
def test_the_line_of_an_earlier_start_is_not_that_of_one_that_failed(
    fake: FakeSlurm, steps: list[PlannedStage], state: str
) -> None:
    """Such as a job whose site file fails: it never began to train."""
    work_log.record_start(steps[1].folder, "learned: goes on from step 120")
    jobs.record(steps[1], steps[1].phases[0], Job("7", "log", None, name=NAME))
    fake.queue(("7|N/A", state))
    _, lines = states_of(steps)
    assert ("learned: goes on from step 120" in lines) == state.startswith("RUNNING")


def test_watch_sees_at_once_that_a_job_failed_long_ago(
    fake: FakeSlurm, steps: list[PlannedStage], run_json: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_progress, "POLL_SECONDS", 0.01)
    submit(steps, ARRAYS, run_json)
    fake.queue(("101|0-9", "FAILED|NonZeroExitCode"))
    with pytest.raises(TaskError, match=r"^letters: "):
        run_progress.Following(steps[0], run_json.parent).is_over()
    (steps[0].folder / jobs.JOBS).unlink()
    assert not run_progress.Following(steps[0], run_json.parent).is_over(), "a command may begin now"

"""Submission with an sbatch and an squeue that record their arguments. tests/cluster has the real ones."""

import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from headrace.pipeline.clusters import slurm_client
from headrace.pipeline.clusters.base import Job
from headrace.pipeline.clusters.slurm import SCRIPTS, Slurm, array_list
from headrace.pipeline.clusters.slurm_client import MARK, REMEDIES
from headrace.pipeline.core import work_log
from headrace.pipeline.core.errors import ConfigError, TaskError
from headrace.pipeline.core.json_files import read_json, write_sealed
from headrace.pipeline.run import jobs
from headrace.pipeline.run.planned_stage import PlannedStage
from headrace.pipeline.run.submission import submit
from tests.pipeline.run.fake_slurm import ARRAYS, NAME, FakeSlurm, do, make_steps, option


def test_with_notices_one_job_more_starts_after_any_end_of_all_others(
    fake: FakeSlurm, steps: list[PlannedStage], run_json: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_sealed(run_json, {"config": {"notify": {"type": "command"}}, "descriptions": {}})
    slurm = Slurm(one_job="never", data_memory="1M", data_time="00:01:00", data_partition="short", site_env="/site.env")
    fake.refuse(105, "QOSMaxSubmitJobPerUserLimit")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Slurm, "check", lambda *_: None)
        submit(steps, slurm, run_json)
        assert len(fake.argv) == 4
        assert "notify: no job sends a notice after these: cluster=slurm: sbatch refused" in capsys.readouterr().err
        (fake.folder / "refuse-105").unlink()
        (fake.folder / "calls.jsonl").unlink()
        submit(steps, slurm, run_json)
    *chain, notice = fake.argv
    assert [option(argv, "dependency") for argv in chain] == [None, "afterok:101", "afterok:102", "afterok:103"]
    assert option(notice, "dependency") == "afterany:101:102:103:104"
    assert (option(notice, "mem"), option(notice, "time"), option(notice, "partition")) == (None, "10", "short")
    (frozen,) = run_json.parent.glob("run-*.json")
    assert notice[-4:] == [str(SCRIPTS / "notice.sbatch"), str(frozen), sys.executable, "/site.env"]


NASTY = "a b; rm -rf $HOME $(touch x) `touch x` 'q\" %j é *"


def test_a_chain_of_jobs_each_after_the_one_before_it(
    fake: FakeSlurm, steps: list[PlannedStage], run_json: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    slurm = Slurm(
        partition="long", data_cpus=2, data_memory="8G", nodes=2, ranks_per_node=8, gpus_per_node="8", one_job="never"
    )
    submit(steps, slurm, run_json)
    (frozen,) = run_json.parent.glob("run-*.json")
    assert read_json(frozen) == read_json(run_json)
    logs = run_json.parent / "logs"
    same = ["--parsable", f"--chdir={tmp_path}"]
    names = [f"feedfeed:{title}" for title in ("letters.sort", "letters.join", "learned", "scores")]
    data = ["--partition=long", "--cpus-per-task=2", "--time=04:00:00", "--mem=8G"]
    array, train = str(SCRIPTS / "array.sbatch"), str(SCRIPTS / "train.sbatch")
    assert fake.argv[0] == [
        *same,
        f"--job-name={names[0]}",
        f"--output={logs}/letters.sort-%A_%a.log",
        "--array=0-9",
        *data,
        *(array, str(frozen), "letters", "sort", "10", sys.executable),
    ]
    assert fake.argv[1] == [
        *same,
        f"--job-name={names[1]}",
        "--dependency=afterok:101",
        f"--output={logs}/letters.join-%A_%a.log",
        "--array=0",
        *data,
        *(array, str(frozen), "letters", "join", "1", sys.executable),
    ]
    ranks = [
        "--partition=long",
        "--nodes=2",
        "--ntasks-per-node=8",
        "--cpus-per-task=8",
        "--time=24:00:00",
        "--signal=B:USR2@600",
    ]
    ranks += ["--gres=gpu:8"]
    assert fake.argv[2] == [
        *same,
        f"--job-name={names[2]}",
        "--dependency=afterok:102",
        f"--output={logs}/learned.learned-%j.log",
        *ranks,
        *(train, str(frozen), "learned", str(steps[1].folder), "3", sys.executable),
    ]
    assert fake.argv[3] == [
        *same,
        f"--job-name={names[3]}",
        "--dependency=afterok:103",
        f"--output={logs}/scores.scores-%j.log",
        *ranks,
        *(train, str(frozen), "scores", str(steps[2].folder), "3", sys.executable),
    ]
    assert jobs.records(steps[0])["sort"] == Job(
        "101", f"{logs}/letters.sort-101", 10, "slurm", names[0], "cluster", fake.calls[0]["comment"].removeprefix(MARK)
    )
    assert logs.is_dir()


def test_jobs_of_a_chain_that_cannot_start_any_more_leave_the_queue_and_killed_ones_come_back() -> None:
    for script in SCRIPTS.glob("*.sbatch"):
        directives = {line for line in script.read_text().splitlines() if line.startswith("#SBATCH")}
        assert directives >= {
            f"#SBATCH --{option}" for option in ("kill-on-invalid-dep=yes", "requeue", "open-mode=append", "export=ALL")
        }


def test_no_value_is_read_by_a_shell(
    fake: FakeSlurm, tmp_path: Path, run_json: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    work = tmp_path / NASTY
    work.mkdir()
    monkeypatch.chdir(work)
    (work / "site env").write_text("")
    nasty_steps = make_steps(work / "root")
    nasty_run = work / "root" / "runs" / NASTY / "run.json"
    write_sealed(nasty_run, {"config": {"x": NASTY}})
    slurm = Slurm(
        partition=NASTY, account=NASTY, qos=NASTY, data_time=NASTY, train_time=NASTY,
        train_memory=NASTY, site_env="site env", options=(f"--comment={NASTY}",),
        one_job="never",
    )  # fmt: skip
    submit(nasty_steps, slurm, nasty_run)
    array, train = fake.argv[0], fake.argv[2]
    for name in ("partition", "account", "qos", "time", "comment"):
        assert option(array, name) == option(train, name) == NASTY
    assert option(array, "chdir") == str(work)
    escaped = str(nasty_run.parent).replace("%", "%%")
    assert option(array, "output") == f"{escaped}/logs/letters.sort-%A_%a.log"
    (frozen,) = nasty_run.parent.glob("run-*.json")
    assert array[-6:] == [str(frozen), "letters", "sort", "10", sys.executable, str(work / "site env")]
    learned = [str(frozen), "learned", str(nasty_steps[1].folder), "3"]
    assert train[-6:] == [*learned, sys.executable, str(work / "site env")]
    assert not list(tmp_path.rglob("x"))


def test_only_missing_tasks_are_submitted(fake: FakeSlurm, steps: list[PlannedStage], run_json: Path) -> None:
    do(steps[0], "sort", [0, 1, 2, 4, 5, 6])
    submit(steps, Slurm(array_running=2, one_job="never"), run_json)
    assert [option(argv, "array") for argv in fake.argv] == ["3,7-9%2", "0%2", None, None]


def test_more_tasks_than_an_array_may_have_share_an_index(
    fake: FakeSlurm, steps: list[PlannedStage], run_json: Path
) -> None:
    do(steps[0], "sort", [task for task in range(10) if task not in (5, 6, 9)])
    submit(steps, Slurm(array_tasks=4, one_job="never"), run_json)
    assert option(fake.argv[0], "array") == "1-2"
    assert fake.argv[0][-2] == "4"
    assert jobs.records(steps[0])["sort"].width == 4


def test_what_is_whole_is_passed_over_and_what_lacks_only_its_manifest_is_finished(
    fake: FakeSlurm, steps: list[PlannedStage], run_json: Path
) -> None:
    do(steps[0], "sort", range(10))
    do(steps[0], "join", [0])
    submit(steps, ARRAYS, run_json)
    assert steps[0].is_whole
    assert [{"letters", "learned", "scores"}.intersection(argv) for argv in fake.argv] == [{"learned"}, {"scores"}]
    assert option(fake.argv[0], "dependency") is None


def test_nothing_is_left_to_submit(
    fake: FakeSlurm, steps: list[PlannedStage], run_json: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    do(steps[0], "sort", range(10))
    do(steps[0], "join", [0])
    submit(steps[:1], ARRAYS, run_json)
    assert fake.calls == []
    assert capsys.readouterr().out == "everything was done before: nothing to submit\n"


def test_what_is_in_the_queue_is_not_submitted_again(
    fake: FakeSlurm, steps: list[PlannedStage], run_json: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for step, phase, number in ((steps[0], 0, 7), (steps[0], 1, 8), (steps[1], 0, 9)):
        jobs.record(step, step.phases[phase], Job(str(number), "log", None, name=NAME))
    fake.queue(("7|0-9", "PENDING|Priority"), ("8|0", "CANCELLED|Dependency"), ("9|N/A", "RUNNING|None"))
    submit(steps, ARRAYS, run_json)
    submitted = [(argv[argv.index(sys.executable) - 2], option(argv, "dependency")) for argv in fake.argv]
    assert submitted == [("join", "afterok:7"), (str(steps[2].folder), "afterok:9")]
    said = capsys.readouterr().out
    assert [line.split() for line in said.splitlines()[1:5]] == [
        ["letters", "sort", "10", "7", "submitted", "before"],
        ["letters", "join", "1", "101", "7", "submitted"],
        ["learned", "learned", "1", "9", "101", "submitted", "before"],
        ["scores", "scores", "1", "102", "9", "submitted"],
    ]
    assert f"logs: {run_json.parent}/logs/<stage>.<phase>-<job>_<index>.log\n" in said
    run = f"feedfeed root={run_json.parents[2]}"
    assert (
        f"submitted 2 jobs; follow them with `headrace status {run}`, stop them with `headrace cancel {run}`\n" in said
    )


def test_a_job_with_a_number_that_slurm_gave_again_is_not_ours(
    fake: FakeSlurm, steps: list[PlannedStage], run_json: Path
) -> None:
    jobs.record(steps[0], steps[0].phases[0], Job("7", "log", 10, name=NAME))
    fake.queue(("7|0-9", "PENDING|Priority"), name="another job")
    submit(steps[:1], ARRAYS, run_json)
    assert option(fake.argv[0], "array") == "0-9"


def test_a_refusal_is_shown_in_full(fake: FakeSlurm, steps: list[PlannedStage], run_json: Path) -> None:
    words = "sbatch: error: invalid partition specified: x\nsbatch: error: Batch job submission failed: Nope\n"
    fake.refuse(102, words)
    with pytest.raises(TaskError) as caught:
        submit(steps, ARRAYS, run_json)
    assert str(caught.value) == (
        "cluster=slurm: sbatch refused the job of stage 'letters': "
        "sbatch: error: invalid partition specified: x, sbatch: error: Batch job submission failed: Nope; "
        "correct the cluster settings and run again (jobs submitted before this one stay in the queue)"
    )
    assert list(jobs.records(steps[0])) == ["sort"]


def test_without_slurm_it_says_where_to_run(
    steps: list[PlannedStage], run_json: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ConfigError) as caught:
        submit(steps, ARRAYS, run_json)
    assert str(caught.value) == "cluster=slurm: no sbatch on this machine; run on a login node"
    assert not list(run_json.parent.glob("run-*.json"))


def test_a_controller_that_does_not_answer_is_not_waited_for(
    fake: FakeSlurm, steps: list[PlannedStage], run_json: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (fake.folder / "squeue").write_text("#!/bin/sh\nexec sleep 60\n")
    monkeypatch.setattr(slurm_client, "ANSWER_SECONDS", 0.3)
    with pytest.raises(TaskError, match="squeue gave no answer within 0 s; is the controller up"):
        submit(steps, ARRAYS, run_json)
    assert fake.calls == []


def states_after(
    fake: FakeSlurm, steps: list[PlannedStage], logs: Sequence[int], entries: Sequence[tuple[str, str]]
) -> dict[str, str]:
    """The states with the first phase submitted as job 101, the ``logs`` of these indices and this queue."""
    folder = steps[0].folder.parent / "logs"
    folder.mkdir(parents=True, exist_ok=True)
    jobs.record(steps[0], steps[0].phases[0], Job("101", f"{folder}/letters.sort-101", 10, name=NAME))
    for index in logs:
        (folder / f"letters.sort-101_{index}.log").write_text("words\n")
    fake.queue(*entries)
    return {name: state.replace(str(folder), "LOGS") for name, state in jobs.states(steps).items()}


@pytest.mark.parametrize(
    ("done", "logs", "entries", "state"),
    [
        ([], [], [("101|0-9", "PENDING|Resources")], "PENDING (Resources), job 101"),
        ([0], [0, 1], [("101|2-9%2", "PENDING|Resources"), ("101|1", "RUNNING|None")], "RUNNING, job 101"),
        (
            [0],
            [0, 1],
            [("101|2,4-9%2", "PENDING|Resources"), ("101|1", "RUNNING|None")],
            "RUNNING, CANCELLED before it ran, index 3 of job 101",
        ),
        (
            [0, 2],
            [0, 1],
            [("101|5-9%2", "PENDING|Priority"), ("101|2", "COMPLETED|None"), ("101|1", "COMPLETED|None")],
            "PENDING (Priority), CANCELLED before it ran, index 3 and 1 more of job 101",
        ),
        (
            [],
            [0, 1, 2],
            [("101|3-9", "PENDING|Priority"), ("101|0", "RUNNING|None"), ("101|1", "TIMEOUT|TimeLimit")],
            f"RUNNING, TIMEOUT, see LOGS/letters.sort-101_1.log; {REMEDIES['TIMEOUT']}",
        ),
        (
            [],
            [],
            [("101|0-9", "PENDING|DependencyNeverSatisfied")],
            "PENDING (DependencyNeverSatisfied) without a log, job 101; the job before it has failed: run the same "
            "command again",
        ),
        ([], [], [("101|0-9", "FAILED|JobLaunchFailure")], "FAILED (JobLaunchFailure) without a log, job 101"),
        ([], [], [], "CANCELLED before it ran, job 101"),
        (
            [0, 1],
            [0, 1, 2],
            [("101|2", "OUT_OF_MEMORY|x")],
            f"OUT_OF_MEMORY, see LOGS/letters.sort-101_2.log; {REMEDIES['OUT_OF_MEMORY']}",
        ),
        ([0, 1], [0, 1, 4], [], "FAILED, see LOGS/letters.sort-101_4.log"),
    ],
)
def test_states(
    fake: FakeSlurm,
    steps: list[PlannedStage],
    done: Sequence[int],
    logs: Sequence[int],
    entries: Sequence[tuple[str, str]],
    state: str,
) -> None:
    do(steps[0], "sort", done)
    assert states_after(fake, steps, logs, entries) == {"letters": state}


def test_the_state_of_what_failed_says_why(fake: FakeSlurm, steps: list[PlannedStage]) -> None:
    work_log.write_error(steps[0].folder, TaskError("letters", "there are none", "bring some"))
    states = states_after(fake, steps, [0, 1], [("101|1", "FAILED|x")])
    assert states == {"letters": "FAILED, see LOGS/letters.sort-101_0.log (letters: there are none; bring some)"}
    running = [("101|0-9", "RUNNING|x")]
    assert states_after(fake, steps, [0, 1], running) == {"letters": "RUNNING, job 101"}


def test_states_of_what_was_never_submitted_need_no_slurm(
    steps: list[PlannedStage], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert jobs.states(steps) == {}


def test_states_without_slurm_at_hand(
    fake: FakeSlurm, steps: list[PlannedStage], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert states_after(fake, steps, [], []) == {"letters": "submitted as job 101 (no squeue on this machine)"}


@pytest.mark.parametrize(
    ("indices", "running", "text"), [([9, 3, 8, 7], None, "3,7-9"), ([0], 1, "0%1"), ([0, 1, 5], 2, "0-1,5%2")]
)
def test_array_list(indices: list[int], running: int | None, text: str) -> None:
    assert array_list(indices, running) == text

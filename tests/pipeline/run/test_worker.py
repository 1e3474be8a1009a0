"""The worker of a cluster's job, in this process: an index's tasks, inputs that appear late, errors for people."""

import dataclasses
import errno
import json
import os
import threading
import time
from pathlib import Path

import pytest

from headrace.data_prep.clean import Cleaning
from headrace.data_prep.filters.c4.lines import PageLength
from headrace.pipeline.config import decoded
from headrace.pipeline.configuration.composition import compose
from headrace.pipeline.core import work_log
from headrace.pipeline.core.artifact import TaskOutput, part_path
from headrace.pipeline.core.claim import Owner, claim_of, claimed
from headrace.pipeline.core.environment import JOB, RESTARTS
from headrace.pipeline.core.errors import ConfigError, RetryableError
from headrace.pipeline.core.json_files import read_sealed
from headrace.pipeline.run import planner, run_execution, worker
from headrace.pipeline.run.planned_stage import PlannedStage, TaskExecutor
from headrace.pipeline.run.planner import Run, load, plan, save
from headrace.pipeline.run.workers import TaskEnd, Workers
from tests.pipeline.run.claim_clock import release_when_reported

SENTENCE = "The old mill stands beside the quiet river and grinds the grain of the whole village."


@pytest.fixture
def run_json(tmp_path: Path) -> Path:
    """A run of three source files, so three tasks of texts, up to clean."""
    (tmp_path / "raw").mkdir()
    for number in range(3):
        row = {"id": str(number), "text": f"{SENTENCE} {number}"}
        (tmp_path / "raw" / f"{number}.jsonl").write_text(json.dumps(row) + "\n")
    settings = [f"source.paths=[{tmp_path}/raw/*.jsonl]", "source=jsonl", "source.task_bytes=1", "cleaning=none"]
    values = compose([*settings, f"root={tmp_path}/root", "until=clean", "dedup.buckets=2"])
    config = decoded(values)
    return save(config, values, plan(config))


def steps_of(run_json: Path) -> tuple[PlannedStage, PlannedStage]:
    texts, clean, _ = load(run_json)[1]
    return texts, clean


def run(run_json: Path, *arguments: str) -> int:
    return worker.main([str(run_json), *arguments])


def test_an_index_runs_every_width_th_task_and_the_last_one_finishes_the_artifact(
    run_json: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    texts, _ = steps_of(run_json)
    assert run(run_json, "texts", "texts", "0", "2") == 0
    assert capfd.readouterr().out.splitlines() == [
        "texts: phase 1/1 texts, 1/2 tasks of this job, task 0 is done",
        "texts: phase 1/1 texts, 2/2 tasks of this job, task 2 is done",
    ]
    assert texts.missing(texts.phases[0]) == [1]
    assert not texts.is_whole
    before = {path: path.stat().st_mtime_ns for path in texts.folder.glob("parts/*")}
    assert run(run_json, "texts", "texts", "0", "2") == 0
    assert {path: path.stat().st_mtime_ns for path in texts.folder.glob("parts/*")} == before, "nothing is done twice"
    assert run(run_json, "texts", "texts", "1", "2") == 0
    assert texts.is_whole


def test_several_stages_run_in_one_job(run_json: Path) -> None:
    texts, clean = steps_of(run_json)
    assert run(run_json, "texts", "texts", "1") == 0
    done = part_path(texts.folder, "texts", 1).stat().st_mtime_ns
    assert run(run_json, "texts..clean", "2") == 0
    assert texts.is_whole
    assert clean.is_whole
    assert part_path(texts.folder, "texts", 1).stat().st_mtime_ns == done, "nothing is done twice"


def test_a_failure_in_one_of_several_stages_is_reported_where_it_happened(
    run_json: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(self: PlannedStage, workers: Workers) -> None:
        raise RetryableError("clean", "a worker was killed", "run again")

    texts, clean = steps_of(run_json)
    assert run(run_json, "texts..texts", "1") == 0
    monkeypatch.setattr(PlannedStage, "run_tasks", fails)
    assert run(run_json, "texts..clean", "2") == RetryableError.exit_status
    assert work_log.error_of(texts.folder) is None
    assert str(work_log.error_of(clean.folder)) == "clean: a worker was killed; run again"


def test_a_requeued_index_takes_over_its_own_task_and_waits_for_that_of_another(
    run_json: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(JOB, "117")
    monkeypatch.setenv(RESTARTS, "1")
    texts, _ = steps_of(run_json)
    mine, other = (claim_of(part_path(texts.folder, "texts", task)) for task in (0, 1))
    mine.parent.mkdir(parents=True)
    mine.symlink_to("node7~4026531836~4711~88231~117~0")
    other.symlink_to("node7~4026531836~4712~88231~118~0")
    release_when_reported(monkeypatch, other.unlink)
    assert run(run_json, "texts", "texts", "0", "1") == 0
    assert texts.is_whole
    assert capfd.readouterr().err.count("waits for") == 1
    assert not list(texts.folder.rglob("*.claim"))


def test_a_second_training_waits_for_the_first_and_has_nothing_left_to_do(
    run_json: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    config, (texts, *_) = load(run_json)
    monkeypatch.setattr(type(texts.stage), "distributed", True)
    monkeypatch.setattr(run_execution, "launch", lambda *_: pytest.fail("it was trained twice"))
    part = part_path(texts.folder, "texts", 0)
    part.parent.mkdir(parents=True)
    (held, hold), (free, release) = os.pipe(), os.pipe()
    if (child := os.fork()) == 0:
        with claimed(claim_of(part)):
            os.write(hold, b"held")
            os.read(free, 4)
            for task in range(3):
                TaskOutput(texts.folder, "texts", task).done({})
        os._exit(0)
    os.read(held, 4)
    release_when_reported(monkeypatch, lambda: os.write(release, b"free"))
    run_execution.execute(texts, config)
    os.waitpid(child, 0)
    assert f"texts waits for {Owner.current().node} PID {child}\n" in capfd.readouterr().err
    assert texts.is_whole


def test_an_input_whose_last_task_was_killed_before_it_wrote_the_manifest_is_finished(run_json: Path) -> None:
    texts, clean = steps_of(run_json)
    assert run(run_json, "texts", "texts", "0", "1") == 0
    (texts.folder / "manifest.json").unlink()
    assert run(run_json, "clean", "0-filter", "0", "1") == 0
    assert texts.is_whole
    assert clean.is_whole


def test_an_input_that_is_not_there_is_an_error_that_says_so(
    run_json: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(JOB, raising=False)
    texts, clean = steps_of(run_json)
    assert run(run_json, "clean", "0-filter", "0") == 1
    message = f"{texts.folder}: is not a finished artifact (no manifest.json); run its stage first"
    assert f"headrace: {message}\n" in capsys.readouterr().err
    assert read_sealed(clean.folder / "logs" / "error.json") == {
        "kind": "ArtifactError",
        "where": str(texts.folder),
        "wrong": "is not a finished artifact (no manifest.json)",
        "remedy": "run its stage first",
    }


def test_a_step_that_another_version_planned_is_refused(
    run_json: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its address belongs to that version's code. What is finished can still be read."""
    texts, clean = steps_of(run_json)
    remedy = "run the command that planned it again, with its overrides\n"
    for step in (texts, clean):
        monkeypatch.setattr(type(step.stage), "version", step.stage.version + 1)
    assert run(run_json, "texts", "texts", "0", "1") == 2
    expected = f"headrace: texts: was planned by another version of headrace (different: version); {remedy}"
    assert capsys.readouterr().err == expected
    assert not (texts.folder / "parts").exists()
    monkeypatch.setattr(type(texts.stage), "version", texts.stage.version - 1)
    assert run(run_json, "texts", "texts", "0", "1") == 0
    assert run(run_json, "clean", "0-filter", "0", "1") == 2
    monkeypatch.setattr(type(texts.stage), "version", texts.stage.version + 1)
    assert [step.is_whole for step in steps_of(run_json)] == [True, False], "commands that only read go on"
    steps_of(run_json)[0].refuse_other_version()


def test_a_default_that_another_version_changed_is_refused(run_json: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config, steps = load(run_json)
    clean = steps[1]
    changed = dataclasses.replace(
        clean, stage=dataclasses.replace(clean.stage, cleaning=Cleaning(filters=(PageLength(),)))
    )
    wrong = r"^clean: was planned by another version of headrace \(different: cleaning\); "
    with pytest.raises(ConfigError, match=wrong):
        changed.refuse_other_version()
    monkeypatch.setattr(run_execution, "save", lambda *_: pytest.fail("run.json was written"))
    with pytest.raises(ConfigError, match=wrong):
        run_execution.carry_out(Run(config, {}, [steps[0], changed], []))


def test_in_a_job_it_waits_for_what_the_file_system_shows_late(run_json: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    texts, clean = steps_of(run_json)
    assert run(run_json, "texts", "texts", "0", "1") == 0
    hidden = texts.folder.with_name("hidden")
    texts.folder.rename(hidden)

    def show() -> None:
        time.sleep(1.5)
        hidden.rename(texts.folder)

    monkeypatch.setenv(JOB, "7")
    other_node = threading.Thread(target=show)
    other_node.start()
    assert run(run_json, "clean", "0-filter", "0", "1") == 0
    other_node.join()
    assert clean.is_whole


def full(*_: object) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_a_full_disk_is_told_in_one_line_and_asks_for_another_start(
    run_json: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    texts, _ = steps_of(run_json)
    monkeypatch.setattr(TaskExecutor, "run_task", full)
    assert run(run_json, "texts", "texts", "0") == 75
    assert (
        capsys.readouterr().err == f"headrace: {texts.folder}: No space left on device; free some space and run again\n"
    )
    assert isinstance(work_log.error_of(texts.folder), RetryableError)


def test_a_full_disk_is_told_by_a_run_on_this_machine(
    run_json: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a task, whose error a worker sends, and in the main process."""
    texts, _ = steps_of(run_json)
    config, _ = planner.load(run_json)
    failed = TaskEnd(0, "OSError", OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)))
    monkeypatch.setattr(Workers, "run", lambda *_: iter([failed]))
    with pytest.raises(
        RetryableError, match=f"^{texts.folder}: No space left on device; free some space and run again$"
    ):
        run_execution.execute(texts, config)
    monkeypatch.setattr(planner, "write_run", full)
    with pytest.raises(RetryableError, match=r"run\.json: No space left on device; free some space and run again$"):
        planner.save(config, {}, [texts])


def test_a_root_that_cannot_be_written(run_json: Path) -> None:
    config = dataclasses.replace(planner.load(run_json)[0], root=str(run_json))
    with pytest.raises(ConfigError) as error:
        planner.save(config, {}, [])
    wanted = f"root: cannot write below '{run_json}' (Not a directory); use a folder of your own: root=FOLDER"
    assert str(error.value) == wanted


def test_an_error_that_is_not_known_keeps_its_traceback_and_is_reported(
    run_json: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts, _ = steps_of(run_json)

    def broken(*_: object) -> None:
        raise OSError(errno.ENOTTY, os.strerror(errno.ENOTTY))

    monkeypatch.setattr(TaskExecutor, "run_task", broken)
    with pytest.raises(OSError, match="Inappropriate ioctl"):
        run(run_json, "texts", "texts", "0")
    assert str(work_log.error_of(texts.folder)) == (
        "texts: OSError: [Errno 25] Inappropriate ioctl for device; "
        "see the traceback in the log of the ranks, or of the job"
    )


@pytest.mark.parametrize("words", ["[gloo/transport/tcp/pair.cc:547] Connection closed by peer", "NCCL error in: x"])
def test_a_rank_that_lost_another_leaves_the_reason_to_that_one(
    run_json: Path, monkeypatch: pytest.MonkeyPatch, words: str
) -> None:
    texts, _ = steps_of(run_json)

    def broken(*_: object) -> None:
        raise RuntimeError(words)

    monkeypatch.setattr(TaskExecutor, "run_task", broken)
    with pytest.raises(RuntimeError):
        run(run_json, "texts", "texts", "0")
    assert work_log.error_of(texts.folder) is None

"""The progress of a run that is not finished, as ``headrace status`` and ``headrace status --watch`` show it."""

import contextlib
import json
import re
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from headrace.pipeline.config import decoded
from headrace.pipeline.configuration.composition import compose
from headrace.pipeline.core import claim, metrics_file, progress, work_log
from headrace.pipeline.core.artifact import TaskOutput, finish
from headrace.pipeline.core.errors import RetryableError, StoppedError, TaskError
from headrace.pipeline.core.json_files import write_sealed
from headrace.pipeline.core.progress import LATEST
from headrace.pipeline.run import jobs, run_logs, run_progress
from headrace.pipeline.run.planned_stage import PlannedStage
from headrace.pipeline.run.planner import Run, plan
from tests.command_line import headrace_here

LINE = "120/5,000 steps, 3.2/s, 0:25:25 to go  loss 3.412  tokens/s 51,200"


@pytest.fixture
def settings(tmp_path: Path) -> list[str]:
    (tmp_path / "pages.jsonl").write_text(json.dumps({"text": "One page."}) + "\n")
    source = ["source=jsonl", f"source.paths=[{tmp_path}/pages.jsonl]", "cleaning=none"]
    return [*source, f"root={tmp_path}/runs", "until=weights", "tracking=file"]


@pytest.fixture
def training(settings: list[str]) -> PlannedStage:
    """A training that has begun."""
    step = plan(decoded(compose(settings)))[-2]
    (step.folder / LATEST).parent.mkdir(parents=True)
    (step.folder / LATEST).write_text(LINE)
    return step


def test_status_shows_steps_time_left_loss_and_speed(
    settings: list[str], training: PlannedStage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "300")
    with claim.claimed(training.folder / "parts/weights-00000.claim"):
        row = row_of_weights(settings)
    assert row.startswith(f"weights begun 0/1 {' '.join(LINE.split())}")


def test_status_of_a_killed_training_shows_no_speed(
    settings: list[str], training: PlannedStage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "300")
    assert row_of_weights(settings) == f"weights stopped 0/1 120/5,000 steps {training.folder}"


@pytest.mark.parametrize("seed", ["", "seed_1/"])
def test_status_of_a_stopped_training_shows_the_saved_step_and_its_last_start(
    settings: list[str], training: PlannedStage, monkeypatch: pytest.MonkeyPatch, seed: str
) -> None:
    """Also where it is a seed of a fine-tuning that was stopped."""
    monkeypatch.setenv("COLUMNS", "300")
    for step in (100, 110):
        write_sealed(training.folder / f"{seed}checkpoints/step_{step:08d}/manifest.json", {})
    (training.folder / f"{seed}checkpoints/step_00000120").mkdir()  # without a manifest
    work_log.write_error(training.folder, StoppedError("weights", "stopped on request at step 110", "run again"))
    work_log.record_start(training.folder, "weights: begins at step 0: nothing was saved before")
    work_log.record_start(training.folder, "weights: goes on from step 60, its newest checkpoint")
    expected = f"weights stopped 0/1 120/5,000 steps, step 110 saved {training.folder}"
    assert row_of_weights(settings) == expected
    last = headrace_here("status", *settings).stdout.splitlines()[-1]
    assert last == "weights: goes on from step 60, its newest checkpoint"


def row_of_weights(settings: list[str]) -> str:
    return row_of("weights", settings)


def row_of(stage: str, settings: list[str]) -> str:
    done = headrace_here("status", *settings)
    assert done.returncode == 0, done.stderr
    (row,) = [line for line in done.stdout.splitlines() if line.split()[:1] == [stage]]
    return " ".join(row.split())


@pytest.fixture
def duplicates(settings: list[str]) -> PlannedStage:
    """Duplicates at their second phase, of which 3 of 16 tasks are done: by another terminal, or by jobs."""
    step = next(step for step in plan(decoded(compose(settings))) if step.name == "duplicates")
    first, second, *_ = step.phases
    for phase, tasks in ((first, first.tasks), (second, 3)):
        for task in range(tasks):
            TaskOutput(step.folder, phase.name, task).done({})
    return step


def test_status_and_logs_show_the_phase_that_a_data_stage_is_at(
    settings: list[str], duplicates: PlannedStage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "300")
    at, tasks = "phase 2/12 exact, 3/16 tasks", sum(phase.tasks for phase in duplicates.phases)
    with claim.claimed(duplicates.folder / "parts/exact-00003.claim"):
        assert row_of("duplicates", settings) == f"duplicates begun 4/{tasks} {at} {duplicates.folder}"
    assert row_of("signatures", settings).startswith("signatures to do 0/1 ")
    facts = dict(run_logs.explain(duplicates, {}))
    assert facts == {"stage": f"duplicates, 4 of {tasks} tasks done", "at": at}


def test_watch_counts_only_the_tasks_that_it_saw_in_the_time_left(
    duplicates: PlannedStage, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each second shows one more task; then the phase ends, and the next one begins."""
    now = [100.0]
    _, second, third, *_ = duplicates.phases

    def sleep(seconds: float) -> None:
        now[0] += 10.0
        missing = duplicates.missing(second) or duplicates.missing(third)
        TaskOutput(duplicates.folder, (second if duplicates.missing(second) else third).name, missing[0]).done({})

    clock = SimpleNamespace(sleep=sleep, monotonic=lambda: now[0])
    monkeypatch.setattr(run_progress, "time", clock)
    monkeypatch.setattr(progress, "time", clock)
    work = run_progress.Following(duplicates, duplicates.folder)
    monkeypatch.setattr(work, "is_over", lambda: now[0] >= 240.0)
    work.show_tasks()
    assert capsys.readouterr().err.splitlines() == [
        "duplicates: phase 2/12 exact, 6/16 tasks, 0:01:40 to go",
        "duplicates: phase 2/12 exact, 9/16 tasks, 0:01:10 to go",
        "duplicates: phase 2/12 exact, 12/16 tasks, 0:00:40 to go",
        "duplicates: phase 2/12 exact, 15/16 tasks, 0:00:10 to go",
        "duplicates: 12 phases in 0:02:20",
    ]


@pytest.fixture
def fast(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_progress, "POLL_SECONDS", 0.02)


@contextlib.contextmanager
def elsewhere(work: Callable[[], None]) -> Iterator[None]:
    """Does ``work`` in a thread, as another command would."""
    thread = threading.Thread(target=work)
    thread.start()
    yield
    thread.join()


def test_watch_ends_when_no_command_works_on_the_run(
    settings: list[str], fast: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_progress, "ASK_SECONDS", 0.0)
    step = plan(decoded(compose(settings)))[0]
    done = headrace_here("status", "--watch", *settings)
    assert done.returncode == 1
    remedy = "correct the cause and run the run's command again"
    assert done.stderr.splitlines()[-1] == f"headrace: texts: no job and no command works on it; {remedy}"
    work_log.write_error(step.folder, RetryableError("texts", "the disk is full", "free some space"))
    done = headrace_here("status", "--watch", *settings)
    assert done.returncode == 75
    assert done.stderr.splitlines()[-1] == "headrace: texts: the disk is full; free some space"


def test_watch_goes_on_when_the_scheduler_does_not_answer(
    settings: list[str], fast: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_progress, "ASK_SECONDS", 0.0)
    step = plan(decoded(compose([*settings[:-2], "until=texts"])))[0]
    asked = []

    def live(steps: object) -> None:
        asked.append(steps)
        if len(asked) == 2:
            step.executor(step.phases[0]).run_task(0)
            step.finish()
        raise TaskError("cluster=slurm", "squeue gave no answer within 60 s", "run again")

    monkeypatch.setattr(jobs, "live", live)
    work = run_progress.Following(step, step.folder)
    work.show_tasks()
    assert len(asked) == 2


def test_watch_follows_data_stages_until_they_are_done(
    settings: list[str], fast: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    began = threading.Event()

    def sleep(seconds: float) -> None:
        began.set()
        time.sleep(seconds)

    monkeypatch.setattr(run_progress, "time", SimpleNamespace(sleep=sleep, monotonic=time.monotonic))
    monkeypatch.setattr(progress, "LOG_EVERY_SECONDS", 600.0)
    monkeypatch.setattr(run_progress, "ASK_SECONDS", 600.0)  # between two tasks nobody holds a claim here
    settings = [*settings[:-2], "until=signatures"]
    steps = plan(decoded(compose(settings)))

    def work() -> None:
        began.wait(300)
        for step in steps:
            for phase in step.phases:
                for task in range(phase.tasks):
                    step.executor(phase).run_task(task)
            step.finish()

    with elsewhere(work):
        done = headrace_here("status", "--watch", *settings)
    assert done.returncode == 0, done.stderr
    lines = done.stderr.splitlines()
    assert re.fullmatch(r"texts: 1 phase in 0:\d\d:\d\d", lines[0])
    assert lines[1].split() == ["texts", "done"]
    assert lines[-1].split() == ["report", "done"]
    assert re.search(r"records in +1\n", done.stdout)


def test_watch_follows_a_training(
    training: PlannedStage, fast: None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(progress, "LOG_EVERY_SECONDS", 0.0)
    config = decoded(compose([]))
    rows = [{"step": step, "loss": 5.0 / step, "tokens_per_second": 51200.4} for step in (10, 20, 30)]

    metrics = training.folder / "metrics.jsonl"

    def sleep(seconds: float) -> None:
        """Each look shows one more row, the last one the end."""
        time.sleep(seconds)
        if rows:
            with metrics.open("a") as file:
                file.write(json.dumps(rows.pop(0)) + "\n")
            return
        out = TaskOutput(training.folder, "weights", 0)
        with out.file(metrics.name) as path:
            path.write_bytes(metrics.read_bytes())
        out.done({})
        finish(training.folder, training.description, {"weights": 1})

    monkeypatch.setattr(metrics_file, "time", SimpleNamespace(sleep=sleep))
    run_progress.follow(Run(config, {}, [training], []))
    lines = capsys.readouterr().err.splitlines()
    steps = training.stage.training.steps  # type: ignore[attr-defined]
    assert lines[0] == f"weights 10/{steps} steps  loss 0.5  tokens/s 51,200"
    assert re.fullmatch(rf"weights 30/{steps} steps, [0-9.]+/s, [0-9:]+ to go  loss 0.1667  tokens/s 51,200", lines[2])
    assert lines[-1].split() == ["weights", "done"]

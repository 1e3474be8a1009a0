"""status, cancel and du after a start with an earlier ``until``: the run still has its later stages."""

import re
from pathlib import Path

import pytest

from headrace.pipeline.clusters.base import Job
from headrace.pipeline.command_line.request import opened, planned
from headrace.pipeline.configuration.composition import compose
from headrace.pipeline.run import jobs
from headrace.pipeline.run.planner import save
from headrace.pipeline.run.saved_run import SavedRun, newest_file
from tests.command_line import headrace_here
from tests.pipeline.run.fake_slurm import FakeSlurm

SETTINGS = ("run", "source=jsonl", "source.paths=pages.jsonl", "cleaning=none", "workers=1")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run up to ``signatures``, which a job works on, then a start with the same settings up to clean."""
    folder = tmp_path_factory.mktemp("shorter")
    (folder / "pages.jsonl").write_text('{"text": "One page."}\n')
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        assert headrace_here(*SETTINGS, "until=signatures").returncode == 0
        run = SavedRun.read(newest_file("runs"))
        step = next(step for step in run.steps if step.name == "signatures")
        (step.folder / "manifest.json").unlink()
        for part in (step.folder / "parts").glob("*.json"):
            part.unlink()
        logs = run.file.parent / "logs"
        logs.mkdir()
        jobs.record(step, step.phases[-1], Job("117", str(logs / "signatures-117"), 2))
        for index in (0, 1):
            (logs / f"signatures-117_{index}.log").write_text(f"index {index}\n")
        assert headrace_here(*SETTINGS, "until=clean").returncode == 0
    return folder


@pytest.fixture
def fake(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeSlurm:
    monkeypatch.chdir(folder)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"), prepend=":")
    fake = FakeSlurm(tmp_path / "bin")
    fake.queue(("117|0", "RUNNING|None"), name="shorter:signatures")
    return fake


def test_status_shows_the_later_stages(fake: FakeSlurm) -> None:
    rows = headrace_here("status").stdout.splitlines()
    states = {row.split()[0]: row.split()[1] for row in rows[1:5]}
    assert states == {"texts": "done", "clean": "done", "signatures": "RUNNING", "report": "done"}


def test_cancel_reaches_the_jobs_of_later_stages(fake: FakeSlurm) -> None:
    assert "slurm jobs 117" in headrace_here("cancel").stdout
    assert fake.cancelled == ["117"]


def test_logs_of_a_later_stage_name_the_log_of_each_task(fake: FakeSlurm) -> None:
    shown = headrace_here("status", str(newest_file("runs").parent), "--logs", "--stage", "signatures").stdout
    assert re.search(r"^running +signatures signatures task 0: \S+/signatures-117_0\.log$", shown, re.M)
    assert {"index 0", "index 1"} <= {*shown.splitlines()}


def test_watch_finds_the_training_of_an_earlier_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pages.jsonl").write_text('{"text": "One page."}\n')
    long = planned(compose([*SETTINGS[1:], "until=weights"]), SETTINGS[1:])
    save(long.config, long.values, long.stages)
    assert headrace_here(*SETTINGS, "until=texts").returncode == 0
    done = headrace_here("evaluate", "--checkpoints")
    assert done.returncode == 0, done.stderr
    training, report = long.stages[-2:]
    assert done.stderr.startswith(f"checkpoints of {training.folder}/checkpoints\n0 checkpoints scored")
    assert opened(SavedRun.read(newest_file("runs"))).stages[-1].address == report.address


def test_the_run_still_uses_what_it_made(fake: FakeSlurm) -> None:
    assert "used by a run" in headrace_here("du", "--unused").stdout
    assert any(
        row.startswith("signatures ") for row in headrace_here("du", str(newest_file("runs").parent)).stdout.split("\n")
    )

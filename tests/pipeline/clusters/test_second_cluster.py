"""A cluster class outside the project goes through the real command line, submission, states and workers."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from headrace.pipeline.clusters.base import Job
from headrace.pipeline.config import decoded
from headrace.pipeline.configuration.composition import compose
from headrace.pipeline.core.errors import ConfigError
from headrace.pipeline.core.json_files import read_sealed
from headrace.pipeline.run import jobs
from tests.cluster.line import SETTINGS, write_source
from tests.pipeline.run.fake_slurm import make_steps

ROOT = Path(__file__).resolve().parents[3]
END_SECONDS = 240
ON_FILES = ("cluster.type=files_cluster:Files", "+cluster.width=2")

Headrace = Callable[..., str]


@pytest.fixture
def queue(tmp_path: Path) -> Iterator[Path]:
    """The folder of the cluster; jobs that still run at the end of the test are killed."""
    folder = tmp_path / "jobs"
    folder.mkdir()
    yield folder
    for path in folder.glob("*.json"):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(json.loads(path.read_text())["process"], signal.SIGKILL)


@pytest.fixture
def headrace(tmp_path: Path, queue: Path) -> Headrace:
    """The command line; it returns the standard output."""
    source = write_source(tmp_path / "raw")
    environment = os.environ | {
        "FILES_CLUSTER": str(queue),
        "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT / 'examples'}",
        "COLUMNS": "250",
    }

    def run(command: str, *more: str) -> str:
        settings = [*SETTINGS, source, f"root={tmp_path}/root", *more]
        words = [sys.executable, "-m", "headrace", command, *settings]
        done = subprocess.run(words, env=environment, capture_output=True, text=True, timeout=END_SECONDS)
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run


def rows(output: str) -> list[list[str]]:
    """The table of jobs: stage, phase, tasks, job, the job that it waits for (the first has none), a note."""
    found = [line.split() for line in output.splitlines()]
    return [row for row in found if len(row) >= 5 and row[2].isdigit()]


def state(output: str, stage: str) -> str:
    (line,) = [line for line in output.splitlines() if line.startswith(f"{stage}: ")]
    return line.removeprefix(f"{stage}: ")


def wait_for_end(queue: Path, job: int) -> None:
    deadline = time.monotonic() + END_SECONDS
    while (queue / f"{job}.state").read_text() in ("PENDING", "RUNNING"):
        assert time.monotonic() < deadline, {path.name: path.read_text() for path in queue.glob("*.state")}
        time.sleep(0.1)


@pytest.mark.slow
def test_jobs_are_submitted_shown_cancelled_and_submitted_again(headrace: Headrace, queue: Path) -> None:
    only = ("until=texts", *ON_FILES)
    (queue / "hold").touch()
    output = headrace("run", *only)
    assert [row[0] for row in rows(output)] == ["texts", "report"]
    assert [row[3] for row in rows(output)] == ["1", "2"]
    assert "report.html (its job is the last)" in output
    assert rows(output)[1][4] == "1", "each job waits for the one before it"
    held = headrace("status", *only)
    assert state(held, "texts") == "PENDING (Files), job 1"

    assert "stop them with `headrace cancel " in output
    assert "Files jobs 1, 2\n" in headrace("cancel", *only)
    cancelled = headrace("status", *only)
    assert state(cancelled, "texts") == "CANCELLED before it ran, job 1"

    (queue / "hold").unlink()
    assert [row[3] for row in rows(headrace("run", *only))] == ["3", "4"]
    wait_for_end(queue, 4)
    nothing, run, report = headrace("run", *only).splitlines()
    assert nothing == "everything was done before: nothing to submit"
    assert run.startswith("run:    ")
    assert Path(report.removeprefix("report: ")).is_file()
    records = [read_sealed(path) for path in (queue.parent / "root").rglob("jobs.json")]
    name = f"{ROOT / 'examples' / 'files_cluster.py'}:Files"
    assert [job["cluster"] for record in records for job in record.values()] == [name] * 2


@pytest.mark.slow
def test_its_ranks_train_together(headrace: Headrace, queue: Path) -> None:
    headrace("run", "until=packed", "cleaning=none")
    row, _ = rows(headrace("run", "until=weights", "cleaning=none", *ON_FILES))
    assert row[:4] == ["weights", "weights", "1", "1"]
    wait_for_end(queue, 1)
    (log,) = (queue.parent / "root").glob("runs/*/logs/weights.weights-1.log")
    (manifest,) = (queue.parent / "root").glob("weights/*/manifest.json")
    assert read_sealed(manifest)["counts"]["steps"] == 8, log.read_text()
    (checkpoint,) = manifest.parent.glob("checkpoints/step_00000008/manifest.json")
    assert list(read_sealed(checkpoint)["files"]) == ["state/00000.safetensors", "state/00001.safetensors"], (
        "one a rank"
    )


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (["nowhere:Files"], "cluster.type: 'nowhere:Files' names no class: there is no file nowhere.py here"),
        (["own_cluster:Files", "+cluster.width=0"], "cluster.width: must be at least 1"),
        (["broken:Files"], "broken.py, line 1: NameError: name 'x' is not defined; correct the file"),
    ],
)
def test_a_class_that_cannot_be_used(
    settings: list[str], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "own_cluster.py").write_text((ROOT / "examples" / "files_cluster.py").read_text())
    (tmp_path / "broken.py").write_text("x\n")
    with pytest.raises(ConfigError) as caught:
        decoded(compose([f"cluster.type={settings[0]}", *settings[1:]]))
    assert message in str(caught.value)


def test_the_class_of_a_job_that_another_user_recorded_is_not_loaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (stage, *_) = make_steps(tmp_path / "root")
    trap = tmp_path / "trap.py"
    trap.write_text("raise SystemExit('loaded')\n")
    jobs.record(stage, stage.phases[0], Job("7", "log", None, f"{trap}:Files"))
    with pytest.raises(ConfigError, match="loaded"):
        jobs.live([stage])
    assert jobs.states([stage]) == {"letters": f"submitted as job 7 ({trap}, line 1: SystemExit: loaded)"}
    monkeypatch.setattr(jobs, "is_own", lambda _: False)
    assert jobs.live([stage]) == {}
    assert jobs.states([stage]) == {}

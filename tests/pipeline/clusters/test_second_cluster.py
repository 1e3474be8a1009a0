"""A made-up second cluster goes through the real command line, submission, states and workers: only a class is new."""

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

from headrace.pipeline.core.json_files import read_sealed
from tests.cluster.line import SETTINGS, write_source

ROOT = Path(__file__).resolve().parents[3]
PROGRAM = ROOT / "examples" / "files_cluster.py"
END_SECONDS = 240
ON_FILES = ("cluster.type=files", "+cluster.width=2")

Headrace = Callable[..., str]


@pytest.fixture
def jobs(tmp_path: Path) -> Iterator[Path]:
    """The folder of the cluster; jobs that still run at the end of the test are killed."""
    folder = tmp_path / "jobs"
    folder.mkdir()
    yield folder
    for path in folder.glob("*.json"):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(json.loads(path.read_text())["process"], signal.SIGKILL)


@pytest.fixture
def headrace(tmp_path: Path, jobs: Path) -> Headrace:
    """The command line, with the cluster registered; it returns the standard output."""
    source = write_source(tmp_path / "raw")
    environment = os.environ | {"FILES_CLUSTER": str(jobs), "PYTHONPATH": str(ROOT / "src"), "COLUMNS": "250"}

    def run(command: str, *more: str) -> str:
        settings = [*SETTINGS, source, f"root={tmp_path}/root", *more]
        words = [sys.executable, str(PROGRAM), "headrace", command, *settings]
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


def wait_for_end(jobs: Path, job: int) -> None:
    deadline = time.monotonic() + END_SECONDS
    while (jobs / f"{job}.state").read_text() in ("PENDING", "RUNNING"):
        assert time.monotonic() < deadline, {path.name: path.read_text() for path in jobs.glob("*.state")}
        time.sleep(0.1)


@pytest.mark.slow
def test_jobs_are_submitted_shown_cancelled_and_submitted_again(headrace: Headrace, jobs: Path) -> None:
    only = ("until=texts", *ON_FILES)
    (jobs / "hold").touch()
    output = headrace("run", *only)
    assert [row[0] for row in rows(output)] == ["texts", "report"]
    assert [row[3] for row in rows(output)] == ["1", "2"]
    assert "report.html (its job is the last)" in output
    assert rows(output)[1][4] == "1", "each job waits for the one before it"
    held = headrace("status", *only)
    assert state(held, "texts") == "PENDING (Files), job 1"

    assert "stop them with `headrace cancel " in output
    assert "files jobs 1, 2\n" in headrace("cancel", *only)
    cancelled = headrace("status", *only)
    assert state(cancelled, "texts") == "CANCELLED before it ran, job 1"

    (jobs / "hold").unlink()
    assert [row[3] for row in rows(headrace("run", *only))] == ["3", "4"]
    wait_for_end(jobs, 4)
    nothing, run, report = headrace("run", *only).splitlines()
    assert nothing == "everything was done before: nothing to submit"
    assert run.startswith("run:    ")
    assert Path(report.removeprefix("report: ")).is_file()
    records = [read_sealed(path) for path in (jobs.parent / "root").rglob("jobs.json")]
    assert [job["cluster"] for record in records for job in record.values()] == ["files"] * 2


@pytest.mark.slow
def test_its_ranks_train_together(headrace: Headrace, jobs: Path) -> None:
    headrace("run", "until=packed", "cleaning=none")
    row, _ = rows(headrace("run", "until=weights", "cleaning=none", *ON_FILES))
    assert row[:4] == ["weights", "weights", "1", "1"]
    wait_for_end(jobs, 1)
    (log,) = (jobs.parent / "root").glob("runs/*/logs/weights.weights-1.log")
    (manifest,) = (jobs.parent / "root").glob("weights/*/manifest.json")
    assert read_sealed(manifest)["counts"]["steps"] == 8, log.read_text()
    (checkpoint,) = manifest.parent.glob("checkpoints/step_00000008/manifest.json")
    assert list(read_sealed(checkpoint)["files"]) == ["state/00000.safetensors", "state/00001.safetensors"], (
        "one a rank"
    )

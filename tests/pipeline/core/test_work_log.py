"""The small files about the work on a stage: attempts, how long one counts that was killed, and errors."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from headrace.pipeline.core import work_log
from headrace.pipeline.core.environment import JOB, NODE_CORES, NODE_GPUS, NODES
from headrace.pipeline.core.errors import ArtifactError, ConfigError, HeadraceError, RetryableError, TaskError

RUN = "0123456789ab"
DEADLINE_SECONDS = 120
JOB_OF_TWO_NODES = {JOB: "7", NODES: "2", NODE_CORES: "16", NODE_GPUS: "8"}


@pytest.mark.parametrize(
    ("environment", "processes", "devices", "job", "held"),
    [
        ({}, 3, 0, "", (3, 0)),
        ({}, 9, 0, "", (4, 0)),  # no more than the machine has
        ({}, None, 2, "", (4, 2)),
        ({}, None, 9, "", (4, 3)),
        (JOB_OF_TWO_NODES, 4, 1, "7", (32, 16)),
        ({JOB: "7", NODE_CORES: "16"}, 4, 0, "7", (16, 0)),
        ({JOB: "7", NODE_CORES: "16(x2)"}, 1, 0, "", (1, 0)),  # no number: as without a scheduler
        ({JOB: "7"}, 1, 0, "", (1, 0)),
        ({NODES: "2", NODE_CORES: "16"}, 1, 0, "", (1, 0)),
    ],
)
def test_an_attempt_holds_what_its_job_has_or_its_processes_need(
    environment: dict[str, str],
    processes: int | None,
    devices: int,
    job: str,
    held: tuple[int, int],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in JOB_OF_TWO_NODES:
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(4)))
    monkeypatch.setattr(work_log, "_gpus", lambda: ("NVIDIA H200",) * 3)
    with work_log.attempted(tmp_path, RUN, processes, devices):
        (running,) = work_log.attempts(tmp_path)
        assert running.end is None
    (ended,) = work_log.attempts(tmp_path)
    assert ended.end is not None
    assert ended.until == ended.end
    for attempt in (running, ended):
        assert (attempt.run, attempt.job, (attempt.held_cores, attempt.held_gpus)) == (RUN, job, held)


def test_a_killed_attempt_counts_until_it_was_last_seen(tmp_path: Path) -> None:
    program = (
        "import sys, time; from pathlib import Path; from headrace.pipeline.core import work_log\n"
        "work_log.SEEN_SECONDS = 0.01\n"
        f"with work_log.attempted(Path(sys.argv[1]), {RUN!r}, 1): time.sleep({DEADLINE_SECONDS})\n"
    )
    process = subprocess.Popen([sys.executable, "-c", program, str(tmp_path)])
    try:
        deadline = time.monotonic() + DEADLINE_SECONDS
        while not any(attempt.until > attempt.start for attempt in work_log.attempts(tmp_path)):
            assert process.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.02)
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()
    (killed,) = work_log.attempts(tmp_path)
    assert killed.end is None
    assert killed.start < killed.until


@pytest.mark.parametrize("kind", [ArtifactError, ConfigError, RetryableError, TaskError])
def test_an_error_comes_back_as_what_it_was(tmp_path: Path, kind: type[HeadraceError]) -> None:
    assert work_log.error_of(tmp_path) is None
    work_log.write_error(tmp_path, ConfigError("an", "earlier", "one"))
    work_log.write_error(tmp_path, kind("weights", "a rank was killed", "run again"))
    found = work_log.error_of(tmp_path)
    assert type(found) is kind
    assert str(found) == "weights: a rank was killed; run again"
    work_log.clear_error(tmp_path)
    assert work_log.error_of(tmp_path) is None


def test_a_folder_that_takes_no_report_is_no_error_of_its_own(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "logs").touch()
    work_log.write_error(tmp_path, TaskError("weights", "failed", "mend it"))
    assert capsys.readouterr().err == f"headrace: {tmp_path}/logs/error.json could not be written (File exists)\n"


def test_a_damaged_report_is_said_to_be_damaged(tmp_path: Path) -> None:
    """It is not taken for another error, whose kind would decide whether a job comes back."""
    work_log.write_error(tmp_path, RetryableError("weights", "a rank was killed", "run again"))
    path = tmp_path / work_log.ERROR_JSON
    for damaged in (path.read_text().replace("killed", "kilned"), path.read_text()[:-9], ""):
        path.write_text(damaged)
        found = work_log.error_of(tmp_path)
        assert type(found) is ArtifactError
        assert found.where == str(path)

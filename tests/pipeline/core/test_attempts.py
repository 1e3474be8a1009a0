"""The records of attempts: what each holds, and how long one counts that was killed."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from headrace.pipeline.core import attempts
from headrace.pipeline.core.environment import JOB, NODE_CORES, NODE_GPUS, NODES

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
    monkeypatch.setattr(attempts, "_gpus", lambda: ("NVIDIA H200",) * 3)
    with attempts.recorded(tmp_path, RUN, processes, devices):
        (running,) = attempts.attempts(tmp_path)
        assert running.end is None
    (ended,) = attempts.attempts(tmp_path)
    assert ended.end is not None
    assert ended.until == ended.end
    for attempt in (running, ended):
        assert (attempt.run, attempt.job, (attempt.held_cores, attempt.held_gpus)) == (RUN, job, held)


def test_a_killed_attempt_counts_until_it_was_last_seen(tmp_path: Path) -> None:
    program = (
        "import sys, time; from pathlib import Path; from headrace.pipeline.core import attempts\n"
        "attempts.SEEN_SECONDS = 0.01\n"
        f"with attempts.recorded(Path(sys.argv[1]), {RUN!r}, 1): time.sleep({DEADLINE_SECONDS})\n"
    )
    process = subprocess.Popen([sys.executable, "-c", program, str(tmp_path)])
    try:
        deadline = time.monotonic() + DEADLINE_SECONDS
        while not any(attempt.until > attempt.start for attempt in attempts.attempts(tmp_path)):
            assert process.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.02)
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()
    (killed,) = attempts.attempts(tmp_path)
    assert killed.end is None
    assert killed.start < killed.until

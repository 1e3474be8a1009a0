"""One attempt at a data job whose time ends, with stand-ins for scontrol and the worker."""

import os
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.pipeline.clusters import slurm_job
from headrace.pipeline.core.artifact import FORMAT, TaskOutput
from headrace.pipeline.core.json_files import write_sealed
from headrace.pipeline.run import data_job

ADDRESS = "0123456789ab"
WORK = {
    "array": (["letters", "sort", "1", "4"], [("letters", "sort", 5)]),
    "stages": (["letters..words", "2"], [("words", "count", 0)]),
}
"""Arguments of the worker, and tasks that are theirs."""
OTHERS = {"array": ("letters", "sort", 4), "stages": ("texts", "texts", 0)}


@pytest.fixture
def run_json(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A run whose job is 7; ``scontrol requeue`` leaves a file ``again``."""
    path = tmp_path / "root/runs/feedfeed/run-0123456789ab.json"
    steps = [
        {"name": name, "address": ADDRESS, "phases": phases}
        for name, phases in (("texts", [["texts", 1]]), ("letters", [["sort", 8]]), ("words", [["count", 2]]))
    ]
    write_sealed(path, {"format": FORMAT, "config": {}, "descriptions": {}, "steps": steps})
    (tmp_path / "scontrol").write_text(
        f'#!/bin/sh\ncase "$*" in *requeue*) echo "$*" >> {tmp_path}/again;; *) echo JobState=RUNNING;; esac\n'
    )
    (tmp_path / "worker").write_text(f"#!/bin/sh\nwhile [ ! -f {tmp_path}/end ]; do sleep 0.02; done; exit 3\n")
    for name in ("scontrol", "worker"):
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    monkeypatch.setattr(data_job, "POLL_SECONDS", 0.02)
    monkeypatch.setattr(slurm_job, "REQUEUE_SECONDS", 0)
    numbers = (signal.SIGTERM, signal.SIGUSR2)
    before = [signal.getsignal(number) for number in numbers]
    yield path
    for number, handler in zip(numbers, before, strict=True):
        signal.signal(number, handler)


def do(run_json: Path, task: tuple[str, str, int]) -> None:
    TaskOutput(run_json.parents[2] / task[0] / ADDRESS, task[1], task[2]).done({})


@pytest.mark.parametrize("kind", WORK)
@pytest.mark.parametrize(("is_done", "is_short"), [(True, True), (False, True), (True, False)])
def test_it_comes_back_when_it_made_progress_and_its_time_ends(
    run_json: Path, tmp_path: Path, kind: str, is_done: bool, is_short: bool
) -> None:
    work, own = WORK[kind]
    do(run_json, OTHERS[kind])

    def later() -> None:
        time.sleep(0.3)
        for task in own if is_done else [(*OTHERS[kind][:2], 0)]:  # the work of others is no progress of this one
            do(run_json, task)
        if is_short:
            os.kill(os.getpid(), signal.SIGUSR2)
        time.sleep(0.3)
        (tmp_path / "end").touch()

    other = threading.Thread(target=later)
    other.start()
    assert data_job.main([str(run_json), *work, "--", "worker"]) == 3
    other.join()
    again = (tmp_path / "again").read_text() if (tmp_path / "again").exists() else ""
    assert again == "requeue 7\n" * (is_done and is_short)

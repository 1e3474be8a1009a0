"""Deaths that no process of a run can tell of: the last job of the chain does, once, and says why."""

import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cluster.line import submit, write_source
from tests.cluster.one_machine import OneMachineSlurm, client, until
from tests.cluster.test_line import wait_for_jobs
from tests.command_line import headrace_here

TELL = "import os, sys; os.write(os.open(sys.argv[1], os.O_CREAT | os.O_APPEND | os.O_WRONLY), sys.stdin.buffer.read())"
SLEEPS = '#!/bin/bash\n[[ "$*" == *notice_program* ]] && exec "$@"\nexec sleep 300\n'
"""A launcher whose data tasks do not end, as in a time limit that is too short."""


def cancelled(job: str, line: tuple[str, ...]) -> None:
    client("scancel", job)


def killed(job: str, line: tuple[str, ...]) -> None:
    client("scancel", "--signal=KILL", "--full", job)


def stopped_by_a_person(job: str, line: tuple[str, ...]) -> None:
    done = headrace_here("cancel", "mill", line[-1])
    assert done.returncode == 0, done.stderr


def left_alone(job: str, line: tuple[str, ...]) -> None: ...


@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    ("is_sleeping", "end", "said"),
    [
        (True, left_alone, "TIMEOUT"),
        (True, killed, ""),
        (True, cancelled, "CANCELLED"),
        (True, stopped_by_a_person, "CANCELLED"),
        (False, left_alone, "FAILED"),
    ],
)
def test_the_last_job_tells_of_the_end(
    slurm: OneMachineSlurm,
    tmp_path: Path,
    is_sleeping: bool,
    end: Callable[[str, tuple[str, ...]], None],
    said: str,
) -> None:
    (tmp_path / "tell.py").write_text(TELL)
    (tmp_path / "sleeps.sh").write_text(SLEEPS)
    (tmp_path / "sleeps.sh").chmod(0o755)
    (tmp_path / "site.env").write_text('export API_TOKEN=hidden-token-7\necho "API_TOKEN=$API_TOKEN"\nexit 3\n')
    tell = f"notify.command=[{sys.executable},{tmp_path}/tell.py,{tmp_path}/told]"
    how = f"cluster.launcher=[{tmp_path}/sleeps.sh]" if is_sleeping else f"cluster.site_env={tmp_path}/site.env"
    line = (write_source(tmp_path / "raw"), "cleaning=none", "until=clean", "name=mill", "notify=command", tell, how)
    line = (*line, "cluster.data_time=1", f"root={tmp_path}/root")
    first, *_ = submit(*line)
    if is_sleeping:
        running = lambda: client("squeue", "--noheader", f"--jobs={first[3]}", "--states=RUNNING", "--format=%i")  # noqa: E731
        assert until(lambda: bool(running()), 60)
    end(first[3], line)
    wait_for_jobs(300)
    notice = json.loads((tmp_path / "told").read_text())  # one
    assert (notice["event"], notice["stage"], notice["run"]) == ("died", "texts", "mill")
    assert said in notice["text"]
    assert "hidden-token" not in (tmp_path / "told").read_text()
    if end is not left_alone or not is_sleeping:
        return
    submit(*line[:-3], "cluster.data_time=5", line[-1])
    wait_for_jobs(300)
    first, ended = map(json.loads, (tmp_path / "told").read_text().replace("}{", "}\n{").splitlines())
    assert (first, ended["event"]) == (notice, "ended")

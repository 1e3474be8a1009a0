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


def left_alone(job: str, root: Path) -> None:
    """Does nothing."""


def cancelled(job: str, root: Path) -> None:
    client("scancel", job)


def killed(job: str, root: Path) -> None:
    client("scancel", "--signal=KILL", "--full", job)


def stopped_by_a_person(job: str, root: Path) -> None:
    done = headrace_here("cancel", "mill", f"root={root}")
    assert done.returncode == 0, done.stderr


ENDS: dict[str, tuple[Callable[[str, Path], None], str]] = {
    "time": (left_alone, "TIMEOUT"),
    "killed": (killed, ""),
    "cancelled": (cancelled, "CANCELLED"),
    "stopped": (stopped_by_a_person, "CANCELLED"),
    "site": (left_alone, "FAILED"),
}
"""A run → what ends its first job, and what the notice says. A file of the site ends the last one."""


@pytest.mark.timeout(900)
def test_the_last_job_tells_of_the_end(slurm: OneMachineSlurm, tmp_path: Path) -> None:
    source = write_source(tmp_path / "raw")
    (tmp_path / "tell.py").write_text(TELL)
    (tmp_path / "sleeps.sh").write_text(SLEEPS)
    (tmp_path / "sleeps.sh").chmod(0o755)
    (tmp_path / "site.env").write_text('export API_TOKEN=hidden-token-7\necho "API_TOKEN=$API_TOKEN"\nexit 3\n')
    launcher, site = f"cluster.launcher=[{tmp_path}/sleeps.sh]", f"cluster.site_env={tmp_path}/site.env"

    def line(name: str, minutes: int) -> tuple[str, ...]:
        tell = f"notify.command=[{sys.executable},{tmp_path}/tell.py,{tmp_path}/{name}.told]"
        own = (f"root={tmp_path}/{name}", "cluster.one_job=always", f"cluster.data_time={minutes}")
        return (source, "cleaning=none", "until=clean", "name=mill", "notify=command", tell, *own)

    def told(name: str) -> list[dict[str, str]]:
        text = (tmp_path / f"{name}.told").read_text()
        assert "hidden-token" not in text
        return [json.loads(notice) for notice in text.replace("}{", "}\n{").splitlines()]

    jobs = {name: submit(*line(name, 1), site if name == "site" else launcher)[0][3] for name in ENDS}
    for name, (end, _) in ENDS.items():
        running = ["squeue", "--noheader", f"--jobs={jobs[name]}", "--states=RUNNING", "--format=%i"]
        assert end is left_alone or until(lambda running=running: bool(client(*running)), 60)
        end(jobs[name], tmp_path / name)
    wait_for_jobs(300)
    for name, (_, said) in ENDS.items():
        (notice,) = told(name)
        assert (notice["event"], notice["stage"], notice["run"]) == ("died", "texts", "mill")
        assert said in notice["text"]
    submit(*line("time", 5))
    wait_for_jobs(300)
    assert [notice["event"] for notice in told("time")] == ["died", "ended"]

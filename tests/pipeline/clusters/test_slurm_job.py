"""One attempt inside a SLURM job, with stand-ins for scontrol and srun. tests/cluster has the same on a real SLURM."""

import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from headrace.pipeline.clusters import slurm_job
from headrace.pipeline.clusters.slurm_job import ask_patiently, main

SCONTROL = """
case "$*" in
    *hostnames*) echo n1;;
    *"show job"*) echo JobState=RUNNING;;
    *requeue*) {requeue};;
    *) echo "NodeAddr=10.0.0.1";;
esac
"""

Tool = Callable[[str, str], None]


@pytest.fixture
def tool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Tool]:
    """Installs a shell script as a program. The current job is job 7, on one node."""
    (tmp_path / "bin").mkdir()
    monkeypatch.setenv("PATH", str(tmp_path / "bin"), prepend=":")
    for name, value in (("JOB_ID", "7"), ("JOB_NODELIST", "n1"), ("NTASKS", "1"), ("RESTART_COUNT", "0")):
        monkeypatch.setenv(f"SLURM_{name}", value)
    for name, seconds in (("PATIENCE_SECONDS", 0.3), ("PAUSE_SECONDS", 0.01), ("REQUEUE_SECONDS", 0)):
        monkeypatch.setattr(slurm_job, name, seconds)

    def install(name: str, script: str) -> None:
        (tmp_path / "bin" / name).write_text(f"#!/bin/bash\n{script}\n")
        (tmp_path / "bin" / name).chmod(0o755)

    numbers = (signal.SIGTERM, signal.SIGUSR2)
    before = [signal.getsignal(number) for number in numbers]
    yield install
    for number, handler in zip(numbers, before, strict=True):
        signal.signal(number, handler)


def run(folder: Path) -> int:
    return main(["run.json", "weights", str(folder), "3"])


def test_scontrol_is_asked_again_while_the_controller_is_away(tool: Tool, tmp_path: Path) -> None:
    away = f"echo >> {tmp_path}/asked; test $(wc -l < {tmp_path}/asked) = 3"
    tool("scontrol", SCONTROL.format(requeue=away))
    tool("srun", "exit 75")
    assert run(tmp_path / "artifact") == 75
    assert (tmp_path / "asked").read_text() == 3 * "\n"


def test_an_error_at_the_end_keeps_the_status_of_the_ranks(
    tool: Tool, tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    tool("scontrol", SCONTROL.format(requeue="echo no controller >&2; exit 1"))
    tool("srun", "exit 75")
    assert run(tmp_path / "artifact") == 75
    assert "headrace: cluster=slurm: scontrol requeue 7 failed: no controller; " in capfd.readouterr().err

    def stale(folder: Path) -> None:
        raise OSError(116, "Stale file handle")

    monkeypatch.setattr(slurm_job.error_report, "read", stale)
    assert run(tmp_path / "artifact") == 75
    assert "headrace: [Errno 116] Stale file handle" in capfd.readouterr().err


def test_a_node_that_the_site_hides_is_met_by_its_name_at_once(tool: Tool, tmp_path: Path) -> None:
    tool("scontrol", f"echo >> {tmp_path}/asked; echo Node n1 not found; exit 1")
    assert "not found" in ask_patiently(["scontrol", "--oneliner", "show", "node", "n1"])
    assert (tmp_path / "asked").read_text() == "\n"

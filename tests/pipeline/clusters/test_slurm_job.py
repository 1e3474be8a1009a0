"""One attempt inside a SLURM job, with stand-ins for scontrol and srun. tests/cluster has the same on a real SLURM."""

import contextlib
import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from headrace.pipeline.clusters import slurm_job
from headrace.pipeline.clusters.slurm import Slurm
from headrace.pipeline.clusters.slurm_job import SrunRanks, ask_patiently, main
from headrace.pipeline.core import work_log
from headrace.pipeline.core.errors import ConfigError

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
    for name, seconds in (("PATIENCE_SECONDS", 1.0), ("PAUSE_SECONDS", 0.01), ("REQUEUE_SECONDS", 0)):
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

    monkeypatch.setattr(work_log, "error_of", stale)
    assert run(tmp_path / "artifact") == 75
    assert "headrace: [Errno 116] Stale file handle" in capfd.readouterr().err


@pytest.mark.parametrize(("name", "message"), [("USR2", "within its time limit"), ("TERM", "back into the queue")])
def test_a_signal_before_the_ranks_start_asks_them_to_stop(
    name: str, message: str, tool: Tool, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    tool("scontrol", f"[[ $* == *hostnames* ]] && kill -{name} $PPID\n{SCONTROL.format(requeue='true')}")
    tool("srun", "exec sleep 60")
    assert run(tmp_path / "artifact") == 128 + signal.SIGUSR2
    assert message in "".join(capfd.readouterr())


def test_a_signal_while_the_ranks_start_asks_them_to_stop(tool: Tool, monkeypatch: pytest.MonkeyPatch) -> None:
    class SignalledAtOnce(subprocess.Popen[bytes]):
        def __init__(self, *arguments: Any, **more: Any) -> None:
            super().__init__(*arguments, **more)
            os.kill(os.getpid(), signal.SIGUSR2)

    monkeypatch.setattr(subprocess, "Popen", SignalledAtOnce)
    ranks = SrunRanks()
    ranks.start(["sleep", "60"], dict(os.environ))
    assert ranks.wait() == 128 + signal.SIGUSR2
    assert ranks.out_of_time


@pytest.mark.parametrize(
    ("limit", "refused"),
    [
        *((limit, True) for limit in ("10", "00:10:00", "0-00:10")),
        *((limit, False) for limit in ("0", "10:01", "0-1", "1-00:00:00")),
    ],
)
def test_a_signal_at_the_start_of_the_time_is_refused(limit: str, refused: bool, tool: Tool, tmp_path: Path) -> None:
    tool("sbatch", "true")
    message = r"^cluster.signal_seconds: 600 s is not below cluster.train_time \(.*\); lower it, or raise"
    with pytest.raises(ConfigError, match=message) if refused else contextlib.nullcontext():
        Slurm(train_time=limit, signal_seconds=600).check(tmp_path / "run.json")


def test_a_node_that_the_site_hides_is_met_by_its_name_at_once(tool: Tool, tmp_path: Path) -> None:
    tool("scontrol", f"echo >> {tmp_path}/asked; echo Node n1 not found; exit 1")
    assert "not found" in ask_patiently(["scontrol", "--oneliner", "show", "node", "n1"])
    assert (tmp_path / "asked").read_text() == "\n"


NODES_SCONTROL = """
echo "$*" >> {asked}
case "$*" in
    *"show job"*) echo "JobId=7 JobState=RUNNING NodeList=n1 {before} Features=(null)";;
    *hostnames*) echo "${{@: -1}}" | tr , "\\n";;
esac
"""


@pytest.mark.parametrize(
    ("job_nodes", "named", "before", "update"),
    [
        ("1", ["n1"], "ExcNodeList=(null)", "n1"),
        ("2", ["n1"], "ExcNodeList=n4", "n4,n1"),
        ("2", ["n1", "n3", "n1", "$(reboot)"], "", None),
        ("3", ["n1", "n2"], "", None),
        ("1", [], "", None),
    ],
    ids=["one", "more", "all", "few left", "none"],
)
def test_bad_nodes_are_left_out_of_the_next_attempt(
    tool: Tool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    job_nodes: str,
    named: list[str],
    before: str,
    update: str | None,
) -> None:
    """The partition has four nodes. Nodes that are left out already stay out; all of several nodes are never named."""
    monkeypatch.setenv("SLURM_JOB_NUM_NODES", job_nodes)
    monkeypatch.setenv("SLURM_JOB_PARTITION", "gpu")
    lines = "".join(f"echo '{name}' >> {tmp_path}/artifact/logs/bad_nodes; " for name in named)
    tool("scontrol", NODES_SCONTROL.format(asked=tmp_path / "asked", before=before))
    tool("sinfo", f"echo sinfo $* >> {tmp_path}/asked; printf 'n1\\nn2\\nn3\\nn4\\n'")
    tool("srun", f"{lines} exit 75")
    assert run(tmp_path / "artifact") == 75
    asked = (tmp_path / "asked").read_text().splitlines()
    *_, last = asked
    assert last == (f"update JobId=7 ExcNodeList={update}" if update else "requeue 7")
    if update:
        assert asked[-2] == "requeue 7"
        assert "sinfo --noheader --Node --format=%N --partition=gpu --states=idle,alloc,mix,comp" in asked


def test_a_job_without_enough_nodes_left_keeps_its_bad_ones(
    tool: Tool, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    tool("scontrol", NODES_SCONTROL.format(asked=tmp_path / "asked", before=""))
    tool("sinfo", "echo n1")
    tool("srun", f"echo n1 >> {tmp_path}/artifact/logs/bad_nodes; exit 75")
    assert run(tmp_path / "artifact") == 75
    wrong = "headrace: bad nodes (n1) stay in: without them the partition has 0 of 1 nodes\n"
    assert wrong in capfd.readouterr().err


@pytest.fixture
def events(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str]]:
    """The notices of attempts."""
    events: list[tuple[str, str]] = []
    monkeypatch.setattr(slurm_job, "send", lambda event, stage, text: events.append((event, text)))
    return events


def test_a_training_is_told_to_have_died_after_its_attempts_and_not_before(
    tool: Tool, events: list[tuple[str, str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tool("scontrol", SCONTROL.format(requeue="true"))
    tool("srun", "exit 75")
    run(tmp_path / "artifact")
    assert events == []
    monkeypatch.setenv("SLURM_RESTART_COUNT", "2")
    run(tmp_path / "artifact")
    assert events == [("died", "weights stays out of the queue: 3 attempts from the start saved no checkpoint")]


def test_a_training_that_fails_for_good_is_told_at_once_and_a_cancelled_one_is_not(
    tool: Tool, events: list[tuple[str, str]], tmp_path: Path
) -> None:
    tool("scontrol", SCONTROL.format(requeue="true").replace("RUNNING", "CANCELLED"))
    tool("srun", "exit 75")
    run(tmp_path / "artifact")
    assert events == []
    tool("scontrol", SCONTROL.format(requeue="true"))
    tool("srun", "exit 1")
    run(tmp_path / "artifact")
    assert events == [("died", "weights ended early (status 1)")]


def test_a_training_whose_nodes_are_taken_is_told_to_wait(
    tool: Tool, events: list[tuple[str, str]], tmp_path: Path
) -> None:
    tool("scontrol", SCONTROL.format(requeue="true"))
    tool("srun", "kill -TERM $PPID; sleep 0.3; exit 75")
    run(tmp_path / "artifact")
    ((event, text),) = events
    assert event == "waits"
    assert text.startswith("SLURM asked it to stop before its time limit: weights ended early (status ")

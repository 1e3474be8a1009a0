"""Ranks that are forks of one process meet at its socket. None is left when one of them, or the process, ends."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.other_processes import DEADLINE_SECONDS, is_running, wait_until

SCRIPT = """
import os, signal, sys, time
from pathlib import Path
from headrace.pipeline.run import forked_ranks, rank
from headrace.train.distributed import forks

def main(arguments):
    import torch
    from headrace.train.distributed import processes
    folder, how = Path(arguments[0]), sys.argv[3]
    (folder / f"rank-{os.environ['RANK']}").write_text(str(os.getpid()))
    if how == "fails" and os.environ["RANK"] == "1":
        raise ValueError("rank 1 fails")
    if how == "deaf":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if how == "killed" or how == "deaf":
        time.sleep(100 if os.environ["RANK"] == "0" or how == "killed" else 0.5)
        os.kill(os.getpid(), signal.SIGKILL)
    ranks = processes.start("cpu")
    gathered = processes.gather((ranks.rank, ranks.local_rank, ranks.world, os.environ["RANK"]))
    (folder / f"found-{ranks.rank}").write_text(repr(gathered))
    return 0

rank.main = main
forks.ENDING_SECONDS = 0.5
forked_ranks.exit_now(forked_ranks.main(sys.argv[1:3]))
"""


def start(folder: Path, ranks: int, how: str) -> "subprocess.Popen[str]":
    command = [sys.executable, "-c", SCRIPT, str(folder), str(ranks), how]
    paths = os.pathsep.join(sys.path)
    environment = os.environ | {"PYTHONPATH": paths}
    return subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment)


def test_they_meet_and_know_their_numbers(tmp_path: Path) -> None:
    process = start(tmp_path, 3, "works")
    assert process.communicate(timeout=DEADLINE_SECONDS) is not None
    assert process.returncode == 0
    expected = repr([(rank, rank, 3, str(rank)) for rank in range(3)])
    assert [(tmp_path / f"found-{rank}").read_text() for rank in range(3)] == [expected] * 3


@pytest.mark.slow
def test_the_others_end_when_one_fails_while_they_wait_for_it(tmp_path: Path) -> None:
    process = start(tmp_path, 2, "fails")
    _, words = process.communicate(timeout=DEADLINE_SECONDS)
    assert process.returncode == 1
    assert words.count("ValueError: rank 1 fails") == 1


@pytest.mark.slow
def test_one_that_does_not_end_when_it_is_asked_is_killed(tmp_path: Path) -> None:
    process = start(tmp_path, 2, "deaf")
    process.communicate(timeout=DEADLINE_SECONDS)
    assert process.returncode == 128 + signal.SIGKILL


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="only Linux kills children with their parent")
def test_they_end_with_their_parent(tmp_path: Path) -> None:
    process = start(tmp_path, 2, "killed")
    files = [tmp_path / f"rank-{rank}" for rank in range(2)]
    wait_until(lambda: all(file.is_file() and file.read_text() for file in files))
    ranks = [int(file.read_text()) for file in files]
    assert all(map(is_running, ranks))
    process.kill()
    process.wait()
    wait_until(lambda: not any(map(is_running, ranks)))


def test_it_ends_with_a_killed_launcher_that_nobody_waits_for() -> None:
    """Which stays as a zombie: in a container whose first process waits for no other."""
    launcher = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    watching = "from headrace.pipeline.run.rank import exit_with; import sys, time; exit_with(int(sys.argv[1]))"
    code = f"{watching}; print('ready', flush=True); time.sleep(600)"
    rank = subprocess.Popen([sys.executable, "-c", code, str(launcher.pid)], stdout=subprocess.PIPE)
    assert rank.stdout is not None
    assert rank.stdout.readline() == b"ready\n"
    launcher.kill()
    assert rank.wait(DEADLINE_SECONDS) == 1
    launcher.wait()

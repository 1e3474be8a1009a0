"""The start of the fork server."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from headrace.pipeline.core import environment
from headrace.pipeline.run import fork_server


@pytest.mark.parametrize(
    ("overrides", "is_started"),
    [
        ([], True),
        (["experiment=smoke", "name=cluster=slurm"], True),
        (["cluster=local"], True),
        (["cluster.type=local"], True),
        (["cluster.workers=2"], True),
        (["experiment=smoke", "cluster=slurm"], False),
        (["cluster.type=files", "+cluster.width=2"], False),
        (["+cluster=mine"], False),
    ],
)
def test_a_command_that_submits_jobs_starts_no_server(
    monkeypatch: pytest.MonkeyPatch, overrides: list[str], is_started: bool
) -> None:
    started: list[int] = []
    monkeypatch.setattr(fork_server, "start_fork_server", lambda **_: started.append(1))
    fork_server.start_early(overrides)
    assert bool(started) is is_started


COMMAND = """
import os, sys, threading
from pathlib import Path
from headrace.pipeline.core.signals import stoppable
from headrace.pipeline.run.fork_server import start_early
from headrace.pipeline.run.workers import Workers
from tests.pipeline.run.test_fork_server import look

if len(sys.argv) > 1:
    threading.Thread(target=threading.Event().wait, daemon=True).start()
with open("a-file-of-the-command", "w") as kept, stoppable():
    start_early([])
    with Workers(1) as workers:
        ends = list(workers.run(look, [os.getpid()], Path("log")))
print(*(end.text for end in ends), sep="")
os._exit(0)
"""


def look(command: int) -> None:
    """Prints what the fork server of this process has of the process ``command``."""
    server = Path(f"/proc/{os.getppid()}")
    status = dict(line.split(":", 1) for line in (server / "status").read_text().splitlines())
    files = {os.readlink(one).partition(":")[0] for one in (server / "fd").iterdir()}
    print("is-fork", (server / "cmdline").read_bytes() == Path(f"/proc/{command}/cmdline").read_bytes())
    print("files", *sorted(files - {"pipe", "socket", "anon_inode"}))
    print("handles-SIGTERM", bool(int(status["SigCgt"], 16) >> signal.SIGTERM - 1 & 1), flush=True)


@pytest.mark.skipif(sys.platform != "linux", reason="other systems start a new process")
@pytest.mark.parametrize("is_fork", [True, False])
def test_the_server_is_a_fork_with_nothing_of_the_command_but_its_modules(tmp_path: Path, is_fork: bool) -> None:
    """A command with a second thread starts a new process. Neither imports from the current folder."""
    for name in ("numba", "scipy"):
        (tmp_path / f"{name}.py").write_text("raise RuntimeError('a module of the user')\n")
    ours = os.pathsep.join([str(environment.PACKAGES), str(Path(__file__).parents[3])])
    done = subprocess.run(
        [sys.executable, "-c", COMMAND, *([] if is_fork else ["with a thread"])],
        cwd=tmp_path, env=os.environ | {"PYTHONPATH": ours}, capture_output=True, text=True,
    )  # fmt: skip
    assert (done.returncode, done.stdout, done.stderr) == (0, "\n", "")
    found = dict(line.partition(" ")[::2] for line in (tmp_path / "log").read_text().splitlines())
    assert found == {"is-fork": str(is_fork), "files": "/dev/null /memfd", "handles-SIGTERM": "False"}

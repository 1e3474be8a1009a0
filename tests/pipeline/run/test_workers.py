"""The start of the fork server: it has nothing of the command, and imports nothing from the current folder."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from headrace.pipeline.core import environment

COMMAND = """
import os
from pathlib import Path
from headrace.pipeline.core.signals import stoppable
from headrace.pipeline.run.workers import Workers
from tests.pipeline.run.test_workers import look

with open("a-file-of-the-command", "w") as kept, stoppable(), Workers(1) as workers:
    ends = list(workers.run(look, [os.getpid()], Path("log")))
print(*(end.text for end in ends), sep="")
os._exit(0)
"""


def look(command: int) -> None:
    """Prints what the fork server of this process has of the process ``command``."""
    server = Path(f"/proc/{os.getppid()}")
    status = dict(line.split(":", 1) for line in (server / "status").read_text().splitlines())
    files = {os.readlink(one).partition(":")[0] for one in (server / "fd").iterdir()}
    print("files", *sorted(files - {"pipe", "socket", "anon_inode"}))
    print("handles-SIGTERM", bool(int(status["SigCgt"], 16) >> signal.SIGTERM - 1 & 1), flush=True)


@pytest.mark.skipif(sys.platform != "linux", reason="the files of a process are seen on Linux only")
def test_the_server_has_nothing_of_the_command(tmp_path: Path) -> None:
    for name in ("numba", "scipy"):
        (tmp_path / f"{name}.py").write_text("raise RuntimeError('a module of the user')\n")
    ours = os.pathsep.join([str(environment.PACKAGES), str(Path(__file__).parents[3])])
    done = subprocess.run(
        [sys.executable, "-c", COMMAND],
        cwd=tmp_path, env=os.environ | {"PYTHONPATH": ours}, capture_output=True, text=True,
    )  # fmt: skip
    assert (done.returncode, done.stdout, done.stderr) == (0, "\n", "")
    found = dict(line.partition(" ")[::2] for line in (tmp_path / "log").read_text().splitlines())
    assert found == {"files": "/dev/null /memfd", "handles-SIGTERM": "False"}

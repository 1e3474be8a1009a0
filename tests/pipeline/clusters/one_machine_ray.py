"""A real Ray cluster on this one machine: a head with two cores, in a folder of its own.

Ray ends a head whose agents do not write their ports within 15 s, so they get free ones here. All processes inherit
``MARK``: they are found by it, and killed together, as when the machine is lost.
"""

import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from tests.cluster.one_machine import free_ports

MARK = "HEADRACE_TEST_RAY"
SOURCE = Path(__file__).parents[3] / "src"
START_SECONDS = 300
OWN_PORTS = range(5_000, 10_000)
"""Ray refuses those that its workers may take, 10,002 to 19,999, and that of its clients, 10,001."""


class OneMachineRay:
    """Starts a head on entry, and kills all its processes on exit."""

    def __init__(self) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="ray-"))  # short: a path of a socket has at most 107 bytes
        self.address = ""
        """The address of its job server. A head that is started again has another one."""

    def __enter__(self) -> "OneMachineRay":
        try:
            self.start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.lose()
        shutil.rmtree(self._folder, ignore_errors=True)

    def start(self) -> None:
        """Starts the head and waits until it takes jobs."""
        metrics, grpc, listen, runtime, dashboard = free_ports(5, OWN_PORTS)
        command = [sys.executable, "-m", "ray.scripts.scripts", "start", "--head", "--port=0", "--num-cpus=2"]
        command += [f"--temp-dir={self._folder}", "--dashboard-host=127.0.0.1", f"--dashboard-port={dashboard}"]
        command += [f"--metrics-export-port={metrics}", f"--dashboard-agent-grpc-port={grpc}"]
        command += [f"--dashboard-agent-listen-port={listen}", f"--runtime-env-agent-port={runtime}"]
        command += ["--object-store-memory=80000000", "--disable-usage-stats"]
        paths = os.pathsep.join([str(SOURCE), *filter(None, [os.environ.get("PYTHONPATH")])])
        environment = os.environ | {MARK: str(self._folder), "PYTHONPATH": paths, "RAY_USAGE_STATS_ENABLED": "0"}
        environment |= {"PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
        environment |= {"RAY_raylet_start_wait_time_s": str(START_SECONDS), "RAY_num_prestart_python_workers": "0"}
        with (self._folder / "start.log").open("w+") as log:
            done = subprocess.run(command, stdout=log, stderr=log, env=environment, timeout=START_SECONDS)
            log.seek(0)
            text = log.read()
        assert done.returncode == 0, text
        (self.address,) = {f"http://{place}" for place in re.findall(r"127\.0\.0\.1:\d+", text)}

    def lose(self) -> None:
        """Kills every process of the head, and of the jobs below it."""
        while alive := [process for process, _ in self.processes()]:
            for process in alive:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(process, signal.SIGKILL)
            time.sleep(0.1)

    def processes(self) -> Iterator[tuple[int, dict[bytes, bytes]]]:
        """Yields each process that has our mark, and its variables."""
        for path in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                words = (path / "environ").read_bytes().split(b"\0")
                variables = dict(word.split(b"=", 1) for word in words if b"=" in word)
                if variables.get(MARK.encode()) == str(self._folder).encode():
                    yield int(path.name), variables


def until(condition: Callable[[], object], explain: Callable[[], str], seconds: float) -> None:
    """Waits for ``condition``."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, explain()
        time.sleep(0.2)

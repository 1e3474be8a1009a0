"""Waits for what other processes do. Only a test that hangs reaches the deadline, on a busy machine too."""

import subprocess
import time
from collections.abc import Callable
from pathlib import Path

DEADLINE_SECONDS = 300


def wait_until(sign: Callable[[], object], process: "subprocess.Popen[str] | None" = None) -> None:
    """Returns when ``sign()`` is true. Fails at the deadline, and when ``process`` has ended."""
    deadline = time.monotonic() + DEADLINE_SECONDS
    while True:
        has_ended = process is not None and process.poll() is not None  # what it does last is seen below
        if sign():
            return
        assert not has_ended, process.communicate()
        assert time.monotonic() < deadline, f"not within {DEADLINE_SECONDS} s"
        time.sleep(0.02)


def is_running(process: int) -> bool:
    """Whether ``process`` has not ended. One that nobody waits for stays as a zombie."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False

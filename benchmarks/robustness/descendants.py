"""The processes that a process has started, and the most memory that they held (Linux)."""

import contextlib
import ctypes
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

PR_SET_CHILD_SUBREAPER = 36


def adopt_orphans() -> None:
    """Makes descendants whose parent has ended children of this process, so that waiting for them counts their time."""
    if ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0):
        raise OSError(ctypes.get_errno(), "prctl: PR_SET_CHILD_SUBREAPER")


@contextlib.contextmanager
def watched(totals: dict[str, Any]) -> Iterator[None]:
    """Records the peak memory of all descendants of this process as ``peak_rss_mb`` while the block runs."""
    over = threading.Event()

    def watch() -> None:
        while not over.wait(0.02):
            totals["peak_rss_mb"] = max(totals["peak_rss_mb"], *(peak_mb(pid) for pid in below(os.getpid())), 0)

    thread = threading.Thread(target=watch)
    thread.start()
    yield
    over.set()
    thread.join()


def below(pid: int) -> list[int]:
    """The processes that ``pid`` or one of its children started."""
    children: list[int] = []
    with contextlib.suppress(OSError):
        for path in Path(f"/proc/{pid}/task").glob("*/children"):
            children += map(int, path.read_text().split())
    return children + [deeper for child in children for deeper in below(child)]


def peak_mb(pid: int) -> float:
    """The most memory that process ``pid`` held, in MB; 0 if it is gone."""
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith("VmHWM"):
                return int(line.split()[1]) / 1000
    return 0

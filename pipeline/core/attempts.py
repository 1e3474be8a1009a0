"""The attempts at a stage: when, for how long and on which machine processes worked on it.

    logs/hosts/node7~…~4711~88231-1763822160.json     {"host": "node7", "cores": 16, …, "start": …, "end": …}

A local command makes one record for each stage, a job of a cluster one for each array index. An attempt without an end
was killed. The records are in ``logs/``, so they are no part of the result; the report shows them.
"""

import contextlib
import dataclasses
import functools
import os
import platform
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from headrace.pipeline.core.json_files import read_json, write_json
from headrace.pipeline.core.owner import UNFINISHED, Owner

FOLDER = "logs/hosts"
GIB = 2**30


@dataclasses.dataclass(frozen=True)
class Attempt:
    """One process at work on a stage. ``start`` and ``end`` are in seconds since 1970."""

    host: str
    processor: str
    cores: int
    memory_gib: int
    gpus: tuple[str, ...]
    """The models of the machine's NVIDIA GPUs."""
    start: float
    end: float | None
    """None while it runs, and after a kill."""

    @classmethod
    def begin(cls) -> "Attempt":
        """Returns an attempt of this process that starts now."""
        memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
        cores = len(os.sched_getaffinity(0))
        return cls(platform.node(), _processor(), cores, round(memory / GIB), _gpus(), time.time(), None)

    @property
    def machine(self) -> str:
        """The hardware as text."""
        kinds = [f"{self.gpus.count(name)} × {name}" for name in dict.fromkeys(self.gpus)]
        return ", ".join([*kinds, f"{self.cores} × {self.processor}", f"{self.memory_gib} GiB"])


@contextlib.contextmanager
def recorded(folder: Path) -> Iterator[None]:
    """Records the block as an attempt at the artifact ``folder``."""
    attempt = Attempt.begin()
    path = folder / FOLDER / f"{Owner.current()}-{attempt.start:.6f}.json"
    write_json(path, dataclasses.asdict(attempt))
    try:
        yield
    finally:
        with contextlib.suppress(OSError):  # the error of the block matters more
            write_json(path, dataclasses.asdict(dataclasses.replace(attempt, end=time.time())))


def attempts(folder: Path) -> list[Attempt]:
    """Returns the attempts at the artifact ``folder``, by their start."""
    paths = [path for path in (folder / FOLDER).glob("*.json") if not path.name.startswith(UNFINISHED)]
    read = [Attempt(**values | {"gpus": tuple(values["gpus"])}) for values in map(read_json, paths)]
    return sorted(read, key=lambda attempt: attempt.start)


def seconds_of(timed: Sequence[Attempt]) -> float:
    """Returns the time in which at least one of the attempts ran. Attempts that were killed are left out."""
    seconds, last = 0.0, 0.0
    for attempt in sorted(timed, key=lambda attempt: attempt.start):
        if attempt.end is not None and attempt.end > last:
            seconds += attempt.end - max(attempt.start, last)
            last = attempt.end
    return seconds


@functools.cache
def _processor() -> str:
    """Returns the model of the processor."""
    with contextlib.suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return " ".join(line.partition(":")[2].split())
    return platform.machine()


@functools.cache
def _gpus() -> tuple[str, ...]:
    """Returns the models of the NVIDIA GPUs, as the driver lists them. CUDA is not started."""
    files = sorted(Path("/proc/driver/nvidia/gpus").glob("*/information"))
    texts = [path.read_text(encoding="utf-8", errors="replace") for path in files]
    models = [
        line.partition(":")[2].strip() for text in texts for line in text.splitlines() if line.startswith("Model")
    ]
    return tuple(models)

"""The attempts at a stage: when, for how long and on which machine processes worked on it.

    logs/hosts/node7~…~4711~88231-1763822160.json     {"host": "node7", "cores": 16, …, "start": …, "end": …}

A local command makes one record for each stage, a job of a cluster one for each array index. An attempt without an end
runs, or was killed: it counts until it was last seen. The records are in ``logs/``, so they are no part of the result;
report/accounts.py counts from them what a run has spent.

An attempt holds cores and GPUs. In a job these are all that the job has, on all its nodes. On a machine without a
scheduler, data stages hold a core for each worker, ranks all cores that they may use, and a GPU each.
"""

import contextlib
import dataclasses
import functools
import os
import platform
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from headrace.pipeline.core.environment import JOB, NODE_CORES, NODE_GPUS, NODES
from headrace.pipeline.core.errors import HeadraceError
from headrace.pipeline.core.json_files import read_json, write_json
from headrace.pipeline.core.owner import UNFINISHED, Owner
from headrace.pipeline.core.settings import decode

FOLDER = "logs/hosts"
GIB = 2**30
SEEN_SECONDS = 20.0
"""The time between two updates of a record: so much of a killed attempt is not counted."""


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
    seen: float | None = None
    """The time at which it was last known to run; None in records of earlier versions, as are the fields below."""
    run: str = ""
    """The id of the run that it worked for; empty for a stage outside a run."""
    job: str = ""
    """The job whose cores and GPUs it held; empty where no scheduler gave them."""
    held_cores: int = 0
    held_gpus: int = 0

    @classmethod
    def begin(cls, run: str = "", processes: int | None = None, devices: int = 0) -> "Attempt":
        """Returns an attempt of this process for ``run`` that starts now.

        Outside a job it holds ``processes`` cores (None: all) and ``devices`` GPUs, if there are so many.
        """
        memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
        cores, gpus, now = len(os.sched_getaffinity(0)), _gpus(), time.time()
        nodes, of_node = _number(NODES, 1), _number(NODE_CORES, 0)
        job = os.environ.get(JOB, "") if of_node else ""
        held_cores, held_gpus = min(processes or cores, cores), min(devices, len(gpus))
        if job:
            held_cores, held_gpus = nodes * of_node, nodes * _number(NODE_GPUS, 0)
        machine = (platform.node(), _processor(), cores, round(memory / GIB), gpus)
        return cls(*machine, now, None, now, run, job, held_cores, held_gpus)

    @property
    def until(self) -> float:
        """The time up to which it counts."""
        return max(self.start, self.end or self.seen or self.start)

    @property
    def machine(self) -> str:
        """The hardware as text."""
        kinds = [f"{self.gpus.count(name)} × {name}" for name in dict.fromkeys(self.gpus)]
        return ", ".join([*kinds, f"{self.cores} × {self.processor}", f"{self.memory_gib} GiB"])


@contextlib.contextmanager
def recorded(folder: Path, run: str = "", processes: int | None = None, devices: int = 0) -> Iterator[None]:
    """Records the block as an attempt at the artifact ``folder``; ``Attempt.begin`` has the other arguments."""
    attempt = Attempt.begin(run, processes, devices)
    path = folder / FOLDER / f"{Owner.current()}-{attempt.start:.6f}.json"
    write_json(path, dataclasses.asdict(attempt))
    ended = threading.Event()
    watch = threading.Thread(target=_watch, args=(path, attempt, ended), name="attempt", daemon=True)
    watch.start()
    try:
        yield
    finally:
        ended.set()
        watch.join()
        _update(path, dataclasses.replace(attempt, end=time.time()))


def _watch(path: Path, attempt: Attempt, ended: threading.Event) -> None:
    """Updates the record in ``path`` until the attempt has ``ended``."""
    while not ended.wait(SEEN_SECONDS):
        _update(path, dataclasses.replace(attempt, seen=time.time()))


def _update(path: Path, attempt: Attempt) -> None:
    with contextlib.suppress(OSError):  # the work, and an error of it, matter more
        write_json(path, dataclasses.asdict(attempt))


def attempts(folder: Path) -> list[Attempt]:
    """Returns the attempts at the artifact ``folder``, by their start. Damaged records are left out."""
    paths = [path for path in (folder / FOLDER).glob("*.json") if not path.name.startswith(UNFINISHED)]
    return sorted(filter(None, map(_read, paths)), key=lambda attempt: attempt.start)


def _read(path: Path) -> Attempt | None:
    try:
        return decode(Attempt, read_json(path), str(path))
    except (HeadraceError, OSError):  # another user wrote it, or it was removed meanwhile
        return None


def seconds_of(timed: Sequence[Attempt]) -> float:
    """Returns the time in which at least one of the attempts ran."""
    seconds, last = 0.0, 0.0
    for attempt in sorted(timed, key=lambda attempt: attempt.start):
        if attempt.until > last:
            seconds += attempt.until - max(attempt.start, last)
            last = attempt.until
    return seconds


@functools.cache
def _processor() -> str:
    """Returns the model of the processor."""
    with contextlib.suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return " ".join(line.partition(":")[2].split())
    return platform.machine()


def _number(name: str, otherwise: int) -> int:
    """Returns the number in the environment variable ``name``; ``otherwise`` without one."""
    text = os.environ.get(name, "")
    return int(text) if text.isdecimal() else otherwise


@functools.cache
def _gpus() -> tuple[str, ...]:
    """Returns the models of the NVIDIA GPUs, as the driver lists them. CUDA is not started."""
    files = sorted(Path("/proc/driver/nvidia/gpus").glob("*/information"))
    texts = [path.read_text(encoding="utf-8", errors="replace") for path in files]
    models = [
        line.partition(":")[2].strip() for text in texts for line in text.splitlines() if line.startswith("Model")
    ]
    return tuple(models)

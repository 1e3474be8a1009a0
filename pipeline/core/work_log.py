"""The small files below ``<artifact>/logs/`` about the work on a stage. They are no part of the result.

    logs/hosts/node7~…~4711~88231-1763822160.json    an attempt: {"host": "node7", "cores": 16, …, "start": …, "end": …}
    logs/starts.jsonl     the starts of a training: {"line": "weights: goes on from step 120, …", "threads": 16}
    logs/bad_nodes        nodes on which a rank computed slowly or a GPU failed, one name a line
    logs/error.json       the error that ended the work: {"kind": "RetryableError", "where": …, "wrong": …, "remedy": …}

**Attempts.** A local command makes one record for each stage, a job of a cluster one for each array index. An attempt
without an end runs, or was killed: it counts until it was last seen. report/accounts.py counts from them what a run has
spent. An attempt holds cores and GPUs. In a job these are all that the job has, on all its nodes. On a machine without
a scheduler, data stages hold a core for each worker, ranks all cores that they may use, and a GPU each.

**Starts.** The command that started the ranks prints new lines on the terminal, as ``headrace status --watch`` does;
``headrace status`` shows the last one. The ranks print them to their log, too, which is that of the job on a cluster.
``threads`` is the number of threads in which a rank computes on CPUs, or null: with another one it adds numbers up in
another order.

**Bad nodes.** The cluster leaves them out when the job goes back into the queue. Others may write to the folder, so a
line that is no name of a node is ignored.

A disk that does not take one of these files ends no work: a line on stderr says so.
"""

import contextlib
import dataclasses
import functools
import os
import platform
import re
import socket
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import orjson

from headrace.pipeline.core.artifact_files import make
from headrace.pipeline.core.claim import UNFINISHED, Owner
from headrace.pipeline.core.environment import JOB, NODE, NODE_CORES, NODE_GPUS, NODES
from headrace.pipeline.core.errors import (
    ArtifactError,
    ConfigError,
    HeadraceError,
    RetryableError,
    StoppedError,
    TaskError,
)
from headrace.pipeline.core.json_files import read_json, read_sealed, write_json, write_sealed
from headrace.pipeline.core.settings import decode

ATTEMPTS, STARTS, BAD_NODES, ERROR_JSON = "logs/hosts", "logs/starts.jsonl", "logs/bad_nodes", "logs/error.json"
"""The paths of the folder and the files below the artifact's folder."""
GIB = 2**30
SEEN_SECONDS = 20.0
"""The time between two updates of a record: so much of a killed attempt is not counted."""
NODE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,252}")
MOST_CHARACTERS = 1_000_000
"""The part of ``bad_nodes`` that is read."""
ERRORS = {kind.__name__: kind for kind in (ArtifactError, ConfigError, RetryableError, StoppedError, TaskError)}


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
def attempted(folder: Path, run: str = "", processes: int | None = None, devices: int = 0) -> Iterator[None]:
    """Records the block as an attempt at the artifact ``folder``; ``Attempt.begin`` has the other arguments."""
    attempt = Attempt.begin(run, processes, devices)
    path = folder / ATTEMPTS / f"{Owner.current()}-{attempt.start:.6f}.json"
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
    paths = [path for path in (folder / ATTEMPTS).glob("*.json") if not path.name.startswith(UNFINISHED)]
    return sorted(filter(None, map(_attempt, paths)), key=lambda attempt: attempt.start)


def _attempt(path: Path) -> Attempt | None:
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


def record_start(folder: Path, line: str, threads: int | None = None) -> None:
    """Prints ``line`` about this start, and adds it to the file below the artifact's ``folder``."""
    print(line, file=sys.stderr, flush=True)
    _append(folder / STARTS, orjson.dumps({"line": line, "threads": threads}, option=orjson.OPT_APPEND_NEWLINE))


def _append(path: Path, line: bytes) -> None:
    """Appends ``line`` to the file ``path``, which is made if it is not there. On a full disk it prints a line."""
    with _printed_if_full(path):
        make(path.parent)
        with path.open("ab") as stream:
            stream.write(line)


@contextlib.contextmanager
def _printed_if_full(path: Path) -> Iterator[None]:
    """Prints the error of a write of ``path`` in the block: the work, and an error of it, matter more."""
    try:
        yield
    except OSError as problem:
        print(f"headrace: {path} could not be written ({problem.strerror})", file=sys.stderr, flush=True)


def latest_start(folder: Path) -> str:
    """Returns the line of the last start of the training in ``folder``; empty when there was none."""
    return str(_start(folder, -1, "line") or "")


def start_threads(folder: Path, number: int = -1) -> int | None:
    """Returns the threads of a rank of the start ``number``, by default the last one; None when none was recorded."""
    threads: int | None = _start(folder, number, "threads")
    return threads


def _start(folder: Path, number: int, key: str) -> Any:
    with contextlib.suppress(ValueError, LookupError, TypeError):  # no result depends on it
        return orjson.loads(_starts(folder).splitlines()[number])[key]
    return None


def starts_bytes(folder: Path) -> int:
    """Returns the size of the file in bytes: lines of later starts come after it."""
    return len(_starts(folder))


def bytes_before_start(folder: Path) -> int:
    """Returns the size of the file without the line of the last start."""
    return _starts(folder).rstrip(b"\n").rfind(b"\n") + 1


def _starts(folder: Path) -> bytes:
    with contextlib.suppress(OSError):
        return (folder / STARTS).read_bytes()
    return b""


def this_node(environment: Mapping[str, str] = os.environ) -> str:
    """Returns the name that the cluster gives this machine, else its host name."""
    return environment.get(NODE) or socket.gethostname()


def add_bad_node(folder: Path, node: str) -> None:
    """Adds ``node`` to the file below the artifact's ``folder``. On a full disk it prints a line."""
    _append(folder / BAD_NODES, f"{node}\n".encode())


def bad_nodes(folder: Path) -> list[str]:
    """Returns the names in the file below ``folder``, sorted; none when there is no file."""
    try:
        with (folder / BAD_NODES).open(errors="replace") as stream:
            lines = stream.read(MOST_CHARACTERS).splitlines()
    except OSError:
        return []
    return sorted({line for line in lines if NODE_NAME.fullmatch(line)})


def clear_bad_nodes(folder: Path) -> None:
    """Removes the names of an earlier start."""
    (folder / BAD_NODES).unlink(missing_ok=True)


def write_error(folder: Path, error: HeadraceError) -> None:
    """Writes ``error`` below the artifact's ``folder``, in place of an earlier one. On a full disk it prints a line."""
    report = {"kind": type(error).__name__, "where": error.where, "wrong": error.problem, "remedy": error.remedy}
    with _printed_if_full(folder / ERROR_JSON):
        write_sealed(folder / ERROR_JSON, report)


@contextlib.contextmanager
def error_kept(folder: Path) -> Iterator[None]:
    """Writes the error that ends the block below the artifact's ``folder``, for ``headrace status``."""
    try:
        yield
    except HeadraceError as error:
        write_error(folder, error)
        raise


def error_of(folder: Path) -> HeadraceError | None:
    """Returns the error below ``folder``, if any. For a damaged report, returns the error about the damage."""
    if not (folder / ERROR_JSON).is_file():
        return None
    try:
        report = read_sealed(folder / ERROR_JSON)
    except ArtifactError as error:
        return error
    return ERRORS.get(report["kind"], TaskError)(report["where"], report["wrong"], report["remedy"])


def clear_error(folder: Path) -> None:
    """Removes the error of an earlier start."""
    (folder / ERROR_JSON).unlink(missing_ok=True)

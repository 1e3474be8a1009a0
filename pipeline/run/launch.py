"""Ranks on this machine: torchrun starts them, their words go to a log, a file that they write tells their progress.

    launch ──> torchrun ──> rank 0, rank 1, ...    headrace.pipeline.run.worker run.json weights     metrics.jsonl
       │                      │                    headrace.pipeline.run.worker run.json scores      logs/progress.jsonl
       └─────── SIGUSR1 ──────┘

A polite signal (core/signals.py) becomes SIGUSR1 to the ranks: they finish the step under way, save and end. Before the
first step it ends them at once, and so does a second signal. Torchrun gets none of them: it kills ranks that do not end
within 30 s.
"""

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from headrace.pipeline.core import error_report
from headrace.pipeline.core.artifact import part_path
from headrace.pipeline.core.errors import HeadraceError, RetryableError
from headrace.pipeline.core.metrics_file import new_metrics
from headrace.pipeline.core.progress import TRAIL, Progress
from headrace.pipeline.core.signals import Stop
from headrace.pipeline.core.stage import Stage
from headrace.train.weights import Weights

POLL_SECONDS = 0.5
MAIN_PID = "HEADRACE_MAIN_PID"
"""Environment variable: the process without which a rank must not go on."""

PASSIVE_THREADS = {"OMP_WAIT_POLICY": "PASSIVE"}
"""Threads of the ranks sleep while they wait for each other. OpenMP lets them spin, which on a machine with other work
takes the cores from the threads that are waited for. The number of threads does not follow the load: results are
bitwise equal only with as many threads."""


def launch(stage: Stage, folder: Path, file: Path, ranks: int) -> None:
    """Run the distributed ``stage``, which ``file`` describes to workers, in ``folder`` with ``ranks`` processes.

    Raises:
        HeadraceError: what a rank reported.
        RetryableError: when a rank was killed; training goes on from the newest checkpoint when run again.
        Stop: when this process was asked to stop, after the ranks saved what they had.
    """
    log = folder / "logs" / "ranks.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    error_report.clear(folder)
    (folder / TRAIL).unlink(missing_ok=True)
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={ranks}"]
    command += ["--no-python", sys.executable, "-u", "-m", "headrace.pipeline.run.worker", str(file), stage.name]
    environment = PASSIVE_THREADS | os.environ | {MAIN_PID: str(os.getpid())}
    with log.open("ab") as words:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=words, stderr=words, env=environment, start_new_session=True
        )
        try:
            _follow(process, stage, folder)
        except Stop as stop:
            _ask_to_stop(process, stage)
            raise _stopped(stop, folder) from None
        finally:
            _end(process)
    (phase,) = stage.phases({})
    if not part_path(folder, phase.name, 0).is_file():
        raise _error(stage, folder, process.returncode, log)


def _follow(process: "subprocess.Popen[bytes]", stage: Stage, folder: Path) -> None:
    if isinstance(stage, Weights):
        _follow_training(process, stage, folder)
    else:
        _follow_scoring(process, stage, folder)


def _ask_to_stop(process: "subprocess.Popen[bytes]", stage: Stage) -> None:
    """Ask the ranks to save and end; returns when they have."""
    ranks = _ranks(process)
    for rank in ranks:
        _send(rank, signal.SIGUSR1)
    if not ranks:
        process.terminate()
    with contextlib.suppress(BrokenPipeError):  # the reader of the output got the signal as well
        print(f"{stage.name}: saving and stopping (a second signal ends it at once)", file=sys.stderr, flush=True)
    process.wait()


def _stopped(stop: Stop, folder: Path) -> BaseException:
    """``stop`` with what the ranks reported; another error of theirs in its place."""
    reported = error_report.find(folder)
    if reported is None:
        return stop
    return Stop(stop.number, str(reported)) if isinstance(reported, RetryableError) else reported


def _end(process: "subprocess.Popen[bytes]") -> None:
    """Leave none of them behind."""
    if process.poll() is None:
        for rank in _ranks(process):
            _send(rank, signal.SIGKILL)
        process.kill()
        process.wait()


def _ranks(process: "subprocess.Popen[bytes]") -> list[int]:
    """The processes that torchrun, ``process``, has started."""
    try:
        return [int(word) for word in Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()]
    except FileNotFoundError:  # it has ended
        return []


def _send(process: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):  # it has ended
        os.kill(process, number)


def _follow_training(process: "subprocess.Popen[bytes]", stage: Weights, folder: Path) -> None:
    shown = 0
    with Progress(stage.name, stage.training.steps, "steps") as progress:
        for row in _rows(process, folder / "metrics.jsonl"):
            if "loss" in row and row["step"] > shown:
                tokens_per_second = round(row["tokens_per_second"])
                progress.advance(row["step"] - shown, loss=row["loss"], tokens_per_second=tokens_per_second)
                shown = row["step"]


def _follow_scoring(process: "subprocess.Popen[bytes]", stage: Stage, folder: Path) -> None:
    progress, shown = None, 0
    with contextlib.ExitStack() as stack:
        for row in _rows(process, folder / TRAIL):
            progress = progress or stack.enter_context(Progress(stage.name, row["total"], row["unit"]))
            progress.advance(row["done"] - shown)
            shown = row["done"]


def _rows(process: "subprocess.Popen[bytes]", path: Path) -> Iterator[dict[str, Any]]:
    """The rows of ``path`` as they come, until ``process`` has ended."""
    position = 0
    while process.poll() is None:
        time.sleep(POLL_SECONDS)
        rows, position = new_metrics(path, position)
        yield from rows


def _error(stage: Stage, folder: Path, status: int, log: Path) -> HeadraceError:
    if reported := error_report.find(folder):
        return reported
    remedy = "run again to go on from the newest checkpoint" if isinstance(stage, Weights) else "run again"
    return RetryableError(stage.name, f"a rank ended early (status {status})", f"see {log}; {remedy}")

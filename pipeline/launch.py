"""Ranks on this machine: torchrun starts them, their words go to a log, a file that they write tells their progress.

launch ──> torchrun ──> rank 0, rank 1, ...    pipeline.worker run.json weights     metrics.jsonl
                                               pipeline.worker run.json scores      logs/progress.jsonl
"""

import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pipeline.core import error_report
from pipeline.core.artifact import part_path
from pipeline.core.errors import HeadraceError, RetryableError
from pipeline.core.progress import TRAIL, Progress
from pipeline.core.stage import Stage
from pipeline.core.tracker import new_metrics
from train.weights import Weights

POLL_SECONDS = 0.5
MAIN_PID = "HEADRACE_MAIN_PID"
"""Environment variable: the process without which a rank must not go on."""

WORKER = (
    "import sys; sys.path[:] = filter(None, sys.path); "
    "from pipeline.worker import leave, main; leave(main(sys.argv[1:]))"
)
"""What ``python -c`` is given to be a worker: like ``python -m pipeline.worker``, but it does not look for our packages
in the current folder, where a user may keep a ``train.py``. The scripts in slurm/ say the same.
"""


def launch(stage: Stage, folder: Path, file: Path, ranks: int) -> None:
    """Run the distributed ``stage``, which ``file`` describes to workers, in ``folder`` with ``ranks`` processes.

    Raises:
        HeadraceError: what a rank reported.
        RetryableError: when a rank was killed; training goes on from the newest checkpoint when run again.
    """
    log = folder / "logs" / "ranks.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    error_report.clear(folder)
    (folder / TRAIL).unlink(missing_ok=True)
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={ranks}"]
    command += ["--no-python", sys.executable, "-u", "-c", WORKER, str(file), stage.name]
    environment = os.environ | {MAIN_PID: str(os.getpid())}
    with log.open("ab") as words:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=words, stderr=words, env=environment)
        try:
            if isinstance(stage, Weights):
                _follow_training(process, stage, folder)
            else:
                _follow_scoring(process, stage, folder)
        finally:
            if process.poll() is None:
                process.terminate()
                process.wait()
    (phase,) = stage.phases({})
    if not part_path(folder, phase.name, 0).is_file():
        raise _error(stage, folder, process.returncode, log)


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

"""Training on this machine: torchrun starts the ranks, their words go to a log, metrics.jsonl tells their progress.

train ──> torchrun ──> rank 0, rank 1, ...    pipeline.worker run.json weights
"""

import os
import subprocess
import sys
import time
from pathlib import Path

from pipeline.core import error_report
from pipeline.core.artifact import part_path
from pipeline.core.errors import HeadraceError, RetryableError
from pipeline.core.progress import Progress
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


def train(stage: Weights, folder: Path, run_json: Path, ranks: int) -> None:
    """Run ``stage`` in ``folder`` with ``ranks`` processes.

    Raises:
        HeadraceError: what a rank reported.
        RetryableError: when a rank was killed; training goes on from the newest checkpoint when run again.
    """
    log = folder / "logs" / "ranks.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    error_report.clear(folder)
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={ranks}"]
    command += ["--no-python", sys.executable, "-u", "-c", WORKER, str(run_json), stage.name]
    environment = os.environ | {MAIN_PID: str(os.getpid())}
    with log.open("ab") as words, Progress(stage.name, stage.training.steps, "steps") as progress:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=words, stderr=words, env=environment)
        try:
            _follow(process, folder, progress)
        finally:
            if process.poll() is None:
                process.terminate()
                process.wait()
    if not part_path(folder, stage.name, 0).is_file():
        raise _error(folder, process.returncode, log)


def _follow(process: "subprocess.Popen[bytes]", folder: Path, progress: Progress) -> None:
    shown = position = 0
    while process.poll() is None:
        time.sleep(POLL_SECONDS)
        rows, position = new_metrics(folder / "metrics.jsonl", position)
        for row in (row for row in rows if "loss" in row and row["step"] > shown):
            progress.advance(row["step"] - shown, loss=row["loss"], tokens_per_second=round(row["tokens_per_second"]))
            shown = row["step"]


def _error(folder: Path, status: int, log: Path) -> HeadraceError:
    if reported := error_report.find(folder):
        return reported
    remedy = f"see {log}; run again to go on from the newest checkpoint"
    return RetryableError("weights", f"a rank ended early (status {status})", remedy)

"""One attempt at a data job inside its SLURM job: it goes back into the queue before its time ends, if that helps.

    array.sbatch, data.sbatch ── exec ──> this process ──> worker
    SLURM ── USR2, a minute before the time limit ──> this process ── a task was done ──> scontrol requeue

python -m headrace.pipeline.run.data_job RUN_JSON STAGE PHASE INDEX WIDTH -- [ARGUMENT ...]
python -m headrace.pipeline.run.data_job RUN_JSON FIRST..LAST WORKERS -- [ARGUMENT ...]
    Runs worker.py with the same arguments. ARGUMENTs start it: srun, a launcher, the Python in a container.

Tasks that are under way start again; an attempt in which none was done ends at its time limit, and does not come back.
"""

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from headrace.pipeline.clusters.base import WORKER
from headrace.pipeline.clusters.recovery import Decision
from headrace.pipeline.clusters.slurm_job import conclude, submit_rest
from headrace.pipeline.core.errors import HeadraceError
from headrace.pipeline.run.saved_run import SavedRun

POLL_SECONDS = 1.0


def left(run_json: Path, work: Sequence[str]) -> int:
    """Returns the number of tasks of ``work``, the arguments of the worker, that are not done; 0 when that is unknown:
    the worker says why."""
    with contextlib.suppress(HeadraceError, OSError):
        return _left(run_json, work)
    return 0


def _left(run_json: Path, work: Sequence[str]) -> int:
    first, _, last = work[0].partition("..")
    stages = SavedRun.read(run_json).steps
    names = [stage.name for stage in stages]
    chosen = stages[names.index(first) : names.index(last or first) + 1]
    if last:
        return sum(len(stage.missing(phase)) for stage in chosen if not stage.is_whole for phase in stage.phases)
    phase_name, index, width = work[1], int(work[2]), int(work[3])
    (stage,), phase = chosen, next(phase for phase in chosen[0].phases if phase.name == phase_name)
    return 0 if stage.is_whole else sum(task % width == index for task in stage.missing(phase))


def main(arguments: Sequence[str]) -> int:
    """Runs one attempt and returns its exit status."""
    at = arguments.index("--")
    run_json, *work = arguments[:at]
    time_is_short: list[int] = []
    signal.signal(signal.SIGUSR2, lambda *_: time_is_short.append(1))
    before = left(Path(run_json), work)
    worker = subprocess.Popen([*(arguments[at + 1 :] or [sys.executable]), "-m", WORKER, run_json, *work])
    signal.signal(signal.SIGTERM, lambda *_: worker.send_signal(signal.SIGTERM))
    while True:
        try:
            status = worker.wait(POLL_SECONDS)
            break
        except subprocess.TimeoutExpired:
            if time_is_short and 0 < (now := left(Path(run_json), work)) < before:
                _requeue(f"{work[0]}: {before - now} of {before} tasks were done, and the time ends")
                time_is_short.clear()
    if status == 0 and not left(Path(run_json), [*work[:2], "0", "1"] if len(work) > 2 else work):
        submit_rest(Path(run_json))
    return status if status >= 0 else 128 - status


def _requeue(reached: str) -> None:
    try:
        conclude(os.environ["SLURM_JOB_ID"], Decision(True, f"{reached}: back into the queue"), (), lambda: None)
    except (HeadraceError, OSError) as error:  # the worker goes on until the time ends
        print(f"headrace: {error}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

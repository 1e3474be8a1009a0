"""Starts the ranks of a distributed stage on this machine, and shows their progress.

    launch ──> rank.py forked ──> rank 0, rank 1, ...    logs/stage.json    metrics.jsonl (weights)
       │                            │                                       logs/progress.jsonl
       └────────── SIGUSR1 ─────────┘

A single rank is a child of the command itself.

stdout and stderr of the ranks go to logs/ranks.log. The launcher reads their progress from a file that the stage names,
and from which step they go on from logs/starts.jsonl.

A request to stop (core/signals.py) becomes SIGUSR1 to the ranks: they finish the current step, save and end. Before the
first step the signal ends them at once, and a second signal always does. Their parent gets no signal.
"""

import contextlib
import os
import signal
import subprocess
import sys
from pathlib import Path

from headrace.pipeline.core import work_log
from headrace.pipeline.core.artifact import part_path
from headrace.pipeline.core.artifact_files import make
from headrace.pipeline.core.environment import CORES, MAIN_PID, PASSIVE_THREADS, own_packages, without_process
from headrace.pipeline.core.errors import HeadraceError, RetryableError
from headrace.pipeline.core.metrics_file import appearing_rows
from headrace.pipeline.core.progress import TRAIL
from headrace.pipeline.core.signals import Stop
from headrace.pipeline.core.stage import Stage
from headrace.pipeline.core.system_errors import moved

POLL_SECONDS = 0.5
RANK = "headrace.pipeline.run.rank"
"""The module of a single rank, and of the parent of several ranks."""

SINGLE_RANK = {"RANK": "0", "WORLD_SIZE": "1", "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "1"}
"""The variables of a single rank. Without them a rank inside a SLURM allocation would take SLURM's numbers."""

ONE_THREAD = {"OMP_NUM_THREADS": "1"}
"""The number of threads with which several ranks start, as torchrun sets it. On CPUs they then take their share."""


def launch(stage: Stage, folder: Path, stage_json: Path, ranks: int, threads: int | None = None) -> None:
    """Runs the distributed ``stage`` in ``folder`` with ``ranks`` processes, which read it from ``stage_json``.

    On CPUs each computes in ``threads`` threads; None: in as many as its share of the cores.

    Raises:
        HeadraceError: the error that a rank reported.
        RetryableError: when a rank was killed.
        Stop: when this process was asked to stop, after the ranks have saved.
    """
    log = folder / "logs" / "ranks.log"
    make(log.parent)
    work_log.clear_error(folder)
    (folder / TRAIL).unlink(missing_ok=True)
    files = {folder / work_log.STARTS: work_log.starts_bytes(folder), folder / stage.progress_file: 0}
    environment = PASSIVE_THREADS | without_process(os.environ) | own_packages() | {MAIN_PID: str(os.getpid())}
    if ranks == 1:
        command = [RANK, "single", str(stage_json)]
        environment |= SINGLE_RANK
    else:
        command = [RANK, "forked", str(stage_json), str(ranks)]
        environment = ONE_THREAD | environment
    if threads is not None:
        environment |= {CORES: str(threads)}
    with log.open("ab") as output:
        process = subprocess.Popen(
            [sys.executable, "-u", "-m", *command],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            env=environment,
            start_new_session=True,
        )
        try:
            stage.show_progress(appearing_rows(files, lambda: process.poll() is not None, POLL_SECONDS))
        except Stop as stop:
            _ask_to_stop(process, stage, ranks)
            raise _stopped(stop, folder) from None
        finally:
            _end(process, ranks)
    (phase,) = stage.phases({})
    if not part_path(folder, phase.name, 0).is_file():
        raise _error(stage, folder, process.returncode, log)


def _ask_to_stop(process: "subprocess.Popen[bytes]", stage: Stage, ranks: int) -> None:
    """Asks the ranks to save and end, and waits until they have ended."""
    running = _running(process, ranks)
    for rank in running:
        _send(rank, signal.SIGUSR1)
    if not running:
        process.terminate()
    with contextlib.suppress(BrokenPipeError):  # the signal ended the reader of the output, too
        print(f"{stage.name}: saving and stopping (a second signal ends it at once)", file=sys.stderr, flush=True)
    process.wait()


def _stopped(stop: Stop, folder: Path) -> BaseException:
    """Returns ``stop`` with the message of the ranks; their error instead, when they ended for another reason."""
    reported = moved(folder) or work_log.error_of(folder)
    if reported is None:
        return stop
    return Stop(stop.number, str(reported)) if isinstance(reported, RetryableError) else reported


def _end(process: "subprocess.Popen[bytes]", ranks: int) -> None:
    """Kills the ranks and their parent if they still run."""
    if process.poll() is None:
        for rank in _running(process, ranks):
            _send(rank, signal.SIGKILL)
        process.kill()
        process.wait()


def _running(process: "subprocess.Popen[bytes]", ranks: int) -> list[int]:
    """Returns the PIDs of the ranks: that of ``process``, or those of its children if it is the parent of several."""
    if ranks == 1:
        return [process.pid]
    try:
        return [int(child) for child in Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()]
    except FileNotFoundError:  # it has ended
        return []


def _send(process: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):  # it has ended
        os.kill(process, number)


def _error(stage: Stage, folder: Path, status: int, log: Path) -> HeadraceError:
    if reported := moved(folder) or work_log.error_of(folder):
        return reported
    return RetryableError(stage.name, f"a rank ended early (status {status})", f"see {log}; {stage.remedy}")

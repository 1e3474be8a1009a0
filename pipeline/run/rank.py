"""One rank of a distributed stage. The launcher starts it (local_ranks.py); on a cluster, job_rank.py runs it.

python -m headrace.pipeline.run.rank STAGE_JSON

It loads the modules of its own stage only: those of the data stages would take as long as its own.
"""

import contextlib
import os
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from headrace.pipeline.clusters.base import adopt_rank
from headrace.pipeline.core import work_log
from headrace.pipeline.core.artifact import Artifact, TaskOutput
from headrace.pipeline.core.artifact_files import held
from headrace.pipeline.core.claim import Owner
from headrace.pipeline.core.environment import MAIN_PID
from headrace.pipeline.core.errors import HeadraceError, TaskError
from headrace.pipeline.core.signals import exit_now
from headrace.pipeline.core.system_errors import system_errors_explained
from headrace.pipeline.run.planned_stage import PlannedStage, load_stage

MESSAGE_CHARACTERS = 500
"""The length to which the message of an unexpected error is cut."""
LOST_CONTACT = ("gloo", "NCCL", "TCPStore", "Connection closed by peer", "Connection reset by peer")
"""Texts in errors of torch.distributed when another rank has ended. Its error classes begin with ``Dist``."""


def exit_with(pid: int) -> None:
    """Ends this process when process ``pid`` has ended: a rank must not write for a launcher that was killed."""

    launcher = Owner.of(pid)

    def watch() -> None:
        while not launcher.is_dead:
            time.sleep(0.2)
        os._exit(1)

    threading.Thread(target=watch, name="exit-with", daemon=True).start()


def is_first() -> bool:
    """Whether this process is rank 0, once ``run_rank`` has taken its number from the cluster."""
    return int(os.environ.get("RANK", "0")) == 0


def run_rank(stage: PlannedStage, run: str = "") -> None:
    """Runs one rank of the distributed ``stage``. Rank 0 finishes the artifact. In a job it works for ``run``."""
    adopt_rank()
    phase = stage.phases[0]
    if not stage.missing(phase):
        return
    out = TaskOutput(stage.folder, phase.name, 0)
    if is_first():
        stage.stage.check_raw_files()
    is_recorded = is_first() and MAIN_PID not in os.environ  # a local command records its ranks itself
    with work_log.attempted(stage.folder, run) if is_recorded else contextlib.nullcontext():
        counts = phase.run(0, {name: Artifact(folder) for name, folder in stage.inputs.items()}, out)
    if is_first():
        stage.stage.check_raw_files()
        out.done(counts)
        stage.finish_if_complete()


def main(arguments: Sequence[str]) -> int:
    """Runs the rank of the stage that ``arguments`` name. Returns the exit status."""
    exit_with(int(os.environ[MAIN_PID]))
    (stage_json,) = arguments
    return reported(Path(stage_json), run_rank)


def reported(stage_json: Path, work: Callable[[PlannedStage], None]) -> int:
    """Does the ``work`` of a rank on the stage in ``stage_json``. Reports its error, and returns the exit status."""
    try:
        stage = load_stage(stage_json)
    except HeadraceError as error:
        return failed(error)
    with held(stage.folder):
        try:
            with system_errors_explained(stage.folder):
                stage.refuse_other_version()
                work(stage)
        except HeadraceError as error:
            work_log.write_error(stage.folder, error)
            return failed(error)
        except Exception as error:
            report_unexpected(stage, error)
            raise
    return 0


def failed(error: HeadraceError) -> int:
    """Prints ``error`` and returns its exit status."""
    print(f"headrace: {error}", file=sys.stderr, flush=True)
    return error.exit_status


def report_unexpected(stage: PlannedStage, error: Exception) -> None:
    """Writes the one-line report of an unexpected ``error``, unless it only says that another rank has ended.

    The traceback is in the log of this process.
    """
    if not is_lost_contact(error):
        problem = " ".join(f"{type(error).__name__}: {error}".split())[:MESSAGE_CHARACTERS]
        remedy = "see the traceback in the log of the ranks, or of the job"
        work_log.write_error(stage.folder, TaskError(stage.name, problem, remedy))


def is_lost_contact(error: Exception) -> bool:
    """Whether ``error`` is only a consequence of another rank's end. That rank reports the reason, or was killed."""
    return type(error).__name__.startswith("Dist") or any(text in str(error) for text in LOST_CONTACT)


if __name__ == "__main__":
    exit_now(main(sys.argv[1:]))

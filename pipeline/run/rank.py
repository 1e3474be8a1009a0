"""One rank of a distributed stage. The launcher of a command starts it (local_ranks.py), or a job of a cluster.

python -m headrace.pipeline.run.rank single STAGE_JSON
    The only rank of a command: the stage is what the launcher wrote for it.
python -m headrace.pipeline.run.rank forked STAGE_JSON RANKS
    Several ranks of a command: each is a fork of this process, which loads their modules once. They end with it. When
    one fails, the others are asked to end, and killed if they do not.
python -m headrace.pipeline.run.rank of_job RUN_JSON STAGE
    A rank in a job: the stage is what the submission wrote for it next to RUN_JSON.

It loads the modules of its own stage only: those of the data stages would take as long as its own. In a job, those of
all stages are loaded only if an input is not finished, and by rank 0 at the end, which has the stage recorded.
"""

import contextlib
import functools
import gc
import os
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path

from headrace.pipeline.clusters.base import adopt_job, adopt_rank
from headrace.pipeline.core import work_log
from headrace.pipeline.core.artifact import Artifact, TaskOutput, is_whole
from headrace.pipeline.core.artifact_files import held
from headrace.pipeline.core.claim import Owner
from headrace.pipeline.core.environment import MAIN_PID
from headrace.pipeline.core.errors import ConfigError, HeadraceError, TaskError
from headrace.pipeline.core.signals import exit_now
from headrace.pipeline.core.system_errors import system_errors_explained
from headrace.pipeline.run.planned_stage import PlannedStage, finish_inputs, load_stage
from headrace.pipeline.run.saved_run import stage_of_job

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


def run_in_job(stage: PlannedStage, run_json: Path) -> None:
    """Runs one rank of ``stage`` once its inputs are there. Rank 0 has the stage recorded."""
    if not all(map(is_whole, stage.inputs.values())):
        from headrace.pipeline.run.planner import load_stages

        finish_inputs([planned for planned in load_stages(run_json).values() if planned.name in stage.inputs])
    run_rank(stage, run_json.parent.name)
    if is_first():
        from headrace.pipeline.run.mirror import MirroredRun
        from headrace.pipeline.tracking.tracker import Recorder

        with Recorder(run_json) as recorder:
            recorder.record(stage.name, stage.folder)
            MirroredRun(run_json).publish(stage)


def single(stage_json: str) -> int:
    """Is a rank of the command that wrote ``stage_json``. Returns the exit status."""
    exit_with(int(os.environ[MAIN_PID]))
    return _with_stage(Path(stage_json), run_rank)


def forked(stage_json: str, ranks: str) -> int:
    """Starts ``ranks`` ranks, and is one of them in each fork. Returns the exit status."""
    from headrace.train.distributed import forks

    with contextlib.suppress(HeadraceError, OSError):  # each rank reports it
        load_stage(Path(stage_json))
    gc.freeze()
    children = forks.start(int(ranks))
    return forks.wait(children) if children else single(stage_json)


def of_job(run_json: str, stage: str) -> int:
    """Is a rank of ``stage`` in a job with ``run_json``. Returns the exit status."""
    adopt_job()
    stage_json = stage_of_job(Path(run_json), stage)
    if not stage_json.is_file():
        problem = "is not there: another version of headrace submitted this job"
        return failed(ConfigError(str(stage_json), problem, "run the command that submitted it again"))
    return _with_stage(stage_json, functools.partial(run_in_job, run_json=Path(run_json)))


def _with_stage(stage_json: Path, work: Callable[[PlannedStage], None]) -> int:
    """Does the ``work`` of a rank on the stage in ``stage_json``. Returns the exit status."""

    def checked() -> None:
        stage.refuse_other_version()
        work(stage)

    try:
        stage = load_stage(stage_json)
    except HeadraceError as error:
        return failed(error)
    return reported(stage, checked)


def reported(stage: PlannedStage, work: Callable[[], None], noticed: AbstractContextManager[None] | None = None) -> int:
    """Does ``work`` on ``stage`` in this process of a command or a job. Returns its exit status.

    An error passes through ``noticed``, is printed, and written for those who wait for the stage.
    """
    with held(stage.folder):
        try:
            with noticed or contextlib.nullcontext(), system_errors_explained(stage.folder):
                work()
        except HeadraceError as error:
            work_log.write_error(stage.folder, error)
            return failed(error)
        except Exception as error:
            _report_unexpected(stage, error)
            raise
    return 0


def failed(error: HeadraceError) -> int:
    """Prints ``error`` and returns its exit status."""
    print(f"headrace: {error}", file=sys.stderr, flush=True)
    return error.exit_status


def _report_unexpected(stage: PlannedStage, error: Exception) -> None:
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


def main(arguments: Sequence[str]) -> int:
    """Does what ``arguments`` ask for. Returns the exit status."""
    ways: dict[str, Callable[..., int]] = {"single": single, "forked": forked, "of_job": of_job}
    return ways[arguments[0]](*arguments[1:])


if __name__ == "__main__":
    exit_now(main(sys.argv[1:]))

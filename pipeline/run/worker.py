"""The process that a job starts. It does not use Hydra.

python -m headrace.pipeline.run.worker RUN_JSON STAGE PHASE TASK [WIDTH]
    Runs TASK, or TASK, TASK + WIDTH, ... (the index in a job array).
python -m headrace.pipeline.run.worker RUN_JSON FIRST..LAST WORKERS
    Runs the data stages FIRST to LAST with a pool of WORKERS processes.
"""

import os
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from headrace.pipeline.clusters.base import adopt_job
from headrace.pipeline.core import work_log
from headrace.pipeline.core.artifact_files import held
from headrace.pipeline.core.environment import JOB
from headrace.pipeline.core.errors import HeadraceError
from headrace.pipeline.core.progress import phase_text
from headrace.pipeline.core.signals import exit_now
from headrace.pipeline.core.system_errors import system_errors_explained
from headrace.pipeline.report.report import Report
from headrace.pipeline.run.mirrored_run import MirroredRun
from headrace.pipeline.run.planned_stage import PlannedStage
from headrace.pipeline.run.planner import load_stages
from headrace.pipeline.run.rank import failed, report_unexpected
from headrace.pipeline.run.workers import Workers
from headrace.pipeline.tracking.notices import failure_noticed, noticed, send
from headrace.pipeline.tracking.tracker import Recorder

SETTLING_SECONDS = 60
"""The longest time after which a node sees a file of another node. NFS caches folders for 60 s (acdirmax)."""


def run_tasks(stage: PlannedStage, run: str, phase_name: str, first: int, width: int | None) -> None:
    """Runs ``first`` and every ``width``-th task after it that is not done. Finishes the artifact if it is complete.

    The work is for the run with the id ``run``.
    """
    number, phase = next(
        (number, candidate) for number, candidate in enumerate(stage.phases, 1) if candidate.name == phase_name
    )
    executor = stage.executor(phase)
    tasks = [first] if width is None else range(first, phase.tasks, width)
    with work_log.attempted(stage.folder, run, processes=1):
        for done, task in enumerate(tasks, 1):
            executor.run_task_when_free(task)
            at = phase_text(number, len(stage.phases), phase_name, done, len(tasks))
            print(f"{stage.name}: {at} of this job, task {task} is done", flush=True)
        stage.finish_if_complete()


def finish_inputs(inputs: Sequence[PlannedStage]) -> None:
    """Finishes ``inputs`` whose last task was killed before that. A job waits until the file system shows them.

    Raises:
        ConfigError: when another version of headrace planned one.
    """
    for stage in inputs:
        stage.refuse_other_version()
    patience_seconds = SETTLING_SECONDS if JOB in os.environ else 0
    deadline = time.monotonic() + patience_seconds
    for stage in inputs:
        stage.finish_if_complete()
        while not stage.is_whole and time.monotonic() < deadline:
            time.sleep(1)
            stage.finish_if_complete()


def main(arguments: Sequence[str]) -> int:
    """Runs the tasks or the stages that ``arguments`` name. Returns the exit status."""
    run_json, names_of_stages, *task = arguments
    first, _, last = names_of_stages.partition("..")
    try:
        stages = load_stages(Path(run_json))
    except HeadraceError as error:
        return failed(error)
    names = list(stages)
    mirrored = MirroredRun(Path(run_json))
    with noticed(Path(run_json)), Recorder(Path(run_json)) as recorder:
        for stage in [stages[name] for name in names[names.index(first) : names.index(last or first) + 1]]:
            with held(stage.folder):
                try:
                    with failure_noticed(stage.name), system_errors_explained(stage.folder):
                        run_stage(stage, stages, Path(run_json).parent.name, task, is_whole_stage=bool(last))
                except HeadraceError as error:
                    work_log.write_error(stage.folder, error)
                    return failed(error)
                except Exception as error:
                    report_unexpected(stage, error)
                    raise
            record(recorder, mirrored, stage, stages)
            notify_of(stage)
    return 0


def record(recorder: Recorder, mirrored: MirroredRun, stage: PlannedStage, stages: Mapping[str, PlannedStage]) -> None:
    """Has ``stage`` recorded in wandb and published; after the report, also earlier ones whose jobs could not do so."""
    for recorded in stages.values() if stage.name == Report.name else [stage]:
        recorder.record(recorded.name, recorded.folder)
        mirrored.publish(recorded)


def notify_of(stage: PlannedStage) -> None:
    """Notifies of the end of the run when ``stage`` is its report; after another one, that a later job is held."""
    if stage.name == Report.name and stage.is_whole:
        send("ended", stage.name, "all stages are done")
    elif stage.is_whole:
        send("waits", stage.name, "", asks_queue=True)


def run_stage(
    stage: PlannedStage, stages: Mapping[str, PlannedStage], run: str, task: Sequence[str], is_whole_stage: bool
) -> None:
    """Runs the work of ``stage`` that the arguments ``task`` name, for the run with the id ``run``.

    They are the phase, the index and the width; for a whole stage the number of workers.
    """
    stage.refuse_other_version()
    finish_inputs([stages[name] for name in stage.inputs if name in stages])
    stage.refuse_empty_inputs()
    if is_whole_stage:
        if not stage.is_whole:
            with work_log.attempted(stage.folder, run, processes=int(task[0])):
                with Workers(int(task[0])) as workers:
                    stage.run_tasks(workers)
                stage.finish()
    else:
        run_tasks(stage, run, task[0], int(task[1]), int(task[2]) if len(task) > 2 else None)


if __name__ == "__main__":
    adopt_job()
    exit_now(main(sys.argv[1:]))

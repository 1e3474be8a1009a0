"""The process that a job starts. It does not use Hydra.

python -m headrace.pipeline.run.worker RUN_JSON STAGE PHASE TASK [WIDTH]
    Runs TASK, or TASK, TASK + WIDTH, ... (the index in a job array).
python -m headrace.pipeline.run.worker RUN_JSON FIRST..LAST WORKERS
    Runs the data stages FIRST to LAST with a pool of WORKERS processes.
"""

import sys
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

from headrace.pipeline.clusters.base import adopt_job
from headrace.pipeline.core import work_log
from headrace.pipeline.core.errors import HeadraceError
from headrace.pipeline.core.progress import phase_text
from headrace.pipeline.core.signals import exit_now
from headrace.pipeline.report.report import Report
from headrace.pipeline.run.mirror import MirroredRun
from headrace.pipeline.run.planned_stage import PlannedStage, finish_inputs
from headrace.pipeline.run.planner import load_stages
from headrace.pipeline.run.rank import failed, reported
from headrace.pipeline.run.workers import Workers
from headrace.pipeline.tracking.notices import failure_noticed, noticed, send
from headrace.pipeline.tracking.tracker import Recorder


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
            work = partial(run_stage, stage, stages, Path(run_json).parent.name, task, is_whole_stage=bool(last))
            if status := reported(stage, work, failure_noticed(stage.name)):
                return status
            record(recorder, mirrored, stage, stages)
            notify_of(stage)
    return 0


def record(recorder: Recorder, mirrored: MirroredRun, stage: PlannedStage, stages: Mapping[str, PlannedStage]) -> None:
    """Has ``stage`` recorded in wandb and published; after the report, also earlier ones whose jobs could not do so."""
    for recorded in stages.values() if stage.name == Report.name else [stage]:
        recorder.record(recorded.name, recorded.folder)
        mirrored.publish(recorded)


def notify_of(stage: PlannedStage) -> None:
    """Notifies of the end of the run when ``stage`` is its report."""
    if stage.name == Report.name and stage.is_whole:
        send("ended", stage.name, "all stages are done")


def run_stage(
    stage: PlannedStage, stages: Mapping[str, PlannedStage], run: str, task: Sequence[str], is_whole_stage: bool
) -> None:
    """Runs the work of ``stage`` that the arguments ``task`` name, for the run with the id ``run``.

    They are the phase, the index and the width; for a whole stage the number of workers.
    """
    stage.refuse_other_version()
    finish_inputs([stages[name] for name in stage.inputs if name in stages])
    stage.refuse_empty_inputs()
    if not is_whole_stage:
        run_tasks(stage, run, task[0], int(task[1]), int(task[2]) if len(task) > 2 else None)
    elif not stage.is_whole:
        with work_log.attempted(stage.folder, run, processes=int(task[0])):
            with Workers(int(task[0])) as workers:
                stage.run_tasks(workers)
            stage.finish()


if __name__ == "__main__":
    adopt_job()
    exit_now(main(sys.argv[1:]))

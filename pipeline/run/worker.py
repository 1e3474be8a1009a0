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

from headrace.pipeline.clusters import CLUSTERS
from headrace.pipeline.clusters.base import adopt_job
from headrace.pipeline.core import attempts, error_report
from headrace.pipeline.core.errors import HeadraceError
from headrace.pipeline.core.exits import exit_now
from headrace.pipeline.core.progress import phase_text
from headrace.pipeline.core.system_errors import system_errors_explained
from headrace.pipeline.core.variables import JOB
from headrace.pipeline.report.report import Report
from headrace.pipeline.run.planned_stage import PlannedStage
from headrace.pipeline.run.planner import load_stages
from headrace.pipeline.run.rank import failed, report_unexpected
from headrace.pipeline.run.recorder import Recorder
from headrace.pipeline.run.workers import Workers

SETTLING_SECONDS = 60
"""The longest time after which a node sees a file of another node. NFS caches folders for 60 s (acdirmax)."""


def run_tasks(step: PlannedStage, phase_name: str, first: int, width: int | None) -> None:
    """Runs ``first`` and every ``width``-th task after it that is not done. Finishes the artifact if it is complete."""
    number, phase = next(
        (number, candidate) for number, candidate in enumerate(step.phases, 1) if candidate.name == phase_name
    )
    executor = step.executor(phase)
    tasks = [first] if width is None else range(first, phase.tasks, width)
    with attempts.recorded(step.folder):
        for done, task in enumerate(tasks, 1):
            executor.run_task_when_free(task)
            at = phase_text(number, len(step.phases), phase_name, done, len(tasks))
            print(f"{step.name}: {at} of this job, task {task} is done", flush=True)
        step.finish_if_complete()


def finish_inputs(inputs: Sequence[PlannedStage]) -> None:
    """Finishes ``inputs`` whose last task was killed before that. A job waits until the file system shows them.

    Raises:
        ConfigError: when another version of headrace planned one.
    """
    for step in inputs:
        step.refuse_other_version()
    patience_seconds = SETTLING_SECONDS if JOB in os.environ else 0
    deadline = time.monotonic() + patience_seconds
    for step in inputs:
        step.finish_if_complete()
        while not step.is_whole and time.monotonic() < deadline:
            time.sleep(1)
            step.finish_if_complete()


def main(arguments: Sequence[str]) -> int:
    """Runs the tasks or the stages that ``arguments`` name. Returns the exit status."""
    run_json, stages, *task = arguments
    first, _, last = stages.partition("..")
    try:
        steps = load_stages(Path(run_json))
    except HeadraceError as error:
        return failed(error)
    names = list(steps)
    with Recorder(Path(run_json)) as recorder:
        for step in [steps[name] for name in names[names.index(first) : names.index(last or first) + 1]]:
            try:
                with system_errors_explained(step.folder):
                    run_stage(step, steps, task, is_whole_stage=bool(last))
            except HeadraceError as error:
                error_report.write(step.folder, error)
                return failed(error)
            except Exception as error:
                report_unexpected(step, error)
                raise
            record(recorder, step, steps)
    return 0


def record(recorder: Recorder, step: PlannedStage, steps: Mapping[str, PlannedStage]) -> None:
    """Has ``step`` recorded in wandb; after the report, also earlier stages whose jobs could not do so."""
    for recorded in steps.values() if step.name == Report.name else [step]:
        recorder.record(recorded)


def run_stage(step: PlannedStage, steps: Mapping[str, PlannedStage], task: Sequence[str], is_whole_stage: bool) -> None:
    """Runs the work of ``step`` that the arguments ``task`` name.

    They are the phase, the index and the width; for a whole stage the number of workers.
    """
    step.refuse_other_version()
    finish_inputs([steps[name] for name in step.inputs if name in steps])
    step.refuse_empty_inputs()
    if is_whole_stage:
        if not step.is_whole:
            with attempts.recorded(step.folder):
                with Workers(int(task[0])) as workers:
                    step.run_tasks(workers)
                step.finish()
    else:
        run_tasks(step, task[0], int(task[1]), int(task[2]) if len(task) > 2 else None)


if __name__ == "__main__":
    adopt_job(CLUSTERS.values())
    exit_now(main(sys.argv[1:]))

"""What a job runs: one task of a phase, or one rank of a training. Reads run.json; knows nothing of Hydra.

    python -m pipeline.worker RUN_JSON STAGE PHASE TASK     one task (an index of a SLURM array)
    python -m pipeline.worker RUN_JSON STAGE                one rank of a distributed stage (torchrun, srun)
"""

import os
import sys
from pathlib import Path

from pipeline.core.artifact import Artifact, TaskOutput, write_json
from pipeline.core.errors import HeadraceError
from pipeline.executor import MAIN_PID, follow
from pipeline.launch import RANK_ERROR
from pipeline.runner import Step, load


def run_task(step: Step, phase_name: str, task: int) -> None:
    """Run one task of a data stage, unless it was done before; finish the artifact if it was the last."""
    phase = next(phase for phase in step.phases if phase.name == phase_name)
    if task in step.missing(phase):
        step.executor(phase, workers=1).run_task(task)
    step.finish_if_complete()


def run_rank(step: Step) -> None:
    """Enter the distributed stage of ``step`` as one of its ranks; rank 0 finishes the artifact."""
    phase = step.phases[0]
    if not step.missing(phase):
        return
    out = TaskOutput(step.folder, phase.name, 0)
    counts = phase.run(0, {name: Artifact(folder) for name, folder in step.inputs.items()}, out)
    if int(os.environ.get("RANK", os.environ.get("SLURM_PROCID", "0"))) == 0:
        out.done(counts)
        step.finish_if_complete()


def main(arguments: list[str]) -> int:
    """Do what ``arguments`` say; the exit status."""
    if MAIN_PID in os.environ:
        follow(int(os.environ[MAIN_PID]))
    run_json, stage_name, *task = arguments
    steps = {step.name: step for step in load(Path(run_json))[1]}
    step = steps[stage_name]
    try:
        for name in step.inputs:
            steps[name].finish_if_complete()
        if task:
            run_task(step, task[0], int(task[1]))
        else:
            run_rank(step)
    except HeadraceError as error:
        print(f"headrace: {error}", file=sys.stderr, flush=True)
        report = {"kind": type(error).__name__, "where": error.where, "wrong": error.wrong, "remedy": error.remedy}
        write_json(step.folder / RANK_ERROR, report)
        return error.exit_status
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

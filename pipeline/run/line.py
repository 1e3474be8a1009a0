"""From a planned run to its end: here, stage by stage, or as jobs on a SLURM cluster."""

import sys

from headrace.pipeline.clusters.settings import Slurm
from headrace.pipeline.config import check_training
from headrace.pipeline.core.errors import HeadraceError
from headrace.pipeline.run import submission, summary
from headrace.pipeline.run.planner import Run, execute, save


def carry_out(run: Run) -> None:
    """Do what is left to do of ``run``, or submit it, and say what it came to.

    Raises:
        ConfigError: also when the training at its end could not begin; better known now than after the data stages.
        HeadraceError: when something is left to do, and nothing can be written below the root.
    """
    if any(step.name == "weights" and not step.is_whole for step in run.steps):
        check_training(run.config)
    try:
        run_json = save(run.config, run.values, run.steps, run.overrides)
    except HeadraceError as error:
        if not all(step.is_whole for step in run.steps):
            raise
        print(f"{error.where}: {error.wrong}: run.json stays as it is, everything was done before", file=sys.stderr)
        summary.show(run.steps)
        return
    if any(step.name == "signatures" and not step.is_whole for step in run.steps):
        print(f"{'dedup':<11} {run.config.dedup.expected_cost}", file=sys.stderr)
    if isinstance(run.config.cluster, Slurm):
        submission.submit(run.steps, run.config.cluster, run_json)
        return
    for step in run.steps:
        if step.is_whole:
            print(f"{step.name:<11} done before: {step.folder}", file=sys.stderr)
        else:
            execute(step, run.config, run_json)
    summary.show(run.steps)

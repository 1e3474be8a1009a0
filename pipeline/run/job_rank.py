"""One rank of a distributed stage in the job of a cluster. It reads what the submission wrote for its stage.

python -m headrace.pipeline.run.job_rank RUN_JSON STAGE

As rank.py, it loads the modules of its own stage. Those of all stages, a second of CPU time in each rank, are loaded
only if an input is not finished, and by rank 0 at the end, which has the stage recorded.
"""

import functools
import sys
from collections.abc import Sequence
from pathlib import Path

from headrace.pipeline.clusters.base import adopt_job
from headrace.pipeline.core.artifact import is_whole
from headrace.pipeline.core.errors import ConfigError
from headrace.pipeline.core.signals import exit_now
from headrace.pipeline.run.planned_stage import PlannedStage
from headrace.pipeline.run.rank import failed, is_first, reported, run_rank
from headrace.pipeline.run.saved_runs import stage_of_job


def run_in_job(run_json: Path, planned: PlannedStage) -> None:
    """Runs one rank of ``planned`` once its inputs are there. Rank 0 has the stage recorded."""
    if not all(map(is_whole, planned.inputs.values())):
        from headrace.pipeline.run.planner import load_stages
        from headrace.pipeline.run.worker import finish_inputs

        finish_inputs([stage for stage in load_stages(run_json).values() if stage.name in planned.inputs])
    run_rank(planned, run_json.parent.name)
    if is_first():
        from headrace.pipeline.run.mirrored_run import MirroredRun
        from headrace.pipeline.tracking.tracker import Recorder

        with Recorder(run_json) as recorder:
            recorder.record(planned.name, planned.folder)
            MirroredRun(run_json).publish(planned)


def main(arguments: Sequence[str]) -> int:
    """Runs the rank of the stage that ``arguments`` name. Returns the exit status."""
    run_json, stage = Path(arguments[0]), arguments[1]
    stage_json = stage_of_job(run_json, stage)
    if not stage_json.is_file():
        problem = "is not there: another version of headrace submitted this job"
        return failed(ConfigError(str(stage_json), problem, "run the command that submitted it again"))
    return reported(stage_json, functools.partial(run_in_job, run_json))


if __name__ == "__main__":
    adopt_job()
    exit_now(main(sys.argv[1:]))

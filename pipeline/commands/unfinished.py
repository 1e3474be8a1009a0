"""The status of a run that is not finished: its tasks follow from its plan, its jobs from the cluster."""

from collections.abc import Mapping, Sequence

from headrace.pipeline.commands.request import run_of
from headrace.pipeline.commands.status import Row
from headrace.pipeline.core.progress import latest_line
from headrace.pipeline.run import jobs
from headrace.pipeline.run.planner import Step


def rows(overrides: Sequence[str]) -> tuple[list[Row], Mapping[str, str]]:
    """Returns one row per stage, and the state of each stage that has a job."""
    steps = run_of(overrides).steps
    states = jobs.states(steps)
    return [_row(step, states.get(step.name, "")) for step in steps], states


def _row(step: Step, job_state: str) -> Row:
    if step.is_whole:
        return Row.of_artifact(step.name, step.folder)
    tasks = sum(phase.tasks for phase in step.phases)
    done = tasks - sum(len(step.missing(phase)) for phase in step.phases)
    begun = "begun" if done or step.folder.is_dir() else "to do"
    return Row(step.name, (job_state or begun).split(",")[0], done, tasks, latest_line(step.folder), step.folder)

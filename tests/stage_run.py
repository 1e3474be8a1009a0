"""Runs one stage in this process, without the runner: every phase, every task, then the manifest."""

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

import pytest

from headrace.pipeline.core.artifact import Artifact, TaskOutput, finish
from headrace.pipeline.core.stage import Stage

RunStage = Callable[..., Artifact]


@pytest.fixture(scope="session")
def run_stage() -> RunStage:
    """``run_stage(stage, {input name: Artifact}, folder)`` → the finished artifact in ``folder``.

    ``backwards=True`` runs the tasks of each phase in descending order; ``twice=True`` runs each task two times.
    """

    def run(
        stage: Stage, inputs: Mapping[str, Artifact], folder: Path, backwards: bool = False, twice: bool = False
    ) -> Artifact:
        phases = stage.phases({name: artifact.shard_count for name, artifact in inputs.items()})
        for phase in phases:
            for task in sorted(list(range(phase.tasks)) * (1 + twice), reverse=backwards):
                out = TaskOutput(folder, phase.name, task)
                out.done(phase.run(task, inputs, out))
        addresses = {name: artifact.folder.name for name, artifact in inputs.items()}
        tasks = {phase.name: phase.tasks for phase in phases}
        return finish(folder, stage.description(addresses), tasks, partial(stage.balances, inputs=inputs))

    return run

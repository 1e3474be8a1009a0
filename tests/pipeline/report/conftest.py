"""A small real run, from pages to scores, whose counts are those that the stages make today."""

from pathlib import Path

import pytest

from headrace.pipeline.core.artifact import Artifact
from headrace.pipeline.run.planner import Run
from tests.small_runs import build, training_of
from tests.stage_run import run_here

SETTINGS = ("until=report", "training.steps=4", "evaluation=demo", "evaluation.device=cpu", "evaluation.limit=4")


@pytest.fixture(scope="session")
def real_run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """The run of the corpus ``c4`` of small_runs.py, with all its artifacts and its page. Tests only read it."""
    run = training_of(build(tmp_path_factory.mktemp("real_run"), "c4"), *SETTINGS)
    for step in run.steps:
        if not (step.folder / "manifest.json").exists():
            run_here(step.stage, {name: Artifact(folder) for name, folder in step.inputs.items()}, step.folder)
    return run


@pytest.fixture(scope="session")
def real_artifacts(real_run: Run) -> dict[str, Artifact]:
    """The artifacts of ``real_run`` by stage."""
    return {step.name: Artifact(Path(step.folder)) for step in real_run.steps}

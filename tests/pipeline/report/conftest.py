"""A small real run, from pages to scores and its report, whose counts are those that the stages make today."""

import pytest

from headrace.pipeline.core.artifact import Artifact
from headrace.pipeline.run.planner import Run
from tests.small_runs import Corpus, build, training_of
from tests.stage_run import run_here

SETTINGS = (
    *("until=report", "training.steps=4", "training.validate_every=2", "evaluation=demo", "evaluation.device=cpu"),
    "evaluation.limit=4",
)


@pytest.fixture(scope="session")
def real_corpus(tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    """The corpus ``c4`` of small_runs.py with all its artifacts to the report. Tests only read it."""
    corpus = build(tmp_path_factory.mktemp("real_run"), "c4")
    run: Run = training_of(corpus, *SETTINGS)
    for step in run.stages:
        if not (step.folder / "manifest.json").exists():
            run_here(step.stage, {name: Artifact(folder) for name, folder in step.inputs.items()}, step.folder)
    return Corpus(run, corpus.folder)


@pytest.fixture(scope="session")
def real_artifacts(real_corpus: Corpus) -> dict[str, Artifact]:
    """The artifacts of ``real_corpus`` by stage."""
    return {step.name: Artifact(step.folder) for step in real_corpus.steps}

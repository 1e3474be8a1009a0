"""Runs stages in this process, without the runner: every phase, every task, then the manifest."""

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from headrace.data_prep.clean import Clean, Cleaning
from headrace.data_prep.sources import AnySource
from headrace.data_prep.texts import Texts
from headrace.pipeline.core.artifact import Artifact, TaskOutput, finish
from headrace.pipeline.core.stage import Stage

RunStage = Callable[..., Artifact]


def run_here(
    stage: Stage, inputs: Mapping[str, Artifact], folder: Path, backwards: bool = False, twice: bool = False
) -> Artifact:
    """Returns the finished artifact of ``stage`` in ``folder``.

    ``backwards=True`` runs the tasks of each phase in descending order; ``twice=True`` runs each task two times.
    """
    phases = stage.phases({name: artifact.shard_count for name, artifact in inputs.items()})
    for phase in phases:
        for task in sorted(list(range(phase.tasks)) * (1 + twice), reverse=backwards):
            out = TaskOutput(folder, phase.name, task)
            out.done(phase.run(task, inputs, out))
    addresses = {name: artifact.folder.name for name, artifact in inputs.items()}
    tasks = {phase.name: phase.tasks for phase in phases}
    return finish(folder, stage.description(addresses), tasks, partial(stage.balances, inputs=inputs))


def texts_and_clean(
    source: AnySource, cleaning: Cleaning, folder: Path, settings: Mapping[str, Any] | None = None, **order: bool
) -> tuple[Artifact, Artifact]:
    """Returns the artifacts of ``texts`` and ``clean`` below ``folder``; ``settings`` are further ones of ``clean``."""
    texts = run_here(Texts(source=source), {}, folder / "texts" / "t", **order)
    return texts, run_here(
        Clean(cleaning=cleaning, **settings or {}), {"texts": texts}, folder / "clean" / "c", **order
    )


@pytest.fixture(scope="session")
def run_stage() -> RunStage:
    """``run_stage(stage, {input name: Artifact}, folder)``, see ``run_here``."""
    return run_here


@pytest.fixture(scope="session")
def run_clean() -> RunStage:
    """``run_clean(source, cleaning, folder)`` → the finished artifact of ``clean``, see ``texts_and_clean``."""
    return lambda *arguments, **order: texts_and_clean(*arguments, **order)[1]

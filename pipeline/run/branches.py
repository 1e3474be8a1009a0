"""The checkpoint that ``training.branch_from`` means, the weights that ``distillation.teacher`` means, and what a
command prints and refuses before a training begins.

training.branch_from=small@600          the checkpoint of step 600 of the run ``small``
training.branch_from=small              the last step of its finished training
training.branch_from=0b5c1f2e3d4a@600   the same, by the address of its weights: run.json has this form
distillation.teacher=small              the exported weights of its finished training, as a folder in run.json

A run is named as for other commands (``run_files.named_file``), below the same root.
"""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from headrace.pipeline.core.artifact import is_whole
from headrace.pipeline.core.errors import ConfigError
from headrace.pipeline.run.planned_stage import PlannedStage
from headrace.pipeline.run.saved_run import SavedRun, named_file, saved_runs
from headrace.train.checkpoint.names import CHECKPOINTS, checkpoints, step_of
from headrace.train.distillation_config import TEACHER
from headrace.train.loop.branch import SETTING, branch_point
from headrace.train.training_config import BRANCH_POINT
from headrace.train.weights import Weights

ADDRESS = re.compile(r"[0-9a-f]{12}", re.ASCII)
RUN = re.compile(r"[\w.-]+", re.ASCII)
"""A name or id of a run: no path with folders."""


def with_address(values: Mapping[str, Any]) -> Mapping[str, Any]:
    """Returns the composed ``values`` with the address and the step of ``training.branch_from``, and the folder of a
    ``distillation.teacher`` that is a run.

    Raises:
        ConfigError: when there is no such run, or its training is not finished and no step is given.
    """
    values = _with_teacher(values)
    point = values["training"].get("branch_from")
    if not isinstance(point, str) or not BRANCH_POINT.fullmatch(point):  # decoding refuses the value
        return values
    name, _, step = point.partition("@")
    weights = _weights(str(values["root"]), name, SETTING)
    if not step:
        step = str(_last_step(weights, name))
    return {**values, "training": {**values["training"], "branch_from": f"{weights.name}@{step}"}}


def _with_teacher(values: Mapping[str, Any]) -> Mapping[str, Any]:
    settings = values.get("distillation", {})
    name = settings.get("teacher")
    if not isinstance(name, str) or not RUN.fullmatch(name) or Path(name).exists():
        return values
    weights = _weights(str(values["root"]), name, TEACHER)
    if not is_whole(weights):
        raise ConfigError(TEACHER, f"the training of {name!r} is not finished", "finish it, or name another run")
    return {**values, "distillation": {**settings, "teacher": str(weights / "hf")}}


def _weights(root: str, name: str, setting: str) -> Path:
    """Returns the folder of the weights that ``name``, the value of ``setting``, means: an address, or a run."""
    if ADDRESS.fullmatch(name) and (folder := Path(root, Weights.name, name)).is_dir():
        return folder
    try:
        run = SavedRun.read(named_file(root, name))
    except ConfigError as error:
        raise ConfigError(setting, error.problem, error.remedy) from None
    if run.root.resolve() != Path(root).resolve():
        problem = f"{name!r} is below the root {str(run.root)!r}, this run below {root!r}"
        raise ConfigError(setting, problem, f"give this run the same root: root={run.root}")
    folders = [stage.folder for stage in run.stages if stage.name == Weights.name]
    if not folders:
        raise ConfigError(setting, f"the run {name!r} trains no model", "name another run")
    return folders[0]


def _last_step(weights: Path, name: str) -> int:
    numbers = list(checkpoints(weights / CHECKPOINTS))
    if not is_whole(weights) or not numbers:
        there = f" (there are checkpoints of {', '.join(map(str, numbers))})" if numbers else ""
        raise ConfigError(SETTING, f"the training of {name!r} is not finished", f"give a step: {name}@STEP{there}")
    return numbers[-1]


def label_of(weights: Path) -> str:
    """Returns the name, else the id, of the run that trained ``weights`` last; the address when no run is known."""
    for run in saved_runs(weights.parents[1]):
        if any(stage.folder.name == weights.name and stage.name == Weights.name for stage in run.all_steps):
            return run.label
    return f"weights/{weights.name}"


def beginnings(stages: Sequence[PlannedStage]) -> list[str]:
    """Checks that unfinished weights of ``stages`` can go on from their branch point; returns a line for each.

    Raises:
        ConfigError: when there is no such checkpoint, or a setting does not fit it.
    """
    return [
        f"{stage.name}: goes on from step {step_of(point)} of {point.parents[1]}"
        for stage in stages
        if isinstance(stage.stage, Weights) and not stage.is_whole and not checkpoints(stage.folder / CHECKPOINTS)
        for point in [branch_point(stage.stage, stage.folder)]
        if point is not None
    ]

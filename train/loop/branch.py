"""The checkpoint of another training that a branch goes on from. This module imports no torch.

    steps        0 ─────────── 600 ─────────── 1000       weights/0b5c…   the trunk
    branch                      └──── 700                 training.branch_from=0b5c…@600, other settings from there on

The files of the checkpoint become a checkpoint of the branch (hard links). From then on it resumes like any other
training, and needs the trunk no more. Its metrics.jsonl begins with the rows of the trunk.
"""

import dataclasses
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from headrace.pipeline.core.errors import ArtifactError, ConfigError
from headrace.pipeline.core.metrics_file import copy_metrics
from headrace.pipeline.core.settings import decode, differing
from headrace.train.checkpoint import store
from headrace.train.checkpoint.names import CHECKPOINTS, checkpoint_name, checkpoints
from headrace.train.checkpoint.state import State, rollback_step
from headrace.train.config import ModelConfig
from headrace.train.families.initial_weights import PREDECESSOR, check_shape
from headrace.train.loop.pretraining import Pretraining
from headrace.train.training_config import TrainingConfig

SETTING = "training.branch_from"
METRICS = "metrics.jsonl"


def settings_of(description: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the part of the ``description`` of a stage that decides its result, as checkpoints hold it."""
    return {name: description[name] for name in ("version", "hashed", "inputs", "raw_files")}


def branch_point(stage: Pretraining, folder: Path) -> Path | None:
    """Returns the checkpoint that the training ``stage`` in ``folder`` branches from; None: it is no branch.

    Its files are not compared with their checksums.

    Raises:
        ConfigError: when ``training.branch_from`` names a checkpoint that the training cannot go on from.
        ArtifactError: when the manifest of that checkpoint is damaged.
    """
    point = stage.training.branch_from
    if point is None:
        return None
    weights, _, step = point.partition("@")
    if not step.isdecimal():
        raise ConfigError(SETTING, f"{point!r} names no step", "give a run and a step: RUN@STEP")
    trunk = folder.parent / weights
    saved = checkpoints(trunk / CHECKPOINTS)
    if not saved:
        remedy = "start its run again (headrace runs lists all), or restore the folder"
        raise ConfigError(SETTING, f"{trunk} {'has no checkpoint' if trunk.is_dir() else 'is not there'}", remedy)
    if int(step) not in saved:
        problem = f"{trunk} has no checkpoint of step {step}: there are checkpoints of {', '.join(map(str, saved))}"
        raise ConfigError(SETTING, problem, "branch from one of them (training.keep_every=N keeps more)")
    try:
        state = store.read_state(saved[int(step)])
    except ArtifactError as error:
        raise _of_trunk(error, trunk) from None
    _check_branch(stage, weights, state)
    return saved[state.step]


def _of_trunk(error: ArtifactError, trunk: Path) -> ArtifactError:
    """Returns the ``error`` of a checkpoint of the training in ``trunk`` with what to do in a branch."""
    steps = ", ".join(map(str, checkpoints(trunk / CHECKPOINTS)))
    return ArtifactError(error.where, error.problem, f"restore it, or branch from another step ({steps})")


def _check_branch(stage: Pretraining, weights: str, state: State) -> None:
    """Checks that ``stage`` can go on with the weights and the optimizer state of ``state``.

    Raises:
        ConfigError: naming the setting that does not fit.
    """
    training, trunk = stage.training, state.settings["hashed"]
    if training.steps <= state.step:
        problem = f"is {training.steps}, and the branch begins at step {state.step}"
        raise ConfigError(
            "training.steps", problem, "give more steps: they are counted from the beginning of the trunk"
        )
    kept_step = rollback_step(state.step, training.spike_rollback_every)
    if kept_step not in (0, state.step):
        problem = f"is {training.spike_rollback_every}, and the branch begins at step {state.step}, no multiple of it"
        raise ConfigError("training.spike_rollback_every", problem, "branch from a multiple of it, or give null")
    if trunk["optimizer"]["type"] != stage.optimizer.type:
        problem = f"is {stage.optimizer.type}, and weights/{weights} holds the state of {trunk['optimizer']['type']}"
        remedy = "give the same, or start from the exported weights alone: training.initial_weights"
        raise ConfigError("optimizer.type", problem, remedy)
    check_shape(SETTING, f"weights/{weights}", decode(ModelConfig, trunk["model"], SETTING), stage.model)


def adopt(
    path: Path,
    folder: Path,
    settings: Mapping[str, Any],
    training: TrainingConfig,
    data: Mapping[str, str],
    run_id: str,
) -> tuple[str, Path, State]:
    """Makes the checkpoint at ``path``, of the trunk, one of the training in ``folder``.

    Returns what this start does, its path there and its state. With it goes the checkpoint that a spike after it
    returns to.

    Args:
        path: the branch point.
        folder: the folder of the branch's artifact.
        settings: what its address hashes (``settings_of``).
        training: its settings that decide to which checkpoint a spike returns.
        data: what decides its order of rows (``parts_of_order``).
        run_id: its own id for the tracker.

    Raises:
        ConfigError: when the trunk has another tokenizer.
        ArtifactError: when the checkpoint is damaged.
    """
    trunk = path.parents[1]
    try:
        states = _verified(path, training.spike_rollback_every)
    except ArtifactError as error:
        raise _of_trunk(error, trunk) from None
    if states[-1].data["tokenizer"] != data["tokenizer"]:
        problem = f"{trunk} has the tokenizer {states[-1].settings['inputs']['tokenizer']}"
        ours = settings["inputs"]["tokenizer"]
        raise ConfigError(SETTING, f"{problem}, this run {ours}", "give the run that one: tokenizer=file")
    if (trunk / PREDECESSOR).is_dir():
        shutil.copytree(trunk / PREDECESSOR, folder / PREDECESSOR, dirs_exist_ok=True)
    copy_metrics(trunk / METRICS, folder / METRICS, states[-1].step)
    for state in states:
        adopted = _continued(state, trunk.name, settings, data, run_id)
        store.adopt(folder / CHECKPOINTS, path.with_name(checkpoint_name(state.step)), adopted)
    line = f"goes on from step {adopted.step} of {trunk} ({SETTING})"
    return line, folder / CHECKPOINTS / path.name, adopted


def _verified(path: Path, spike_rollback_every: int | None) -> list[State]:
    """Returns the states of the checkpoint that a spike returns to, if it is another one, and of that at ``path``."""
    state = store.verify(path)
    kept_step = rollback_step(state.step, spike_rollback_every)
    if kept_step in (0, state.step):
        return [state]
    return [store.verify(path.with_name(checkpoint_name(kept_step))), state]


def _continued(state: State, trunk: str, settings: Mapping[str, Any], data: Mapping[str, str], run_id: str) -> State:
    """Returns the ``state`` of the trunk as the first one of a training with these ``settings``."""
    beginning = {"weights": trunk, "step": state.step, "rows_seen": state.rows_seen, "is_branch": True}
    changed = {
        name: [theirs, ours]
        for name, theirs, ours in _differences(state.settings["hashed"], settings["hashed"])
        if name != SETTING
    }
    return dataclasses.replace(
        state,
        run_id=run_id,
        data=dict(data),
        settings=dict(settings),
        first_row=state.first_row if state.data == data else state.rows_seen,
        origins=[*state.origins, {**beginning, "changed": changed}],
    )


def _differences(theirs: Any, ours: Any, path: str = "") -> Iterator[tuple[str, Any, Any]]:
    """Yields dotted name and both values of each setting that differs; None: it has its default."""
    if isinstance(theirs, Mapping) and isinstance(ours, Mapping):
        for name in differing(theirs, ours):
            yield from _differences(theirs.get(name), ours.get(name), f"{path}.{name}".lstrip("."))
    else:
        yield path, theirs, ours

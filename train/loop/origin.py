"""The checkpoint of another training that a training goes on from. This module imports no torch.

    steps        0 ─────────── 600 ─────────── 1000       weights/0b5c…   the trunk
    branch                      └──── 700                 training.branch_from=0b5c…@600, other settings from there on
    extension                                  └──── 2000     the trunk's settings but for training.steps

A branch is asked for, and its point is a part of the address. An extension is found among the weights below the same
root: it only saves time, because the result is the same, bit for bit, as that of one long training. That holds up to
the last step whose learning rates do not depend on ``training.steps``. A shorter training goes on from a longer one,
too; end_row.py has what differs in their metrics.

The files of the checkpoint become a checkpoint of the new training (hard links). From then on it resumes like any
other, and needs the trunk no more. Its metrics.jsonl begins with the rows of the trunk.
"""

import dataclasses
import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from headrace.pipeline.core import work_log
from headrace.pipeline.core.errors import ArtifactError, ConfigError
from headrace.pipeline.core.metrics_file import copy_metrics
from headrace.pipeline.core.settings import decode, differing
from headrace.train.checkpoint import store
from headrace.train.checkpoint.names import CHECKPOINTS, checkpoint_name, checkpoints, step_of
from headrace.train.checkpoint.state import State, rollback_step
from headrace.train.config import ModelConfig
from headrace.train.families.initial_weights import PREDECESSOR, check_shape
from headrace.train.loop import end_row
from headrace.train.loop.pretraining import Pretraining
from headrace.train.loop.schedule import equal_steps
from headrace.train.training_config import TrainingConfig

SETTING = "training.branch_from"
METRICS = "metrics.jsonl"


@dataclasses.dataclass(frozen=True)
class Origin:
    """A checkpoint of another training."""

    path: Path
    is_branch: bool

    @property
    def folder(self) -> Path:
        """The folder of the other training."""
        return self.path.parents[1]

    @property
    def reason(self) -> str:
        """Why a training goes on from it, as text."""
        return SETTING if self.is_branch else "the same settings but for training.steps"


def settings_of(description: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the part of the ``description`` of a stage that decides its result, as checkpoints hold it."""
    return {name: description[name] for name in ("version", "hashed", "inputs", "raw_files")}


def candidates(stage: Pretraining, folder: Path, settings: Mapping[str, Any]) -> list[Origin]:
    """Returns the checkpoints that the training ``stage`` in ``folder`` may go on from, the best one first.

    Their files are not compared with their checksums.

    Raises:
        ConfigError: when ``training.branch_from`` names a checkpoint that the training cannot go on from.
    """
    if stage.training.branch_from is not None:
        return [_branch(stage, folder)]
    return _extensions(stage, folder, settings)


def _branch(stage: Pretraining, folder: Path) -> Origin:
    point = str(stage.training.branch_from)
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
    if not state.settings:
        problem = f"{saved[int(step)]} was written by an older version, without the settings of its training"
        raise ConfigError(SETTING, problem, "give a checkpoint that this version wrote")
    _check_branch(stage, weights, state)
    return Origin(saved[state.step], is_branch=True)


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


def _extensions(stage: Pretraining, folder: Path, settings: Mapping[str, Any]) -> list[Origin]:
    """Returns the checkpoints that one long training would have had, too, the last one first.

    That of the last step of ``stage`` is one of them only if the other training wrote all metrics of a last step.
    """
    training = stage.training
    stopped = [
        (step, path)
        for other, steps in trainings_but_for_steps(folder, settings)
        for step, path in checkpoints(other / CHECKPOINTS).items()
        if step <= equal_steps(stage.schedule, training.steps, steps)
        and (step < training.steps or end_row.has_end(other / METRICS, training))
    ]
    return [Origin(path, is_branch=False) for _, path in sorted(stopped, reverse=True)]


def trainings_but_for_steps(folder: Path, settings: Mapping[str, Any]) -> Iterator[tuple[Path, int]]:
    """Yields folder and ``training.steps`` of the trainings other than ``folder`` that have the same ``settings``
    but for that number."""
    for other in sorted(folder.parent.glob("*")):
        if other != folder and (saved := checkpoints(other / CHECKPOINTS)):
            theirs = next(filter(None, map(_settings_in, reversed(saved.values()))), {})
            if theirs and theirs != settings and _without_steps(theirs) == _without_steps(settings):
                yield other, theirs["hashed"]["training"]["steps"]


def _settings_in(path: Path) -> dict[str, Any]:
    """Returns the settings in the checkpoint at ``path``; empty when it is damaged, or was removed meanwhile."""
    try:
        return store.read_state(path).settings
    except ArtifactError:
        return {}


def _without_steps(settings: Mapping[str, Any]) -> dict[str, Any]:
    training = {name: value for name, value in settings["hashed"]["training"].items() if name != "steps"}
    return {**settings, "hashed": {**settings["hashed"], "training": training}}


def adopt(
    origins: Sequence[Origin],
    folder: Path,
    settings: Mapping[str, Any],
    training: TrainingConfig,
    data: Mapping[str, str],
    run_id: str,
) -> tuple[str, Path, State] | None:
    """Makes the first of ``origins`` that is whole a checkpoint of the training in ``folder``.

    Returns what this start does, its path and its state. With it goes the checkpoint that a spike after it returns to.

    Args:
        origins: what the training may go on from.
        folder: the folder of its artifact.
        settings: what its address hashes (``settings_of``).
        training: its settings that decide which metrics it writes, and when.
        data: what decides its order of rows (``parts_of_order``).
        run_id: its own id for the tracker.

    Raises:
        ConfigError: when the trunk of a branch has another tokenizer.
        ArtifactError: when the checkpoint of a branch is damaged.
    """
    for origin in origins:
        try:
            states = _verified(origin, training.spike_rollback_every)
        except ArtifactError as error:
            if origin.is_branch:
                raise _of_trunk(error, origin.folder) from None
            work_log.record_start(folder, f"weights: {error.where} {error.problem} (passed over)")
            continue  # damaged, or removed by the other training: the one before saves less time
        if states[-1].data["tokenizer"] != data["tokenizer"]:
            problem = f"{origin.folder} has the tokenizer {states[-1].settings['inputs']['tokenizer']}"
            ours = settings["inputs"]["tokenizer"]
            raise ConfigError(SETTING, f"{problem}, this run {ours}", "give the run that one: tokenizer=file")
        if (origin.folder / PREDECESSOR).is_dir():
            shutil.copytree(origin.folder / PREDECESSOR, folder / PREDECESSOR, dirs_exist_ok=True)
        copy_metrics(origin.folder / METRICS, folder / METRICS, states[-1].step)
        if not origin.is_branch and states[-1].step == states[-1].settings["hashed"]["training"]["steps"]:
            states[-1] = end_row.without_end(folder / METRICS, states[-1], training)
        for state in states:
            adopted = _continued(state, origin, settings, data, run_id)
            path = origin.path.with_name(checkpoint_name(state.step))
            store.adopt(folder / CHECKPOINTS, path, adopted)
        path = folder / CHECKPOINTS / origin.path.name
        return f"goes on from step {state.step} of {origin.folder} ({origin.reason})", path, adopted
    return None


def _verified(origin: Origin, spike_rollback_every: int | None) -> list[State]:
    """Returns the states of the checkpoint that a spike returns to, if it is another one, and of that of ``origin``."""
    state = store.verify(origin.path)
    kept_step = rollback_step(state.step, spike_rollback_every)
    if kept_step in (0, state.step):
        return [state]
    return [store.verify(origin.path.with_name(checkpoint_name(kept_step))), state]


def _continued(
    state: State, origin: Origin, settings: Mapping[str, Any], data: Mapping[str, str], run_id: str
) -> State:
    """Returns the ``state`` of the other training as the first one of a training with these ``settings``."""
    beginning = {"weights": origin.folder.name, "step": state.step, "rows_seen": state.rows_seen}
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
        origins=[*state.origins, {**beginning, "is_branch": origin.is_branch, "changed": changed}],
    )


def _differences(theirs: Any, ours: Any, path: str = "") -> Iterator[tuple[str, Any, Any]]:
    """Yields dotted name and both values of each setting that differs; None: it has its default."""
    if isinstance(theirs, Mapping) and isinstance(ours, Mapping):
        for name in differing(theirs, ours):
            yield from _differences(theirs.get(name), ours.get(name), f"{path}.{name}".lstrip("."))
    else:
        yield path, theirs, ours


def announcement(stage: Pretraining, folder: Path, settings: Mapping[str, Any]) -> Iterator[str]:
    """Yields from which checkpoint the training in ``folder`` will go on, and why not from later ones of trainings with
    the same settings but for ``training.steps``.

    Raises:
        ConfigError: as ``candidates`` does.
    """
    origins = candidates(stage, folder, settings)
    begins = step_of(origins[0].path) if origins else 0
    if origins:
        yield f"goes on from step {begins} of {origins[0].folder}"
    if stage.training.branch_from is None:
        for other, steps in trainings_but_for_steps(folder, settings):
            last = max(checkpoints(other / CHECKPOINTS))
            equal = equal_steps(stage.schedule, stage.training.steps, steps)
            if max(begins, equal) < last <= stage.training.steps:
                yield (
                    f"does not go on from step {last} of {other}, which has the same settings: with schedule.type="
                    f"{stage.schedule.type} the learning rate of step {equal + 1} and others depends on "
                    f"training.steps; to go on from it all the same: {SETTING}={other.name}@{last}"
                )

"""From a configuration to finished artifacts: addresses, what is left to do, and who does it.

    RunConfig ── plan ──> Step, Step, ...   (stage, address, folder, tasks; nothing has run yet)
    Step ── execute ──> Artifact            unless its manifest is there already

Resuming is running again: a step whose artifact is whole is passed over, one that is half done repeats what is missing.
"""

import dataclasses
import os
from collections.abc import Mapping, Sequence
from functools import cached_property, partial
from pathlib import Path
from typing import Any

from headrace.pipeline.clusters import CLUSTERS
from headrace.pipeline.clusters.base import adopt_job
from headrace.pipeline.config import RunConfig
from headrace.pipeline.core.artifact import Artifact, finish, missing_tasks, part_path, read_sealed, write_sealed
from headrace.pipeline.core.claim import claim_of, turn
from headrace.pipeline.core.errors import ConfigError, RetryableError, suggestion
from headrace.pipeline.core.settings import decode, digest
from headrace.pipeline.core.stage import Phase, Stage
from headrace.pipeline.core.system_errors import OWN_FOLDER, explained, system_errors_told
from headrace.pipeline.run.executor import PhaseStep, TaskExecutor
from headrace.pipeline.run.launch import launch
from headrace.pipeline.stages import stages
from headrace.train.scores import CheckpointScores, FolderScores

WITHOUT_RUN: Mapping[str, type[Stage]] = {stage.name: stage for stage in (FolderScores, CheckpointScores)}
"""The stages that are no part of the line."""
ROOT_USER = 0
"""Can read and write everything anyway."""


@dataclasses.dataclass(frozen=True)
class Step:
    """A stage of a run, with everything about it that is known before it runs."""

    stage: Stage
    address: str
    folder: Path
    inputs: Mapping[str, Path]
    shards: Mapping[str, int]
    description: Mapping[str, Any]

    @property
    def name(self) -> str:
        return self.stage.name

    @cached_property
    def phases(self) -> tuple[Phase, ...]:
        return self.stage.phases(self.shards)

    @property
    def is_whole(self) -> bool:
        return (self.folder / "manifest.json").is_file()

    def missing(self, phase: Phase) -> list[int]:
        return missing_tasks(self.folder, phase.name, phase.tasks)

    def executor(self, phase: Phase, workers: int) -> TaskExecutor:
        """What runs the tasks of ``phase``."""
        return TaskExecutor(
            PhaseStep(self.stage, self.shards, self.inputs, self.folder, phase.name), phase.tasks, workers
        )

    def finish(self) -> Artifact:
        """Write the manifest, once all parts are there, unless another process has."""
        with turn(self.folder / "logs" / "finish.claim", f"{self.name}.finish"):
            if self.is_whole:
                return Artifact(self.folder)
            inputs = {name: Artifact(folder) for name, folder in self.inputs.items()}
            phases = {phase.name: phase.tasks for phase in self.phases}
            return finish(self.folder, self.description, phases, partial(self.stage.balances, inputs=inputs))

    def finish_if_complete(self) -> None:
        """``finish`` unless it was done or a task is missing: for cluster jobs, where the last task to end finishes."""
        if not self.is_whole and not any(self.missing(phase) for phase in self.phases):
            self.finish()


@dataclasses.dataclass(frozen=True)
class Run:
    """A planned run: its configuration, typed and as plain values, its steps, and the overrides that ask for it."""

    config: RunConfig
    values: Mapping[str, Any]
    steps: Sequence[Step]
    overrides: Sequence[str]


def plan(config: RunConfig, descriptions: Mapping[str, Mapping[str, Any]] | None = None) -> list[Step]:
    """The steps of a run, in order, up to ``config.until``.

    Descriptions that were made before (``load``) are taken as they are: making them means reading every raw file. Those
    that are not among them are made.
    """
    addresses: dict[str, str] = {}
    folders: dict[str, Path] = {}
    shards: dict[str, int] = {}
    steps = []
    for stage in stages(config):
        description = (descriptions or {}).get(stage.name) or stage.description(addresses)
        address, stage = digest(description), stage.planned_as(description)
        folder = Path(config.root) / stage.name / address
        inputs = {name: folders[name] for name in stage.inputs}
        step = Step(stage, address, folder, inputs, {name: shards[name] for name in stage.inputs}, description)
        addresses[stage.name], folders[stage.name], shards[stage.name] = address, folder, step.phases[-1].tasks
        steps.append(step)
        if stage.name == config.until:
            return steps
    raise ConfigError("until", f"no stage is named {config.until!r}", suggestion(config.until, addresses))


def execute(step: Step, config: RunConfig, file: Path) -> Artifact:
    """Bring ``step``, which ``file`` describes to workers, to its end on this machine."""
    adopt_job(CLUSTERS.values())
    with system_errors_told(step.folder):
        step.folder.mkdir(parents=True, exist_ok=True)
        for phase in step.phases:
            if not step.missing(phase):
                continue
            if step.stage.distributed:
                with turn(claim_of(part_path(step.folder, phase.name, 0)), step.name):
                    if step.missing(phase):
                        launch(step.stage, step.folder, file, config.ranks)
            else:
                step.executor(phase, config.worker_processes).run()
        return step.finish()


def save(config: RunConfig, values: Mapping[str, Any], steps: Sequence[Step], overrides: Sequence[str] = ()) -> Path:
    """Write ``run.json``, from which workers rebuild the steps without composing or reading anything anew; its path.

    Raises:
        ConfigError: when nothing may be written below the root.
        RetryableError: when there is no room for it.
    """
    path = run_folder(config) / "run.json"
    descriptions = {step.name: step.description for step in steps}
    try:
        write_sealed(path, {"config": values, "descriptions": descriptions, "overrides": list(overrides)})
        path.chmod(0o644)  # what jobs do follows from it: nobody else writes there, whatever the umask
    except OSError as error:
        told = explained(error, path)
        if isinstance(told, RetryableError):
            raise told from error
        reason = told.wrong if told else error.strerror
        raise ConfigError("root", f"cannot write below {config.root!r} ({reason})", OWN_FOLDER) from None
    return path


def load(run_json: Path) -> tuple[RunConfig, list[Step]]:
    """The configuration and the steps that ``save`` wrote."""
    saved = read_sealed(run_json)
    config = decode(RunConfig, saved["config"], str(run_json))
    return config, plan(config, saved["descriptions"])


def save_step(step: Step) -> Path:
    """Write ``step.json`` for a step that belongs to no run; its path."""
    path = step.folder / "logs" / "step.json"
    values = {field.name: getattr(step, field.name) for field in dataclasses.fields(step)}
    values |= {"stage": step.name, "settings": dataclasses.asdict(step.stage), "folder": str(step.folder)}
    write_sealed(path, values | {"inputs": {name: str(folder) for name, folder in step.inputs.items()}})
    return path


def load_steps(file: Path) -> dict[str, Step]:
    """The steps that ``save`` or ``save_step`` wrote to ``file``, by the names of their stages.

    Raises:
        ConfigError: when another user wrote it.
    """
    if not is_own(file):
        raise ConfigError(str(file), "was written by another user", "run the command again, or use a root of your own")
    saved = read_sealed(file)
    if "stage" not in saved:
        return {step.name: step for step in load(file)[1]}
    stage = decode(WITHOUT_RUN[saved["stage"]], saved.pop("settings"), str(file))
    inputs = {name: Path(folder) for name, folder in saved["inputs"].items()}
    return {stage.name: Step(**saved | {"stage": stage, "folder": Path(saved["folder"]), "inputs": inputs})}


def newest(root: str) -> Run:
    """The run below ``root`` that this user started last: another's settings may name any file, or any Python class.

    Raises:
        ConfigError: when there is none.
    """
    found = [path for path in Path(root).glob("runs/*/run.json") if is_own(path)]
    saved = sorted(found, key=lambda path: path.stat().st_mtime_ns)
    if not saved:
        raise ConfigError("root", f"no run of yours was started below {root!r}", "give its root, or overrides")
    config, steps = load(saved[-1])
    values = read_sealed(saved[-1])
    return Run(config, values["config"], steps, values.get("overrides", []))


def is_own(path: Path) -> bool:
    """Whether ``path`` was written by this user, or by root."""
    return path.stat().st_uid in (os.geteuid(), ROOT_USER)


def run_folder(config: RunConfig) -> Path:
    """Where what belongs to a run, not to an artifact, lies: run.json, the jobs it was submitted as."""
    written_out = dataclasses.replace(config, evaluation=config.evaluation.expanded())
    return Path(config.root) / "runs" / digest(written_out)

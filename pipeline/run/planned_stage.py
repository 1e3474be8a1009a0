"""A stage of a run with everything that is known before it runs: address, folder, inputs, tasks.

stage.json of a distributed stage has all that a rank needs. So a rank loads neither the settings of other stages nor
their modules.
"""

import dataclasses
import importlib
import shlex
import sys
from collections.abc import Mapping
from functools import cached_property, partial
from pathlib import Path
from typing import Any

from headrace.pipeline.core.artifact import FORMAT, Artifact, finish, is_whole, missing_tasks
from headrace.pipeline.core.claim import claimed_when_free
from headrace.pipeline.core.errors import ConfigError
from headrace.pipeline.core.json_files import write_sealed
from headrace.pipeline.core.progress import StageProgress
from headrace.pipeline.core.settings import decode, differing
from headrace.pipeline.core.stage import FACTS, STORING, Phase, Stage, address_of, kind_of
from headrace.pipeline.report.funnel import dropped
from headrace.pipeline.report.stage_warnings import is_empty, loss, most_frequent, warnings
from headrace.pipeline.run.phase_tasks import PlannedPhase, TaskExecutor
from headrace.pipeline.run.run_files import is_trusted
from headrace.pipeline.run.saved_runs import STAGE_JSON, AnyPhase, read_saved
from headrace.pipeline.run.workers import Workers


@dataclasses.dataclass(frozen=True)
class PlannedStage:
    """A stage of a run, with everything that is known before it runs."""

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
        return is_whole(self.folder)

    def missing(self, phase: AnyPhase) -> list[int]:
        return missing_tasks(self.folder, phase.name, phase.tasks)

    def executor(self, phase: Phase) -> TaskExecutor:
        """Returns the executor for the tasks of ``phase``."""
        return TaskExecutor(PlannedPhase(self.stage, self.shards, self.inputs, self.folder, phase.name), phase.tasks)

    def run_tasks(self, workers: Workers) -> None:
        """Runs the missing tasks of all phases in ``workers``. The stage is not distributed."""
        with StageProgress(self.name, len(self.phases)) as progress:
            for number, phase in enumerate(self.phases, 1):
                progress.start_phase(number, phase.name, phase.tasks, phase.raw_bytes)
                self.executor(phase).run(workers, progress)

    def finish(self) -> Artifact:
        """Writes the manifest, unless another process has written it. All part records must exist."""
        with claimed_when_free(self.folder / "logs" / "finish.claim", f"{self.name}.finish"):
            if self.is_whole:
                return Artifact(self.folder)
            inputs = {name: Artifact(folder) for name, folder in self.inputs.items()}
            phases = {phase.name: phase.tasks for phase in self.phases}
            artifact = finish(self.folder, self.description, phases, partial(self.stage.balances, inputs=inputs))
        for text in warnings(self.name, artifact):
            print(f"warning: {text}", file=sys.stderr, flush=True)
        return artifact

    def finish_if_complete(self) -> None:
        """Finishes the artifact if no task is missing. In cluster jobs, the last task to end does this."""
        if not self.is_whole and not any(self.missing(phase) for phase in self.phases):
            self.finish()

    def refuse_empty_inputs(self) -> None:
        """Refuses to start on an input without any document, unless the stage accepts that.

        Raises:
            ConfigError: with the rules of the input that dropped the documents, and an example.
        """
        for name, folder in self.inputs.items() if not self.stage.accepts_empty else ():
            if is_empty(name, artifact := Artifact(folder)):
                rule = most_frequent(dropped(artifact.counts))
                of_rule = f" --rule {shlex.quote(rule)} root={shlex.quote(str(folder.parents[1]))}"
                see = f"change the settings, or see what was dropped: headrace inspect {name}{of_rule}"
                see = see if name in STORING else "change selection.rules"
                raise ConfigError(name, loss(name, artifact), see if rule else "give files with records: source.paths")

    def refuse_other_version(self) -> None:
        """Compares the description with the one that this version's code makes, unless the artifact is finished.

        The address of a saved stage hashes its saved description, so only that version's code may compute it.

        Raises:
            ConfigError: naming what differs.
        """
        if self.is_whole:
            return
        ours = self.stage.without_raw_files({name: folder.name for name, folder in self.inputs.items()})
        if names := differing(_decisive(self.description), _decisive(ours)):
            problem = f"was planned by another version of headrace (different: {', '.join(names)})"
            raise ConfigError(self.name, problem, "run the command that planned it again, with its overrides")

    @classmethod
    def of(
        cls,
        stage: Stage,
        root: Path,
        inputs: Mapping[str, Path],
        shards: Mapping[str, int],
        description: Mapping[str, Any] | None = None,
    ) -> "PlannedStage":
        """Returns ``stage`` as planned below ``root``, with the folders and the numbers of shards of its inputs.

        An existing ``description`` is used unchanged, because making one means reading every raw file.
        """
        description = description or stage.description({name: folder.name for name, folder in inputs.items()})
        address = address_of(description)
        folder = root / kind_of(stage.name) / address
        return cls(stage.planned_as(description), address, folder, inputs, shards, description)


def _decisive(description: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the version, the settings and the addresses of the inputs of ``description``, by their names."""
    inputs = {f"inputs.{name}": address for name, address in description["inputs"].items()}
    return {"version": description["version"], **inputs, **description["hashed"]}


def save_stage(stage: PlannedStage, path: Path | None = None) -> Path:
    """Writes what the ranks of a distributed stage read to ``path``, by default to its stage.json. Returns the path."""
    path = path or stage.folder / STAGE_JSON
    values: dict[str, Any] = {field.name: getattr(stage, field.name) for field in dataclasses.fields(stage)}
    values |= {"stage": stage.name, "settings": dataclasses.asdict(stage.stage), "folder": str(stage.folder)}
    values |= {"inputs": {name: str(folder) for name, folder in stage.inputs.items()}}
    write_sealed(path, {"format": FORMAT, **values})
    return path


def load_stage(file: Path) -> PlannedStage:
    """Returns the planned stage that ``save_stage`` wrote to ``file``.

    Raises:
        ConfigError: when another user wrote it.
    """
    refuse_untrusted(file)
    saved = read_saved(file)
    stage = decode(_class_of(saved["stage"]), saved.pop("settings"), str(file))
    inputs = {name: Path(folder) for name, folder in saved["inputs"].items()}
    return PlannedStage(**saved | {"stage": stage, "folder": Path(saved["folder"]), "inputs": inputs})


def _class_of(stage: str) -> type[Stage]:
    """Imports the class of the distributed ``stage``, and no other stage."""
    facts = FACTS[stage]
    stage_class: type[Stage] = getattr(importlib.import_module(facts.module), facts.class_name)
    return stage_class


def refuse_untrusted(file: Path) -> None:
    """Refuses a ``file`` with settings that another user wrote: they may name any Python class.

    Raises:
        ConfigError: naming the file.
    """
    if not is_trusted(file):
        raise ConfigError(str(file), "was written by another user", "run the command again, or use a root of your own")

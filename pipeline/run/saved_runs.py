"""Saved runs: the content of run.json, read without composing, planning or importing a stage.

    <root>/runs/<id>/run.json ──> SavedRun ──> SavedStage, …      address, folder and tasks of each stage
                 running-<process>.claim                         a command on this run that is in progress
    parts/stars_2-00000.json, … ──> CurrentPhase                 of an unfinished stage: phase 8/12 stars_2, 12/16 tasks

Neither the raw data nor the current folder matter: relative paths start from the folder in which the run was started.
"""

import contextlib
import dataclasses
import functools
import graphlib
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from typing_extensions import Self

from headrace.pipeline.core import claim
from headrace.pipeline.core.artifact import check_format, is_whole, missing_tasks
from headrace.pipeline.core.claim import Owner
from headrace.pipeline.core.errors import ArtifactError
from headrace.pipeline.core.gone import has_no_effect
from headrace.pipeline.core.json_files import read_sealed, write_sealed
from headrace.pipeline.core.progress import phase_text
from headrace.pipeline.core.stage import address_of, kind_of
from headrace.pipeline.run.run_files import DEFAULT_ROOT, NAME, is_own, run_files, user_of

RUNNING = "running-{}.claim"
"""The claim that a command holds while it runs stages on this machine; the braces stand for the process."""

STAGE_JSON = "logs/stage.json"
"""The path of what the ranks of a distributed stage read (planned_stage.py), below the folder of its artifact."""
EARLIER_STAGE_JSON = "logs/step.json"
"""The path of the same file in artifacts that an earlier version wrote."""


def stage_json_in(folder: Path) -> Path:
    """Returns the path of stage.json in the artifact at ``folder``, or of what an earlier version wrote there."""
    path, earlier = folder / STAGE_JSON, folder / EARLIER_STAGE_JSON
    return earlier if earlier.is_file() and not path.is_file() else path


def stage_of_job(run_json: Path, stage: str) -> Path:
    """Returns the path of what the ranks of ``stage`` read in a job with ``run_json``, in its folder."""
    return run_json.with_name(f"{stage}.{run_json.name}")


class AnyPhase(Protocol):
    """A phase of a planned stage, or of a saved one."""

    @property
    def name(self) -> str: ...

    @property
    def tasks(self) -> int: ...


class AnyStage(Protocol):
    """A planned stage (planned_stage.py), or a saved one."""

    @property
    def name(self) -> str: ...

    @property
    def address(self) -> str: ...

    @property
    def folder(self) -> Path: ...

    @property
    def phases(self) -> Sequence[AnyPhase]: ...

    @property
    def is_whole(self) -> bool: ...

    def missing(self, phase: AnyPhase) -> list[int]: ...


@dataclasses.dataclass(frozen=True)
class SavedPhase:
    """A phase: its name and its number of tasks."""

    name: str
    tasks: int


@dataclasses.dataclass(frozen=True)
class SavedStage:
    """A stage of a saved run: where its artifact is, and its tasks."""

    name: str
    address: str
    folder: Path
    phases: Sequence[SavedPhase]
    """Empty in a run.json of an earlier version."""

    @property
    def is_whole(self) -> bool:
        return is_whole(self.folder)

    def missing(self, phase: AnyPhase) -> list[int]:
        """Returns the tasks of ``phase`` that are not done."""
        return missing_tasks(self.folder, phase.name, phase.tasks)


@dataclasses.dataclass(frozen=True)
class SavedRun:
    """A run as its run.json describes it."""

    file: Path
    values: Mapping[str, Any]
    """``config`` and ``descriptions``, ``steps``, ``later_steps``, ``overrides``, ``folder`` (the current one at the
    start)."""

    @classmethod
    def read(cls, file: Path) -> "SavedRun":
        """Reads ``file``.

        Raises:
            ArtifactError: when it is damaged or has another format.
        """
        return cls(file, read_saved(file))

    @property
    def id(self) -> str:
        return self.file.parent.name

    @property
    def root(self) -> Path:
        """The folder below which its artifacts are, as the path of run.json gives it."""
        return self.file.parents[2]

    @property
    def folders(self) -> dict[str, Path]:
        """The folders of its stages, by their names."""
        return {stage.name: stage.folder for stage in self.stages}

    @property
    def name(self) -> str:
        """Its name; empty when it has none."""
        return next(iter(self.names), "")

    @property
    def names(self) -> list[str]:
        """All names that it was given, that of its last start first."""
        names = (self.values["config"].get("name"), *self.values.get("names", ()))
        return [str(name) for name in names if name and NAME.fullmatch(str(name))]  # another user may have written it

    @property
    def label(self) -> str:
        return self.name or self.id

    def command(self, name: str) -> str:
        """Returns the command ``name`` about this run, to be typed in the current folder."""
        root = "" if str(self.root) == DEFAULT_ROOT else f" root={shlex.quote(str(self.root))}"
        return f"headrace {name} {self.label}{root}"

    @functools.cached_property
    def is_own(self) -> bool:
        return is_own(self.file)

    @functools.cached_property
    def user(self) -> str:
        return user_of(self.file)

    @functools.cached_property
    def started(self) -> float:
        """The time of the last start, in seconds since the epoch."""
        return self.file.stat().st_mtime

    @functools.cached_property
    def steps(self) -> list[SavedStage]:
        """Its stages, in their order."""
        saved = self.values.get("steps")
        if saved is None:  # written by an earlier version
            described = self.values["descriptions"]
            order = graphlib.TopologicalSorter(
                {name: description["inputs"] for name, description in described.items()}
            ).static_order()
            saved = [{"name": name, "address": address_of(described[name]), "phases": []} for name in order]
        return self._saved_stages(saved)

    @functools.cached_property
    def all_steps(self) -> list[SavedStage]:
        """Its stages, then later ones to which an earlier start with the same settings came: the run uses them, too."""
        return [*self.steps, *self._saved_stages(self.values.get("later_steps", ()))]

    @property
    def stages(self) -> list[SavedStage]:
        """All its stages, each once: an earlier start has another report."""
        by_name = {stage.name: stage for stage in reversed(self.all_steps)}
        return list(by_name.values())[::-1]

    @property
    def descriptions(self) -> dict[str, Mapping[str, Any]]:
        """The descriptions of ``all_steps`` by address; without later ones that an earlier version saved."""
        own = {stage.address: self.values["descriptions"][stage.name] for stage in self.steps}
        later = self.values.get("later_steps", ())
        return own | {stage["address"]: stage["description"] for stage in later if "description" in stage}

    def _saved_stages(self, saved: Sequence[Mapping[str, Any]]) -> list[SavedStage]:
        for stage in saved:
            if not re.fullmatch(r"\w+(\.\w+)?/[0-9a-f]+", f"{stage['name']}/{stage['address']}", re.ASCII):
                raise ArtifactError(str(self.file), f"names the artifact {stage['name']!r}", "do not use it")
        return [
            SavedStage(
                stage["name"],
                stage["address"],
                self.root / kind_of(stage["name"]) / stage["address"],
                [SavedPhase(name, tasks) for name, tasks in stage["phases"]],
            )
            for stage in saved
        ]

    def processes(self) -> list[Owner]:
        """Returns the processes of commands that run stages of this run and are not known to have ended."""
        return sorted(claim.live_owners(self.marks), key=str)

    @property
    def marks(self) -> list[Path]:
        """The claims of commands that run stages of this run, also of commands that have ended."""
        return sorted(self.file.parent.glob(RUNNING.format("*")))


def saved_runs(root: Path) -> Iterator[SavedRun]:
    """Yields the readable runs below ``root``, of all users, the last started one first."""
    for file in run_files(root):
        try:
            run = SavedRun.read(file)
            _ = run.started, run.user, run.is_own  # kept, because the file may be removed meanwhile
        except (ArtifactError, PermissionError, FileNotFoundError):  # a file that was removed meanwhile, too
            continue
        yield run


def scored_folder(scores: Path) -> str:
    """Returns the folder of the model that ``headrace evaluate`` scored, as it was typed; empty when that is unknown.

    The manifest does not hold it, because the scores depend on the files of the model, not on their path.
    """
    with contextlib.suppress(ArtifactError, FileNotFoundError):
        return str(read_saved(stage_json_in(scores))["settings"].get("folder", ""))
    return ""


def read_saved(file: Path) -> dict[str, Any]:
    """Returns the values of a run.json or stage.json (planner.py), without its format.

    Settings that are gone and had no effect on results are left out.

    Raises:
        ArtifactError: when it is damaged or has another format.
    """
    saved = read_sealed(file)
    check_format(file, saved)
    if "overrides" in saved:
        saved["overrides"] = [override for override in saved["overrides"] if not has_no_effect(override)]
    for name, value in list(saved.get("config", {}).items()):
        if has_no_effect(f"{name}={value.get('type') if isinstance(value, Mapping) else value}"):
            del saved["config"][name]
    return {name: value for name, value in saved.items() if name != "format"}


@contextlib.contextmanager
def in_progress(run_json: Path) -> Iterator[None]:
    """Marks the run of ``run_json`` as in progress during the block, for commands that list, stop or clean up runs.

    A copy of run.json stays with the mark, because another start with the same settings may replace run.json.
    """
    folder, mark = run_json.parent, RUNNING.format(Owner.current())
    for ended in folder.glob(RUNNING.format("*")):
        if not claim.live_owners([ended], claim.DAY_SECONDS):
            ended.with_suffix(".json").unlink(missing_ok=True)
            ended.unlink(missing_ok=True)
    copy = (folder / mark).with_suffix(".json")
    write_sealed(copy, read_sealed(run_json))
    try:
        with claim.claimed(folder / mark):
            yield
    finally:
        copy.unlink(missing_ok=True)


@dataclasses.dataclass(frozen=True)
class CurrentPhase:
    """Phase ``number`` (from 1) of ``phases``, with ``done`` of its ``tasks``."""

    number: int
    phases: int
    name: str
    done: int
    tasks: int

    @classmethod
    def of(cls, stage: AnyStage) -> Self | None:
        """Returns the phase that ``stage`` is at; None when all tasks are done, or an earlier version planned it."""
        for number, phase in enumerate(stage.phases, 1):
            if missing := len(stage.missing(phase)):
                return cls(number, len(stage.phases), phase.name, phase.tasks - missing, phase.tasks)
        return None

    def __str__(self) -> str:
        return phase_text(self.number, self.phases, self.name, self.done, self.tasks)

"""Saved runs: the content of run.json, read without composing, planning or importing a stage.

    <root>/runs/<id>/run.json ──> SavedRun ──> SavedStep, …      address, folder and tasks of each stage
                 running-<process>.claim                         a command on this run that is in progress

Neither the raw data nor the current folder matter: relative paths start from the folder in which the run was started.
"""

import contextlib
import dataclasses
import graphlib
import json
import os
import pwd
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

from headrace.pipeline.core import claim
from headrace.pipeline.core.artifact import check_format, missing_tasks
from headrace.pipeline.core.errors import ArtifactError, ConfigError, suggestion
from headrace.pipeline.core.json_files import read_sealed, write_sealed
from headrace.pipeline.core.owner import Owner
from headrace.pipeline.core.stage import address_of

ROOT_USER = 0
"""Can read and write everything anyway."""
RUN_JSON = "run.json"
DEFAULT_ROOT = "runs"
"""The root in conf/config.yaml: commands need no ``root=`` for it."""
RUNNING = "running-{}.claim"
"""The claim that a command holds while it runs stages on this machine; the braces stand for the process."""


class AnyPhase(Protocol):
    """A phase of a planned step, or of a saved one."""

    @property
    def name(self) -> str: ...

    @property
    def tasks(self) -> int: ...


class AnyStep(Protocol):
    """A planned step (planner.py), or a saved one."""

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
class SavedStep:
    """A stage of a saved run: where its artifact is, and its tasks."""

    name: str
    address: str
    folder: Path
    phases: Sequence[SavedPhase]
    """Empty in a run.json of an earlier version."""

    @property
    def is_whole(self) -> bool:
        return (self.folder / "manifest.json").is_file()

    def missing(self, phase: AnyPhase) -> list[int]:
        """Returns the tasks of ``phase`` that are not done."""
        return missing_tasks(self.folder, phase.name, phase.tasks)


@dataclasses.dataclass(frozen=True)
class SavedRun:
    """A run as its run.json describes it."""

    file: Path
    values: Mapping[str, Any]
    """``config`` and ``descriptions``, ``steps``, ``overrides``, ``folder`` (the current one at the start)."""

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
    def name(self) -> str:
        """Its name; empty when it has none."""
        name = str(self.values["config"].get("name") or "")
        return name if re.fullmatch(r"[\w.-]+", name, re.ASCII) else ""  # another user may have written the file

    @property
    def label(self) -> str:
        return self.name or self.id

    def command(self, name: str) -> str:
        """Returns the command ``name`` about this run, to be typed in the current folder."""
        root = "" if str(self.root) == DEFAULT_ROOT else f" root={shlex.quote(str(self.root))}"
        return f"headrace {name} {self.label}{root}"

    @property
    def is_own(self) -> bool:
        return is_own(self.file)

    @property
    def user(self) -> str:
        return user_of(self.file)

    @property
    def started(self) -> float:
        """The time of the last start, in seconds since the epoch."""
        return self.file.stat().st_mtime

    @cached_property
    def steps(self) -> list[SavedStep]:
        """Its stages, in their order."""
        saved = self.values.get("steps")
        if saved is None:  # written by an earlier version
            described = self.values["descriptions"]
            order = graphlib.TopologicalSorter({name: one["inputs"] for name, one in described.items()}).static_order()
            saved = [{"name": name, "address": address_of(described[name]), "phases": []} for name in order]
        for one in saved:
            if not re.fullmatch(r"\w+/[0-9a-f]+", f"{one['name']}/{one['address']}", re.ASCII):
                raise ArtifactError(str(self.file), f"names the artifact {one['name']!r}", "do not use it")
        return [
            SavedStep(
                one["name"],
                one["address"],
                self.root / one["name"] / one["address"],
                [SavedPhase(name, tasks) for name, tasks in one["phases"]],
            )
            for one in saved
        ]

    def processes(self) -> list[Owner]:
        """Returns the processes of commands that run stages of this run and are not known to have ended."""
        return sorted(claim.live_owners(self.marks), key=str)

    @property
    def marks(self) -> list[Path]:
        """The claims of commands that run stages of this run, also of commands that have ended."""
        return sorted(self.file.parent.glob(RUNNING.format("*")))


def is_own(path: Path) -> bool:
    """Whether this user owns ``path``; of a symbolic link, the link itself."""
    return path.lstat().st_uid == os.geteuid()


def is_trusted(path: Path) -> bool:
    """Whether ``path`` was written by this user, or by root."""
    return path.stat().st_uid in (os.geteuid(), ROOT_USER)


def user_of(path: Path) -> str:
    """Returns the name of the user who owns ``path``, or the number of a user without a name; see ``is_own``."""
    number = path.lstat().st_uid
    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        return str(number)


def run_files(root: Path) -> list[Path]:
    """Returns the run.json of every run below ``root``, the last started one first."""
    return sorted(root.glob(f"runs/*/{RUN_JSON}"), key=lambda path: path.stat().st_mtime_ns, reverse=True)


def newest_file(root: str) -> Path:
    """Returns the run.json of the run below ``root`` that this user started last.

    Raises:
        ConfigError: when there is none.
    """
    own = next(filter(is_own, run_files(Path(root))), None)
    if own is None:
        raise ConfigError("root", f"no run of yours was started below {root!r}", "give its root, or overrides")
    return own


def named_file(root: str, wanted: str, what: str = "a run") -> Path:
    """Returns the run.json that ``wanted`` names: the path of it or of its folder, else a run below ``root``.

    A run is named by its name, its id, or a beginning of one of them that fits no other run. The same name may belong
    to several runs; then it means the last started one, this user's runs first.

    Raises:
        ConfigError: when it names none, or several; its message has ``what`` it may name.
    """
    for path in map(Path, map(os.path.abspath, (wanted, os.path.join(wanted, RUN_JSON)))):
        if path.is_file() and re.fullmatch(r"run(-[0-9a-f]{12})?\.json", path.name):
            return path
    files = sorted(run_files(Path(root)), key=is_own, reverse=True)
    names = {file: [file.parent.name, *filter(None, [_name(file)])] for file in files}
    exact = [file for file in files if wanted in names[file]]
    found = exact[:1] or [file for file in files if any(name.startswith(wanted) for name in names[file])]
    if not found:
        known = [name for both in names.values() for name in both]
        wrong = f"{wanted!r} is not {what} below {root!r}"
        raise ConfigError("RUN", wrong, f"{suggestion(wanted, known)} (headrace runs lists all)")
    if len(found) > 1:
        several = ", ".join(" ".join(reversed(names[file])) for file in found)
        raise ConfigError("RUN", f"{wanted!r} is the beginning of several: {several}", "give more of it")
    return found[0]


def _name(file: Path) -> str:
    """Returns the name in ``file``; an empty text when there is none, or the file cannot be read."""
    try:
        return str(json.loads(file.read_bytes())["config"].get("name") or "")
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return ""


def saved_runs(root: Path) -> Iterator[SavedRun]:
    """Yields the readable runs below ``root``, of all users, the last started one first."""
    for file in run_files(root):
        try:
            yield SavedRun.read(file)
        except (ArtifactError, PermissionError):
            continue


def read_saved(file: Path) -> dict[str, Any]:
    """Returns the values of a run.json or step.json (planner.py), without its format.

    Raises:
        ArtifactError: when it is damaged or has another format.
    """
    saved = read_sealed(file)
    check_format(file, saved)
    return {name: value for name, value in saved.items() if name != "format"}


@contextlib.contextmanager
def in_progress(run_json: Path) -> Iterator[None]:
    """Marks the run of ``run_json`` as in progress during the block, for commands that list, stop or clean up runs.

    A copy of run.json stays with the mark, because another start with the same settings may replace run.json.
    """
    folder, mark = run_json.parent, RUNNING.format(Owner.current())
    for ended in folder.glob(RUNNING.format("*")):
        if not claim.live_owners([ended]):
            ended.with_suffix(".json").unlink(missing_ok=True)
            ended.unlink(missing_ok=True)
    copy = (folder / mark).with_suffix(".json")
    write_sealed(copy, read_sealed(run_json))
    try:
        with claim.claimed(folder / mark):
            yield
    finally:
        copy.unlink(missing_ok=True)

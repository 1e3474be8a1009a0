"""Runs below a root, as their files run.json describe them: read without composing, planning or importing a stage.

    <root>/runs/<id>/run.json ──> SavedRun ──> SavedStage, …      address, folder and tasks of each stage
                 run-<hash>.json                                  a draft of it, or a copy that queued jobs read
                 running-<process>.claim                          a command on this run that is in progress
    "config": {"name": "small", …}, "names": ["tiny"]             the name of a run, and earlier ones

Neither the raw data nor the current folder matter: relative paths start from the folder in which the run was started.
planner.py makes run.json, and builds the stages of a run from it.
"""

import contextlib
import dataclasses
import functools
import hashlib
import json
import os
import pwd
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from headrace.pipeline.core import claim
from headrace.pipeline.core.artifact import check_format, is_whole, missing_tasks
from headrace.pipeline.core.claim import Owner
from headrace.pipeline.core.errors import ArtifactError, ConfigError, suggestion
from headrace.pipeline.core.gone import has_no_effect
from headrace.pipeline.core.json_files import read_sealed, write_sealed
from headrace.pipeline.core.stage import Phase, kind_of

ROOT_USER = 0
"""Can read and write everything anyway."""
RUN_JSON = "run.json"
RUNNING = "running-{}.claim"
"""The claim that a command holds while it runs stages on this machine; the braces stand for the process."""
STAGE_JSON = "logs/stage.json"
"""The path of what the ranks of a distributed stage read (planned_stage.py), below the folder of its artifact."""
DEFAULT_ROOT = "runs"
"""The root in conf/config.yaml: commands need no ``root=`` for it."""
NAME = re.compile(r"[\w.-]+", re.ASCII)
"""A name of a run."""


def is_own(path: Path) -> bool:
    """Whether this user owns ``path``; of a symbolic link, the link itself."""
    return path.lstat().st_uid == os.geteuid()


def is_trusted(path: Path) -> bool:
    """Whether ``path`` was written by this user, or by root."""
    return path.stat().st_uid in (os.geteuid(), ROOT_USER)


def user_of(path: Path) -> str:
    """Returns the name of the user who owns ``path``, or the number of a user without a name; see ``is_own``."""
    return _user(path.lstat().st_uid)


@functools.cache
def _user(number: int) -> str:
    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        return str(number)


def run_file(root: str | Path, identity: str) -> Path:
    """Returns the path of the run.json of the run with this ``identity``; the logs of its jobs are next to it."""
    return Path(root) / "runs" / identity / RUN_JSON


def run_files(root: Path) -> list[Path]:
    """Returns the run.json of every run below ``root``, the last started one first."""
    dated_paths = []
    for path in root.glob(f"runs/*/{RUN_JSON}"):
        with contextlib.suppress(FileNotFoundError):  # it was removed meanwhile
            dated_paths.append((path.stat().st_mtime_ns, path))
    return [path for _, path in sorted(dated_paths, reverse=True)]


def newest_file(root: str) -> Path:
    """Returns the run.json of the run below ``root`` that this user started last.

    Raises:
        ConfigError: when there is none.
    """
    newest = next(filter(is_own, run_files(Path(root))), None)
    if newest is None:
        raise ConfigError("root", f"no run of yours was started below {root!r}", "give its root, or overrides")
    return newest


def labels(root: Path) -> Iterator[str]:
    """Yields the names of each run below ``root``, or its id if it has none, the last started one first."""
    for file in run_files(root):
        names = [name for name in names_in(file) if NAME.fullmatch(name)]  # another user may have written the file
        yield from names or [file.parent.name]


def named_file(root: str, wanted: str, what: str = "a run") -> Path:
    """Returns the run.json that ``wanted`` names: the path of it or of its folder, else a run below ``root``.

    A run is named by each name that it was given, its id, or a beginning of one of them that fits no other run. The
    same name may belong to several runs; then it means this user's, and that with this name now, and the last started.

    Raises:
        ConfigError: when it names none, or several; its message has ``what`` it may name.
    """
    for path in map(Path, map(os.path.abspath, (wanted, os.path.join(wanted, RUN_JSON)))):
        if path.is_file() and re.fullmatch(r"run(-[0-9a-f]{12})?\.json", path.name):
            return path
    files = sorted(run_files(Path(root)), key=is_own, reverse=True)
    names = {file: [file.parent.name, *names_in(file)] for file in files}
    exact = [file for file in files if wanted in names[file]]
    exact.sort(key=lambda file: (not is_own(file), wanted not in names[file][:2]))
    matches = exact[:1] or [file for file in files if any(name.startswith(wanted) for name in names[file])]
    if not matches:
        known = [name for both in names.values() for name in both]
        problem = f"{wanted!r} is not {what} below {root!r}"
        raise ConfigError("RUN", problem, f"{suggestion(wanted, known)} (headrace runs lists all)")
    if len(matches) > 1:
        several = ", ".join(" ".join(reversed(names[file])) for file in matches)
        raise ConfigError("RUN", f"{wanted!r} is the beginning of several: {several}", "give more of it")
    return matches[0]


def names_in(file: Path) -> list[str]:
    """Returns the names of the run in ``file``, that of its last start first; none when the file cannot be read.

    The seal is not compared: commands look for a name in the files of all runs.
    """
    try:
        return _names(json.loads(file.read_bytes()))
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return []


def _names(values: Mapping[str, Any]) -> list[str]:
    return [str(name) for name in (values["config"].get("name"), *values.get("names", ())) if name]


def stage_of_job(run_json: Path, stage: str) -> Path:
    """Returns the path of what the ranks of ``stage`` read in a job with ``run_json``, in its folder."""
    return run_json.with_name(f"{stage}.{run_json.name}")


@dataclasses.dataclass(frozen=True)
class SavedPhase:
    """A phase: its name and its number of tasks."""

    name: str
    tasks: int


AnyPhase = Phase | SavedPhase
"""A phase of a planned stage, or of a saved one."""


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
class SavedStage:
    """A stage of a saved run: where its artifact is, and its tasks."""

    name: str
    address: str
    folder: Path
    phases: Sequence[SavedPhase]

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
        return [name for name in _names(self.values) if NAME.fullmatch(name)]  # another user may have written it

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
        return self._saved_stages(self.values["steps"])

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
        """The descriptions of ``all_steps`` by address."""
        descriptions = {stage.address: self.values["descriptions"][stage.name] for stage in self.steps}
        later = self.values.get("later_steps", ())
        return descriptions | {stage["address"]: stage["description"] for stage in later}

    def _saved_stages(self, saved: Sequence[Mapping[str, Any]]) -> list[SavedStage]:
        stages = []
        for name, address, phases in ((stage["name"], stage["address"], stage["phases"]) for stage in saved):
            if not re.fullmatch(r"\w+(\.\w+)?/[0-9a-f]+", f"{name}/{address}", re.ASCII):
                raise ArtifactError(str(self.file), f"names the artifact {name!r}", "do not use it")
            folder = self.root / kind_of(name) / address
            stages.append(SavedStage(name, address, folder, [SavedPhase(*phase) for phase in phases]))
        return stages

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
    config = saved.get("config", {})
    for name, value in list(config.items()):
        if has_no_effect(f"{name}={value.get('type') if isinstance(value, Mapping) else value}"):
            del config[name]
        elif isinstance(value, Mapping):
            config[name] = {key: item for key, item in value.items() if not has_no_effect(f"{name}.{key}={item}")}
    return {name: value for name, value in saved.items() if name != "format"}


def saved_before(run_json: Path) -> SavedRun | None:
    """Returns the run that an earlier start with the same settings saved in ``run_json``, if it can be read."""
    try:
        return SavedRun.read(run_json) if run_json.is_file() else None
    except (ArtifactError, PermissionError):
        return None


def write_run(path: Path, values: Mapping[str, Any]) -> None:
    """Writes a run.json, or a draft of one, to ``path``."""
    write_sealed(path, values)
    path.chmod(0o644)  # jobs act on it, so only its owner may write it, whatever the umask


def earlier_names(before: SavedRun | None, name: str | None) -> list[str]:
    """Returns the names that the run ``before`` was given, without ``name``, which it gets now."""
    return [other for other in before.names if other != name] if before else []


def take_effect(draft: Path) -> None:
    """Makes ``draft`` the run.json of its folder: from now on its run has these settings, and also this name."""
    path, values = draft.with_name(RUN_JSON), read_sealed(draft)
    write_run(path, values | {"names": earlier_names(saved_before(path), values["config"].get("name"))})


def frozen(run_json: Path) -> Path:
    """Returns a draft, else a copy of ``run_json`` in a file named after its content: what queued jobs read stays."""
    if run_json.name != RUN_JSON:
        return run_json.resolve()
    name = hashlib.sha256(run_json.read_bytes()).hexdigest()[:12]
    path = run_json.resolve().with_name(f"run-{name}.json")
    write_sealed(path, read_sealed(run_json))
    return path


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

"""The files that decide what a task of lm-evaluation-harness asks. The harness is not needed, and no function is run.

quiz.yaml ── include ──> base.yaml          and on, as the harness reads them: the file's own keys win
    ├─ doc_to_text: !function utils.text ──> the Python files in the folder of utils.py
    ├─ dataset_path, data_files, data_dir ──> quiz.jsonl: from the YAML's folder, evaluation.data, or here
    └─ group: all, task: [one, two] ──> the YAML files below the folder that define the tasks one and two
"""

import dataclasses
import glob
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from headrace.pipeline.core.errors import ConfigError
from headrace.pipeline.core.stage import RawFile, raw_file
from headrace.pipeline.core.text_files import stored_path

SETTING = "evaluation.tasks"
FORMATS = ("json", "csv", "parquet", "text", "arrow")
"""The values of dataset_path whose data_files are local, or addresses."""


class _TaskLoader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
    """Reads YAML as the harness does, but ``!function`` as a NamedFunction."""


_TaskLoader.add_constructor("!function", lambda reader, node: NamedFunction(str(node.value)))


@dataclasses.dataclass(frozen=True)
class NamedFunction:
    """A Python function that a YAML names."""

    name: str
    """``<module>.<function>``."""


@dataclasses.dataclass(frozen=True)
class TaskFile:
    """A YAML file with a task, or with a group of tasks."""

    path: Path
    name: str
    """The name of the task or of the group."""
    files: tuple[Path, ...]
    """All files whose content decides what is asked, in the order in which they are found."""
    is_group: bool
    needs_shipped: bool
    """Whether the group has tasks that no file below its folder defines: those of the harness."""

    def raw_files(self) -> Iterator[RawFile]:
        """Yields the files, named from the folder of the YAML; those outside it by their own name."""
        folder = self.path.parent
        for path in dict.fromkeys(map(Path.resolve, self.files)):
            inner = path.is_relative_to(folder)
            yield raw_file(f"tasks/{path.relative_to(folder).as_posix() if inner else path.name}", path)


def is_file(task: str) -> bool:
    """Whether ``task`` is the path of a YAML."""
    return task.endswith((".yaml", ".yml"))


def read_task(path: Path, data: Path) -> TaskFile:
    """Returns the task of the YAML ``path``; data may lie below the folder ``data``.

    Raises:
        ConfigError: naming a file that is missing, that is no YAML of a task, or that includes itself.
    """
    files: list[Path] = []
    path = path.expanduser().resolve()
    keys = _read(path, files)
    name = keys.get("group", keys.get("task"))
    if not isinstance(name, str):
        raise ConfigError(SETTING, f"{str(path)!r} holds no task", "write KEY: VALUE lines, task: NAME among them")
    with_local_data(keys, path, data, files)
    unknown, known = list(_members(keys)), _defined_below(path.parent) if "group" in keys else {}
    needs_shipped, seen = False, {name}
    while unknown:
        if (member := unknown.pop()) not in seen:
            seen.add(member)
            needs_shipped |= member not in known
            for file in known.get(member, []):
                inner = _read(file, files)
                with_local_data(inner, file, data, files)
                unknown += _members(inner)
    return TaskFile(path, name, tuple(files), "group" in keys, needs_shipped)


def with_local_data(keys: Mapping[str, Any], path: Path, data: Path, collected: list[Path]) -> dict[str, Any]:
    """Returns ``keys`` of the YAML ``path`` with absolute paths of local data files, which are added to ``collected``.

    Raises:
        ConfigError: when a file is missing.
    """
    folders = (path.parent, data, Path())
    source = str(keys.get("dataset_path", ""))
    local, files = _folder(source, folders, collected), list[Path]()
    arguments = keys.get("dataset_kwargs")
    arguments = dict(arguments) if isinstance(arguments, Mapping) else {}
    if isinstance(folder := arguments.get("data_dir"), str):
        arguments["data_dir"] = _folder(folder, folders, collected) or folder
    elif "data_files" in arguments and local is None and source in ("", *FORMATS):
        arguments["data_files"] = _located(arguments["data_files"], path, folders, files)
    collected += files
    changed: dict[str, Any] = {"dataset_path": local} if local else {}
    if arguments:
        changed["dataset_kwargs"] = arguments
    if isinstance(members := keys.get("task"), list):
        changed["task"] = [
            with_local_data(member, path, data, collected) if isinstance(member, Mapping) else member
            for member in members
        ]
    return {**keys, **changed}


def _folder(name: str, folders: Sequence[Path], collected: list[Path]) -> str | None:
    """Returns the folder of data ``name`` as an absolute path, and adds its files; None: there is none."""
    if name and name not in FORMATS:
        for folder in folders:
            if (path := folder / name).is_dir():
                collected += _files_at(path)
                return str(path.absolute())
    return None


def _files_at(path: Path) -> list[Path]:
    return [path] if path.is_file() else sorted(file for file in path.rglob("*") if file.is_file())


def _located(names: Any, path: Path, folders: Sequence[Path], collected: list[Path]) -> Any:
    """Returns the ``names`` of files, one or in lists and by split, as absolute paths."""
    if isinstance(names, Mapping):
        return {split: _located(names_of_split, path, folders, collected) for split, names_of_split in names.items()}
    if isinstance(names, list):
        return [_located(name, path, folders, collected) for name in names]
    if not isinstance(names, str) or "://" in names:
        return names
    for folder in folders:
        place = stored_path(folder / names)
        if files := [file for name in glob.glob(str(place), recursive=True) for file in _files_at(Path(name))]:
            collected += files
            return str(place.absolute())
    remedy = "give a path from the folder of the YAML, evaluation.data or the current folder"
    raise ConfigError(SETTING, f"{path}: no file {names!r}", remedy)


def _read(path: Path, files: list[Path], including: tuple[Path, ...] = ()) -> dict[str, Any]:
    """Returns the keys of the YAML ``path`` with those that it includes; adds them and their Python files to ``files``.

    As the harness (tasks/_yaml_loader.py, load_yaml). Of a key that is written twice, the last value counts.
    """
    keys = _parsed(path)
    files += [path, *_python_files(keys, path.parent)]
    includes = keys.pop("include", [])
    merged: dict[str, Any] = {}
    for included in includes if isinstance(includes, list) else [includes]:
        other = (path.parent / str(included)).resolve()
        if other in including:
            raise ConfigError(SETTING, f"{str(other)!r} includes itself", "remove one of the includes")
        inherited = _read(other, files, (*including, path))
        inherited.pop("task_list", None)
        merged |= inherited
    return merged | keys


def _parsed(path: Path) -> dict[str, Any]:
    if not path.is_file():
        raise ConfigError(SETTING, f"no file {str(path)!r}", "give the path of a YAML file")
    try:
        keys = yaml.load(path.read_bytes(), _TaskLoader)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise ConfigError(
            SETTING, f"{str(path)!r} is not YAML ({' '.join(str(error).split())})", "correct it"
        ) from None
    if not isinstance(keys, dict):
        raise ConfigError(SETTING, f"{str(path)!r} holds no task", "write KEY: VALUE lines, task: NAME among them")
    return keys


def _python_files(keys: Any, folder: Path) -> Iterator[Path]:
    """Yields the Python files in the folder of each function that ``keys`` name: one may import the others."""
    if isinstance(keys, NamedFunction):
        module = folder / f"{keys.name.rpartition('.')[0].replace('.', '/')}.py"
        yield from sorted(module.parent.glob("*.py")) if module.is_file() else ()
    elif isinstance(keys, Mapping | list):
        for part in keys.values() if isinstance(keys, Mapping) else keys:
            yield from _python_files(part, folder)


def _members(keys: Mapping[str, Any]) -> Iterator[str]:
    """Yields the names of the tasks, groups and tags of a group; none of a task."""
    members = keys.get("task")
    for member in members if isinstance(members, list) else []:
        if isinstance(member, Mapping) and isinstance(member.get("task"), list):
            yield from _members(member)
        else:
            yield str(member.get("group", member.get("task")) if isinstance(member, Mapping) else member)


def _defined_below(folder: Path) -> dict[str, list[Path]]:
    """Returns the YAML files below ``folder`` by the names and the tags of their tasks; files of other things have
    none."""
    known: dict[str, list[Path]] = {}
    for path in map(Path.resolve, sorted(folder.glob("**/*.yaml"))):
        try:
            keys = _read(path, [])
        except ConfigError:
            continue
        tags = keys.get("tag")
        for name in (keys.get("group", keys.get("task")), *(tags if isinstance(tags, list) else [tags])):
            if isinstance(name, str):
                known.setdefault(name, []).append(path)
    return known

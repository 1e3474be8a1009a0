"""Reads the YAML of a task of lm-evaluation-harness: includes, and the tag of Python functions. No function is run.

include: base.yaml                              the file's own keys win
process_docs: !function utils.process_docs      read as a PythonFunction, which task_file.py refuses by its name
"""

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from headrace.pipeline.core.errors import ConfigError

TaskKeys = Mapping[str, Any]
INCLUDE = "include"
NOT_INHERITED = "task_list"
"""The key that the harness does not take from an included file: it lists tasks of that file."""


@dataclasses.dataclass(frozen=True)
class PythonFunction:
    """A function that a YAML names by ``!function``."""

    name: str
    place: str
    """``<file>:<line>``."""


def refused(path: Path, problem: str, remedy: str) -> ConfigError:
    """Returns the error of the task file ``path``."""
    return ConfigError("evaluation.yaml", f"{path}: {problem}", remedy)


def read_keys(path: Path) -> tuple[dict[str, Any], tuple[Path, ...]]:
    """Returns the keys of the YAML ``path`` with those that it includes, and all files that were read.

    As lm-evaluation-harness (tasks/_yaml_loader.py, load_yaml): later includes win over earlier ones, the file's own
    keys over both, and no file is read twice.

    Raises:
        ConfigError: naming a file that is missing, that is no YAML of keys, or that includes itself.
    """
    files: list[Path] = []
    return _merged(path, files), tuple(files)


def _merged(path: Path, files: list[Path]) -> dict[str, Any]:
    if path.resolve() in map(Path.resolve, files):
        raise refused(path, "is included twice", "remove one of the includes")
    own = _parsed(path)
    files.append(path)
    includes = own.pop(INCLUDE, [])
    keys: dict[str, Any] = {}
    for included in includes if isinstance(includes, list) else [includes]:
        if not isinstance(included, str):
            raise refused(path, f"include holds {included!r}", "give it the path of a YAML file")
        inherited = _merged(path.parent / included, files)
        keys |= {key: value for key, value in inherited.items() if key != NOT_INHERITED}
    return keys | own


def _parsed(path: Path) -> dict[str, Any]:
    if not path.is_file():
        raise ConfigError("evaluation.yaml", f"no file {str(path)!r}", "give a path below evaluation.data, or include")
    try:
        keys = yaml.load(path.read_text(encoding="utf-8"), _loader(path))
    except UnicodeDecodeError as error:
        raise refused(path, f"is not UTF-8 (byte {error.start})", "convert the file to UTF-8") from None
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise refused(path, f"is not YAML ({' '.join(str(error).split())})", "correct it") from None
    if not isinstance(keys, dict) or not all(isinstance(key, str) for key in keys):
        raise refused(path, "holds no task", "write KEY: VALUE lines, task: NAME among them")
    return keys


def _loader(path: Path) -> type[yaml.SafeLoader]:
    class TaskLoader(yaml.SafeLoader):
        """Reads ``!function`` as a PythonFunction."""

    def function(loader: yaml.SafeLoader, node: yaml.Node) -> PythonFunction:
        return PythonFunction(str(node.value), f"{path}:{node.start_mark.line + 1}")

    TaskLoader.add_constructor("!function", function)
    return TaskLoader


def functions(value: Any) -> list[PythonFunction]:
    """Returns the Python functions anywhere in ``value``."""
    if isinstance(value, PythonFunction):
        return [value]
    parts = value.values() if isinstance(value, Mapping) else value if isinstance(value, list) else ()
    return [function for part in parts for function in functions(part)]

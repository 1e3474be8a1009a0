"""Adapter that runs a filter class of the user's own, named by its module and class.

{type: python, path: my_filters:TooShouty, settings: {max_fraction: 0.2}, files: [names.txt]}

The module is my_filters.py in the current folder, else in a folder of PYTHONPATH. The checksums of it and of ``files``
belong to the address, so a changed class has results of its own. Its code runs only in a run of its user: decoding the
settings, which may be those of another user's run, imports nothing.
"""

import dataclasses
import functools
import importlib.util
import sys
from pathlib import Path
from typing import Any, Literal

from datatrove.data import Document

from headrace.data_prep.document import Drop
from headrace.data_prep.filters.filter import Filter, filter_settings
from headrace.data_prep.filters.user_files import require_file, user_file
from headrace.pipeline.core.errors import ConfigError, suggestion
from headrace.pipeline.core.settings import Texts, decode
from headrace.pipeline.core.stage import RawFile


@filter_settings
class PythonFilter(Filter):
    """Drops the pages that the class ``path`` drops: rule ``python.<class>``, with the rest of the class's own rule."""

    type: Literal["python"] = "python"
    path: str
    """The class as <module>:<class>. It is a ``Filter`` with ``@filter_settings``."""
    settings: dict[str, Any] = dataclasses.field(default_factory=dict)
    """Its settings."""
    files: Texts = ()
    """Files that it reads, whose content decides the result."""

    def raw_files(self) -> tuple[RawFile, ...]:
        for path in self.files:
            require_file("python.files", path, "a file that the class reads")
        return (user_file(str(module_file(self.path))), *map(user_file, self.files))

    def check(self) -> None:
        """Loads the class and decodes its settings."""
        _ = self.inner

    def judge(self, document: Document) -> Drop | None:
        if (drop := self.inner.judge(document)) is None:
            return None
        rest = drop.rule.removeprefix(self.inner.name).strip(".")
        return Drop(".".join(filter(None, (self.type, class_name(self.path), rest))), drop.value)

    @functools.cached_property
    def inner(self) -> Filter:
        """The user's filter."""
        own = load_class(self.path)
        try:
            return decode(own, self.settings)
        except ConfigError as error:
            raise ConfigError(f"{self.path} {error.where}", error.wrong, error.remedy) from None

    def __getstate__(self) -> dict[str, Any]:
        """Leaves out the user's filter: a worker process cannot import its class by name, but loads it itself."""
        return {name: value for name, value in self.__dict__.items() if name != "inner"}


def class_name(path: str) -> str:
    return path.rpartition(":")[2]


def module_file(path: str) -> Path:
    """Returns the file of the module in ``path``: in the current folder, else in the first folder of sys.path.

    Raises:
        ConfigError: when there is none.
    """
    name = Path(f"{path.rpartition(':')[0].replace('.', '/')}.py")
    found = next((file for folder in ("", *sys.path) if (file := Path(folder, name)).is_file()), None)
    if found is None:
        remedy = "give <module>:<class>, with a module of the current folder or of PYTHONPATH"
        raise ConfigError("python.path", f"{path!r} names no class: there is no file {name} here", remedy)
    return found


def load_class(path: str) -> type[Filter]:
    """Loads the class ``path``. Its module gets a name of its own, so a changed file is loaded again.

    Raises:
        ConfigError: when the module cannot be imported, or has no such filter.
    """
    file, name = module_file(path), class_name(path)
    spec = importlib.util.spec_from_file_location(f"{file.stem}_{user_file(str(file)).sha256[:12]}", file)
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except (ImportError, SyntaxError) as error:
        raise ConfigError("python.path", f"{file} cannot be imported ({error})", "correct the file") from None
    classes = [one for one in vars(module).values() if isinstance(one, type) and issubclass(one, Filter)]
    own = {one.__name__: one for one in classes if one.__module__ == spec.name}
    if name not in own:
        raise ConfigError("python.path", f"{file} has no filter {name!r}", suggestion(name, own))
    return own[name]

"""Adapter that runs a filter class of the user's own, named by its module and class.

{type: my_filters:TooShouty, max_fraction: 0.2}
{type: python, path: my_filters:TooShouty, settings: {max_fraction: 0.2}, files: [names.txt]}      the same, with files

The module is my_filters.py in ``folder``, else in a folder of PYTHONPATH. The checksums of it, of the files of its
folder that it imports and of ``files`` belong to the address, so a changed class has results of its own. Its code runs
only in a run of its user: decoding the settings, which may be those of another user's run, imports nothing, and the
docstring is read without the code.
"""

import ast
import dataclasses
import functools
import reprlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Literal

from datatrove.data import Document
from pydantic import ConfigDict

from headrace.data_prep.document import Drop
from headrace.data_prep.filters.filter import (
    AS_STORED,
    FAILED,
    Explanations,
    Filter,
    filter_settings,
    is_within,
    require_file,
    user_file,
)
from headrace.data_prep.filters.guards import PageErrors
from headrace.pipeline.core.errors import ConfigError
from headrace.pipeline.core.kinds import TAG
from headrace.pipeline.core.settings import AnyPath, AnyText, FilePaths, decode, unhashed
from headrace.pipeline.core.stage import RawFile
from headrace.pipeline.core.user_classes import file_of_module, load_class, loading_errors, with_imports


@filter_settings
class PythonFilter(Filter):
    """Drops the pages that the class ``path`` drops: rule ``python.<class>``, with the rest of the class's own rule."""

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(validate_default=True)  # for the path ``folder``

    explanations: ClassVar[Explanations] = {"": ("{explained}", AS_STORED)}
    type: Literal["python"] = "python"
    path: str
    """The class as <module>:<class>. It is a ``Filter`` with ``@filter_settings``."""
    settings: dict[str, Any] = dataclasses.field(default_factory=dict)
    """The settings of the class: its keyword arguments."""
    files: FilePaths = ()
    """Files that it reads, whose content decides the result."""
    folder: AnyPath = unhashed("")
    """The folder of the module. Without it, and for a module that is not there, the folders of PYTHONPATH follow."""
    sentence: AnyText = unhashed("")
    """The effect of the filter, for readers of reports. Without it, the first line of the docstring of the class."""

    def raw_files(self) -> tuple[RawFile, ...]:
        for path in self.files:
            require_file("python.files", path, "a file that the class reads")
        imported = [str(file) for file in with_imports(self.module)[1:] if str(file) not in self.files]
        return (user_file(str(self.module)), *map(user_file, self.files), *map(user_file, imported))

    def check(self) -> None:
        """Loads the class and decodes its settings."""
        _ = self.inner

    @property
    def base_reason(self) -> str:
        return f"{self.type}.{self.class_name}"

    def judge(self, document: Document) -> Drop | None:
        with PageErrors(self.base_reason, self.module):
            drop = self.inner.judge(document)
        return None if drop is None else self._translated(drop)

    def _translated(self, drop: object) -> Drop:
        """Returns the result of the user's class as a reason of this filter.

        Raises:
            ConfigError: when it is no Drop with a rule, or the rule has a name that is reserved.
        """
        if not isinstance(drop, Drop) or not isinstance(drop.rule, str):
            raise ConfigError(self.path, f"judge returned {reprlib.repr(drop)}", "return None or Drop(rule, text)")
        rest = drop.rule.removeprefix(self.inner.type) if is_within(self.inner.type, drop.rule) else drop.rule
        reason = ".".join(filter(None, (self.base_reason, rest.strip("."))))
        if reason == f"{self.base_reason}.{FAILED}":
            remedy = f"give it another name: {reason} means that the class fails at the page"
            raise ConfigError(self.path, f"judge returned the rule {drop.rule!r}", remedy)
        return Drop(reason, str(drop.value))

    @property
    def class_name(self) -> str:
        return self.path.rpartition(":")[2]

    @functools.cached_property
    def module(self) -> Path:
        """The file of the module.

        Raises:
            ConfigError: when there is none.
        """
        return file_of_module("python.path", self.path, self.folder)

    @functools.cached_property
    def inner(self) -> Filter:
        """The user's filter.

        Raises:
            ConfigError: when the module or the class fails, or the settings are not valid.
        """
        with loading_errors("python.path", self.module):
            own = load_class("python.path", self.module, self.class_name, "filter", is_filter)
            try:
                return decode(own, self.settings, runs_code=True)
            except ConfigError as error:
                raise ConfigError(f"{self.path} {error.where}", error.problem, error.remedy) from None

    def __getstate__(self) -> dict[str, Any]:
        """Leaves out the user's filter: a worker process cannot import its class by name, but loads it itself."""
        return {name: value for name, value in self.__dict__.items() if name != "inner"}

    @property
    def explained(self) -> str:
        """The setting ``sentence``, else the first line of the docstring; empty without both. No code is run."""
        try:
            return self.sentence or _first_line(self.module, self.class_name)
        except (ConfigError, OSError, SyntaxError, ValueError):  # the file was removed, or is no Python file now
            return ""


def is_filter(cls: type) -> bool:
    return issubclass(cls, Filter)


def with_sentences(values: Mapping[str, Any], filters: Sequence[object]) -> Mapping[str, Any]:
    """Returns the plain ``values`` of a run with the sentences of its ``filters``.

    A saved run is explained with them when the files of its classes have changed.
    """
    own = {index: rule.explained for index, rule in enumerate(filters) if isinstance(rule, PythonFilter)}
    if not own:
        return values
    entries = list(values["cleaning"]["filters"])
    for index, sentence in own.items():
        entries[index] = {**written_out(entries[index]), "sentence": sentence}
    return {**values, "cleaning": {**values["cleaning"], "filters": entries}}


def written_out(entry: Mapping[str, Any]) -> dict[str, Any]:
    """Returns ``entry`` with the type ``python``; it may be written with the class as its type."""
    if ":" not in entry[TAG]:
        return dict(entry)
    settings = {name: value for name, value in entry.items() if name != TAG}
    return {TAG: PythonFilter.type, "path": entry[TAG], "settings": settings}


def _first_line(file: Path, name: str) -> str:
    """Returns the first line of the docstring of the class ``name`` in ``file``; empty when there is none."""
    classes = [
        statement
        for statement in ast.parse(file.read_bytes()).body
        if isinstance(statement, ast.ClassDef) and statement.name == name
    ]
    text = ast.get_docstring(classes[-1]) if classes else None
    return (text or "").partition("\n")[0]

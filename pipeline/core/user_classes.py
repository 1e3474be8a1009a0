"""Classes of the user's own, named ``<module>:<class>`` in a setting.

    {type: my_sources:Zim}      my_sources.py in the folder of the command, else in a folder of PYTHONPATH
    {type: zims.files:Zim}      the module of an installed package

The checksums of the module's file, and of the files of its folder that it imports, belong to the address of each stage
that has such settings (``code_files``). A class of an installed package states its ``revision`` instead.
"""

import ast
import contextlib
import dataclasses
import hashlib
import importlib.util
import os
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from headrace.pipeline.core.errors import ConfigError, HeadraceError, suggestion


@contextlib.contextmanager
def loading_errors(where: str, file: Path) -> Iterator[None]:
    """Turns an error of the user's ``file`` in the block into a ConfigError about ``where``."""
    try:
        yield
    except HeadraceError:
        raise
    except (Exception, SystemExit) as error:  # noqa: BLE001 whatever the code of the user raises
        place, line = position(error, file)
        message = error.msg if isinstance(error, SyntaxError) else str(error)
        problem = f"{place}, line {line}: {type(error).__name__}: {message}"
        raise ConfigError(where, problem, "correct the file") from None


def position(error: BaseException, file: Path | None) -> tuple[Path, int]:
    """Returns the file and the line of ``error``: the innermost line of ``file``, else the innermost one of all."""
    frames = [(frame.f_code.co_filename, line) for frame, line in traceback.walk_tb(error.__traceback__)]
    if isinstance(error, SyntaxError) and error.filename:
        frames.append((error.filename, error.lineno or 1))
    own = [line for name, line in frames if file is not None and name == os.path.abspath(file)]
    if file is not None and own:
        return file, own[-1]
    name, line = frames[-1]
    return Path(name), line


def file_of_module(where: str, path: str, folder: str) -> Path:
    """Returns the file of the module of ``path``, which is the setting ``where``.

    Raises:
        ConfigError: when there is none.
    """
    name = Path(f"{path.rpartition(':')[0].replace('.', '/')}.py")
    file = next((file for place in (folder, *sys.path) if (file := Path(place, name)).is_file()), None)
    if file is None:
        remedy = "give <module>:<class>, with a module of the current folder or of PYTHONPATH"
        raise ConfigError(where, f"{path!r} names no class: there is no file {name} here", remedy)
    return file


def load_class(where: str, file: Path, name: str, kind: str, is_kind: Callable[[type], bool]) -> type:
    """Loads the class ``name`` of ``file``. Its module gets a name of its own, so a changed file is loaded again.

    The code is compiled from the bytes that are hashed. Python's cache is not used: its check is the size and the whole
    second of the last change, so it may hold the code of an earlier file.

    Args:
        where: the setting, for the error.
        file: the module.
        name: the class.
        kind: a word for what the class is, for the error.
        is_kind: whether a class is one.

    Raises:
        ConfigError: when the module has no such class. Errors of the module itself pass through.
    """
    source, path = file.read_bytes(), os.path.abspath(file)
    spec = importlib.util.spec_from_file_location(f"{file.stem}_{hashlib.sha256(source).hexdigest()[:12]}", path)
    assert spec is not None
    if spec.name not in sys.modules:
        module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
        try:
            with _importing_from(file):
                exec(compile(source, path, "exec", dont_inherit=True), module.__dict__)
        except BaseException:
            del sys.modules[spec.name]
            raise
    classes = [
        value
        for value in vars(sys.modules[spec.name]).values()
        if isinstance(value, type) and value.__module__ == spec.name
    ]
    known = {cls.__name__: cls for cls in classes if is_kind(cls)}
    if name not in known:
        raise ConfigError(where, f"{file} has no {kind} {name!r}", suggestion(name, known))
    return known[name]


def user_class(where: str, place: str, folder: str | None, kind: str, is_kind: Callable[[type], bool]) -> type:
    """Returns the class at ``place``, ``<module>:<class>``, of a module in ``folder``, PYTHONPATH or a package.

    Raises:
        ConfigError: when there is none, or its module fails.
    """
    module, _, name = place.rpartition(":")
    try:
        file = file_of_module(where, place, folder or "")
    except ConfigError:
        if importlib.util.find_spec(module.partition(".")[0] or " ") is None:
            raise
        file = None
    if file is None or {"site-packages", "dist-packages"} & {*file.absolute().parts}:
        cls = getattr(importlib.import_module(module), name, None)
        if not isinstance(cls, type) or not is_kind(cls):
            raise ConfigError(where, f"{module} has no {kind} {name!r}", "give <module>:<class>")
        return cls
    with loading_errors(where, file):
        cls = load_class(where, file, name, kind, is_kind)
    _files[cls] = file.absolute()
    cls.__reduce__ = _reduced  # type: ignore[assignment]
    return cls


_files: dict[type, Path] = {}
"""The file of each class that was loaded from one."""


@contextlib.contextmanager
def _importing_from(file: Path) -> Iterator[None]:
    """Lets the module of ``file`` import the files of its folder."""
    sys.path.append(str(file.absolute().parent))
    try:
        yield
    finally:
        sys.path.remove(str(file.absolute().parent))


def _reduced(settings: Any) -> tuple[Any, ...]:
    """Returns what makes ``settings`` again in another process, which has to load the class first."""
    cls = type(settings)
    return _restored, (str(_files[cls]), cls.__name__, vars(settings))


def _restored(file: str, name: str, values: dict[str, Any]) -> Any:
    cls = user_class(name, f"{Path(file).stem}:{name}", str(Path(file).parent), "class", lambda cls: True)
    made: Any = object.__new__(cls)
    vars(made).update(values)
    return made


def code_files(settings: Any) -> list[Path]:
    """Returns the files of the user's own classes in ``settings``, and those of their folders that they import."""
    if not _files:
        return []
    files: dict[Path, None] = {}
    left: list[Any] = [settings]
    while left:
        item = left.pop()
        if isinstance(item, Mapping):
            left += item.values()
        elif isinstance(item, (list, tuple)):
            left += item
        elif dataclasses.is_dataclass(item) and not isinstance(item, type):
            left += [getattr(item, field.name) for field in dataclasses.fields(item)]
            files |= dict.fromkeys(with_imports(_files[type(item)]) if type(item) in _files else ())
    return sorted(files)


def with_imports(file: Path) -> list[Path]:
    """Returns ``file``, and the files of its folder that it imports, directly or not."""
    files = [file]
    for known in files:
        paths = dict.fromkeys(file.parent / f"{name.replace('.', '/')}.py" for name in _imported_names(known))
        files += [path for path in paths if path.is_file() and path not in files]
    return files


def _imported_names(file: Path) -> list[str]:
    """Returns the modules that ``file`` imports; none of one with an error, which is reported when it is loaded."""
    try:
        nodes = list(ast.walk(ast.parse(file.read_bytes())))
    except SyntaxError:
        return []
    names = [alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names]
    return [*names, *(node.module for node in nodes if isinstance(node, ast.ImportFrom) and node.module)]

"""Classes of the user's own, named ``<module>:<class>`` in a setting.

The module is a file in the folder of the setting, else in a folder of PYTHONPATH. Decoding settings loads nothing: they
may be those of another user's run.
"""

import hashlib
import importlib.util
import os
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from types import TracebackType

from headrace.pipeline.core.errors import ConfigError, HeadraceError, suggestion


class LoadingErrors:
    """Context manager that turns an error of the user's ``file`` in the block into a ConfigError about ``where``."""

    def __init__(self, where: str, file: Path) -> None:
        self._where, self._file = where, file

    def __enter__(self) -> None:
        """Does nothing."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if isinstance(error, Exception | SystemExit) and not isinstance(error, HeadraceError):
            file, line = position(error, self._file)
            message = error.msg if isinstance(error, SyntaxError) else str(error)
            problem = f"{file}, line {line}: {type(error).__name__}: {message}"
            raise ConfigError(self._where, problem, "correct the file") from None


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
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    exec(compile(source, path, "exec", dont_inherit=True), module.__dict__)
    classes = [value for value in vars(module).values() if isinstance(value, type) and value.__module__ == spec.name]
    own = {cls.__name__: cls for cls in classes if is_kind(cls)}
    if name not in own:
        raise ConfigError(where, f"{file} has no {kind} {name!r}", suggestion(name, own))
    return own[name]

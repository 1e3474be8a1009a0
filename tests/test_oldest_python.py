"""The oldest Python that pyproject.toml promises has every name of the standard library that the source uses.

Two ways: the stubs of mypy (typeshed), which state the version of each name, and that Python itself where a machine has
it. mypy checks the source for a newer one, because the newest numpy's own stubs need it.
"""

import ast
import functools
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import mypy
import pytest

ROOT = Path(__file__).parents[1]
SOURCES = sorted(
    path
    for folder in ("pipeline", "data_prep", "train", "src", "benchmarks", "docs", "examples", "tests")
    for path in (ROOT / folder).rglob("*.py")
)
VERSION = re.findall(r'^requires-python = ">=(\d+[.]\d+),', (ROOT / "pyproject.toml").read_text(), re.M)[0]
OLDEST = tuple(map(int, VERSION.split(".")))
STUBS = Path(mypy.__file__).parent / "typeshed/stdlib"

CHECK = """
import importlib, sys
for path in sys.argv[1:]:
    compile(open(path, encoding="utf-8").read(), path, "exec")
for line in sys.stdin.read().split():
    module, _, name = line.rpartition(":")
    found = importlib.import_module(module)
    if not hasattr(found, name):
        importlib.import_module(f"{module}.{name}")
import headrace
"""
"""Compiles all files, and looks up each MODULE:NAME."""


def used(source: str) -> Iterator[tuple[str, str]]:
    """Yields the (module, name) pairs of the standard library that ``source`` imports or reads from a module."""
    tree, modules = ast.parse(source), dict[str, str]()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                modules[alias.asname or alias.name] = alias.name
                yield from [alias.name.rpartition(".")[::2]] if "." in alias.name else [(alias.name, "__name__")]
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            for alias in node.names:
                modules[alias.asname or alias.name] = f"{node.module}.{alias.name}"
                yield node.module, alias.name
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and (module := modules.get(dotted(node.value))):
            yield module, node.attr


def dotted(node: ast.expr) -> str:
    """Returns ``os.path`` of such an expression; an empty text of others."""
    if isinstance(node, ast.Attribute):
        return f"{dotted(node.value)}.{node.attr}"
    return node.id if isinstance(node, ast.Name) else ""


def of_library(pairs: Iterator[tuple[str, str]]) -> set[tuple[str, str]]:
    """Returns those ``pairs`` whose module is one of the standard library."""
    library = sys.stdlib_module_names | {"tomllib"}  # of this Python, which may be the oldest one
    return {(module, name) for module, name in pairs if module.partition(".")[0] in library and stub(module)}


@functools.cache
def stub(module: str) -> Path | None:
    path = STUBS.joinpath(*module.split("."))
    return next((file for file in (path.with_suffix(".pyi"), path / "__init__.pyi") if file.is_file()), None)


@functools.cache
def first_versions() -> dict[str, tuple[int, ...]]:
    """Returns the version of Python in which each module of the standard library was new, and a later one for those
    that the oldest Python had and a newer one lacks."""
    lines = re.findall(r"^([\w.]+): (\d+)\.(\d+)-", (STUBS / "VERSIONS").read_text(), re.M)
    return {module: (int(major), int(minor)) for module, major, minor in lines}


@functools.cache
def known(module: str) -> frozenset[str]:
    """Returns the names that ``module`` has in the oldest Python."""
    file = stub(module)
    assert file is not None
    if first_versions().get(module, OLDEST) > OLDEST:
        return frozenset()
    submodules = {one.stem for one in file.parent.iterdir()} if file.name == "__init__.pyi" else set()
    submodules = {one for one in submodules if first_versions().get(f"{module}.{one}", OLDEST) <= OLDEST}
    names = defined(ast.parse(file.read_text()).body, module)
    return frozenset({*names, *submodules, "__name__", "__file__", "__doc__", "__dict__"})


def defined(body: list[ast.stmt], module: str) -> Iterator[str]:
    """Yields the names that the statements ``body`` of a stub define in the oldest Python."""
    for node in body:
        if isinstance(node, ast.If):
            holds = eval_version(node.test)
            yield from defined(node.body, module) if holds in (True, None) else ()
            yield from defined(node.orelse, module) if holds in (False, None) else ()
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.Assign):
            yield from (target.id for target in node.targets if isinstance(target, ast.Name))
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            yield node.target.id
        elif isinstance(node, ast.Import):
            yield from (alias.asname or alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            package = module if (file := stub(module)) and file.name == "__init__.pyi" else module.rpartition(".")[0]
            inner = ".".join(filter(None, [package if node.level else "", node.module]))
            for alias in node.names:
                yield from known(inner) if alias.name == "*" else [alias.asname or alias.name]


def eval_version(test: ast.expr) -> bool | None:
    """Returns whether a condition of a stub holds in the oldest Python; None for one about something else."""
    text = ast.unparse(test)
    if not re.fullmatch(r"sys\.version_info (>=|<) \(\d+, \d+\)", text):
        return None
    return bool(eval(text.replace("sys.version_info", repr(OLDEST))))


def pythons() -> Iterator[str]:
    """Yields the oldest Python on this machine: on the path, or where pyenv and uv keep theirs. A shim may not run."""
    found = [shutil.which(f"python{VERSION}")]
    for folder in (".pyenv/versions/", ".local/share/uv/python/cpython-"):
        found += map(str, Path.home().glob(f"{folder}{VERSION}*/bin/python{VERSION}"))
    for python in filter(None, found):
        if subprocess.run([python, "-c", ""], capture_output=True).returncode == 0:
            yield python


@functools.cache
def of_all_sources() -> dict[tuple[str, str], Path]:
    return {pair: path for path in SOURCES for pair in of_library(used(path.read_text(encoding="utf-8")))}


@pytest.mark.slow
def test_every_name_is_in_the_oldest_python() -> None:
    assert len(of_all_sources()) > 300
    newer = {
        f"{module}.{name}": str(path) for (module, name), path in of_all_sources().items() if name not in known(module)
    }
    assert newer == {}


@pytest.mark.parametrize(
    ("source", "newer"),
    [
        ("from typing import Self", "typing Self"),
        ("import typing\ntyping.Self", "typing Self"),
        ("import datetime as d\nd.UTC", "datetime UTC"),
        ("from enum import StrEnum", "enum StrEnum"),
        ("from itertools import batched", "itertools batched"),
        ("import asyncio\nasyncio.TaskGroup()", "asyncio TaskGroup"),
        ("import contextlib\nwith contextlib.chdir('x'): ...", "contextlib chdir"),
        ("import hashlib\nhashlib.file_digest", "hashlib file_digest"),
        ("import tomllib", "tomllib __name__"),
        ("from wsgiref import types", "wsgiref types"),
        ("import os.path\nos.path.splitroot", "os.path splitroot"),
        ("from typing import Any, TypeAlias\nfrom itertools import pairwise\nfrom collections.abc import Mapping", ""),
        ("import xml.etree.ElementTree as tree\ntree.parse\nimport os.path\nos.path.join", ""),
        ("import typing_extensions\ntyping_extensions.Self", ""),
    ],
)
def test_newer_names_are_found(source: str, newer: str) -> None:
    assert [
        f"{module} {name}" for module, name in of_library(used(source)) if name not in known(module)
    ] == newer.splitlines()


@pytest.mark.slow
def test_the_oldest_python_agrees() -> None:
    python = next(pythons(), None)
    if python is None:
        pytest.skip(f"this machine has no Python {VERSION}")
    pairs = "\n".join(f"{module}:{name}" for module, name in of_all_sources())
    done = subprocess.run(
        [python, "-I", "-c", f"import sys; sys.path.insert(0, {str(ROOT / 'src')!r})\n{CHECK}", *map(str, SOURCES)],
        input=pairs,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-2000:]

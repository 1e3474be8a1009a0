import os
import subprocess
import sys
from pathlib import Path

import numba
import pytest

from headrace.data_prep.kernel import kernel

DATA_PREP = Path(__file__).parents[2] / "data_prep"


def add_one(value):
    return value + 1


def test_kernel_compiles():
    add = kernel(add_one)
    assert add(1) == 2
    assert add.compiled.nopython_signatures


@kernel
def inner(value):
    return value * 2


@kernel
def outer(value):
    return inner(value) + 1


def test_kernels_call_each_other():
    assert outer(3) == 7


def test_without_a_writable_cache_it_compiles_in_memory(monkeypatch):
    njit = numba.njit

    def without_cache(function, cache=False):
        if cache:
            raise RuntimeError("cannot cache function 'add_one': no locator available")
        return njit(function)

    monkeypatch.setattr(numba, "njit", without_cache)
    with pytest.warns(
        RuntimeWarning, match=r"^no writable folder for numba's cache: add_one is compiled in every process$"
    ):
        assert kernel(add_one)(1) == 2


CALLED = """
from headrace.data_prep.kernel import kernel{decorator}
import numpy as np
STEP, TABLE = {step}, np.array([{entry}])
@kernel{decorator}
def grown(value):
    return value + STEP
"""
CALLER = """
from called import TABLE, grown
from headrace.data_prep.kernel import kernel
@kernel
def result(value):
    return grown(value) * 100 + TABLE[0]
print(result(0))
"""
OF_A_TYPE = """
import sys
from headrace.data_prep.kernel import kernel
State = __import__(sys.argv[1]).State
@kernel
def result(state: State):
    return state.count * 100
print(result(State(2)))
"""


@pytest.mark.slow
@pytest.mark.parametrize("decorator", ["", "_in_place"])
def test_a_change_of_what_a_kernel_names_in_another_file_counts(tmp_path, decorator):
    """numba's cache compares only the file of the kernel itself."""

    def output(step, entry):
        (tmp_path / "called.py").write_text(CALLED.format(decorator=decorator, step=step, entry=entry))
        return run(tmp_path, "caller.py")

    (tmp_path / "caller.py").write_text(CALLER)
    assert [output(1, 5), output(2, 5), output(2, 7), output(1, 5)] == ["105", "205", "207", "105"]


@pytest.mark.slow
def test_a_type_that_moved_is_no_error(tmp_path):
    """The cache of a kernel has the module of the types of its arguments."""
    (tmp_path / "caller.py").write_text(OF_A_TYPE)
    for module in ("before", "after"):
        (tmp_path / f"{module}.py").write_text(
            "from typing import NamedTuple\nclass State(NamedTuple):\n    count: int\n"
        )
        assert run(tmp_path, "caller.py", module) == "200"
        (tmp_path / f"{module}.py").unlink()


CONTENTS = """
import importlib, pathlib, sys
from headrace.data_prep.kernel import Kernel, _codes, _parts
root = pathlib.Path(sys.argv[1])
for path in sorted(root.rglob("*.py")):
    if "kernel import" in path.read_text(encoding="utf-8"):
        name = ".".join(path.relative_to(root).with_suffix("").parts)
        module = importlib.import_module(f"headrace.data_prep.{name}")
        for name, value in sorted(vars(module).items()):
            if isinstance(value, Kernel):
                function = value._function
                parts = [part for code in _codes(function.__code__) for part in _parts(code, function.__globals__)]
                assert not any(" at 0x" in part for part in parts), name
                print(module.__name__, name, value.content)
"""


@pytest.mark.slow
def test_each_process_finds_the_same_caches(tmp_path):
    printed = [
        subprocess.run(
            [sys.executable, "-c", CONTENTS, DATA_PREP],
            env=environment() | {"PYTHONHASHSEED": seed},
            check=True,
            capture_output=True,
            text=True,
        ).stdout
        for seed in ("1", "2")
    ]
    assert printed[0] == printed[1]
    assert printed[0].count("\n") > 100


TWO = """
from headrace.data_prep.kernel import kernel

@kernel
def twice(value):
    return 2 * value

@kernel
def thrice(value):
    return 3 * value

twice(1), thrice(1)
"""


@pytest.mark.slow
def test_compilation_is_said_once(tmp_path):
    (tmp_path / "caller.py").write_text(TWO)
    variables = environment() | {"NUMBA_CACHE_DIR": str(tmp_path / "cache")}
    command = [sys.executable, tmp_path / "caller.py"]
    said = [subprocess.run(command, env=variables, capture_output=True, text=True).stderr for _ in range(2)]
    assert said == ["headrace: compiling once, about half a minute (headrace ready)\n", ""]


def environment():
    return os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}


def run(folder, *arguments):
    """Returns what a script in ``folder`` prints. Its modules are read as they are: Python would trust their times."""
    command = [sys.executable, "-B", *arguments]
    done = subprocess.run(command, cwd=folder, env=environment(), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()

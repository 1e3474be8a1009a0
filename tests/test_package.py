"""The package itself: its import is cheap, its names are typed and documented."""

import inspect
import re
import subprocess
import sys
from pathlib import Path

import pytest

import headrace

ROOT = Path(__file__).parents[1]
CPU_SECONDS = 0.1
IMPORT = """
import sys, time
before, begin = set(sys.modules), time.process_time()
import headrace
print(time.process_time() - begin, *(set(sys.modules) - before))
"""


def test_the_import_is_cheap() -> None:
    done = subprocess.run([sys.executable, "-c", IMPORT], cwd=ROOT / "src", capture_output=True, text=True, check=True)
    seconds, *loaded = done.stdout.split()
    assert float(seconds) < CPU_SECONDS
    assert not [name for name in loaded if name.startswith("headrace.")]


def test_every_name_is_there_and_documented() -> None:
    assert set(headrace.__all__) <= set(dir(headrace))
    for name in headrace.__all__:
        value = getattr(headrace, name)
        assert inspect.getdoc(value), name
        members = inspect.getmembers(value, lambda one: inspect.isfunction(one) or isinstance(one, property))
        own = [(key, one) for key, one in members if not key.startswith("_") and key in vars(value)]
        assert not [f"{name}.{key}" for key, one in own if not one.__doc__]
    assert headrace.__version__


def test_an_unknown_name() -> None:
    assert not hasattr(headrace, "open")


def test_the_package_is_marked_as_typed() -> None:
    assert (ROOT / "src/headrace/py.typed").is_file()


@pytest.mark.parametrize("folder", ["pipeline", "data_prep", "train", "conf", "slurm", "src/headrace"])
def test_the_package_does_not_know_the_annexe(folder: str) -> None:
    """courses/ is a user of the package: it is found by its entry points, as every other package that is installed."""
    texts = {
        path: path.read_bytes()
        for path in (ROOT / folder).rglob("*")
        if path.suffix in (".py", ".yaml", ".json", ".sbatch")
    }
    assert texts
    assert not [path for path, text in texts.items() if re.search(rb"headrace[_-]courses|\bcourses/", text)]

"""The end of a process: its status, its output, and what others registered for it."""

import subprocess
import sys

import pytest

PROGRAM = """
import atexit, sys
from headrace.pipeline.core.signals import quick_exit

class Module:
    def __del__(self):
        print("taken apart", flush=True)

module = Module()
with quick_exit():
    atexit.register(print, "registered")
    print("work")
    {end}
"""


@pytest.mark.parametrize(
    ("end", "status", "error"),
    [
        ("pass", 0, ""),
        ("sys.exit()", 0, ""),
        ("sys.exit(3)", 3, ""),
        ("sys.exit('wrong')", 1, "wrong\n"),
        ("raise RuntimeError('wrong')", 1, "RuntimeError: wrong\n"),
    ],
)
def test_it_ends_with_pythons_status_and_without_pythons_clean_up(end: str, status: int, error: str) -> None:
    command = [sys.executable, "-c", PROGRAM.format(end=end)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert (done.returncode, done.stdout) == (status, "work\nregistered\n")
    assert done.stderr.endswith(error)

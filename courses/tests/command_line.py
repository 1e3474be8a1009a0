"""The commands of this package as a person meets them."""

import importlib
import subprocess

from headrace_courses.program import obey
from tests.command_line import headrace_here


def courses_here(name: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Runs ``python -m headrace_courses.NAME`` in this process."""
    command = getattr(importlib.import_module(f"headrace_courses.{name}"), name)
    return headrace_here(*arguments, obeying=lambda words: obey(command, words))

"""The command line as a person meets it."""

import io
import subprocess
import sys
from collections.abc import Callable, Sequence
from contextlib import redirect_stderr, redirect_stdout

import click
import pytest

from headrace.pipeline.__main__ import main
from headrace.pipeline.command_line.declaration import read
from headrace.pipeline.command_line.group import HEADRACE, obey


def headrace(*arguments: str, text: str = "") -> subprocess.CompletedProcess[str]:
    """A process of its own, which ``text`` is piped to."""
    command = [sys.executable, "-m", "headrace", *arguments]
    return subprocess.run(command, capture_output=True, text=True, input=text, timeout=300)


def headrace_here(
    *arguments: str, text: str = "", obeying: Callable[[Sequence[str]], None] = obey
) -> subprocess.CompletedProcess[str]:
    """The same in this process, without the seconds that a new one imports for."""
    out, err, status = io.TextIOWrapper(io.BytesIO(), encoding="utf-8"), io.StringIO(), 0
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(out), redirect_stderr(err):
        patch.setattr(sys, "argv", ["headrace", *arguments])
        patch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
        try:
            main(obeying)
        except SystemExit as end:
            status = int(end.code or 0)
    out.flush()
    out.seek(0)
    return subprocess.CompletedProcess(arguments, status, out.read(), err.getvalue())


def understood(name: str, *arguments: str) -> tuple[dict[str, object], list[str]]:
    """The arguments that were given to the command ``name``, without those left out, and its overrides."""
    parent = click.Context(HEADRACE, info_name="headrace")
    with read(name).make_context(name, list(arguments), parent) as context:
        return {key: value for key, value in context.params.items() if value}, context.args

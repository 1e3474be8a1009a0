"""Each row of docs/taught.md has a command that works and a test that exists, or the reason why it has none."""

import ast
import functools
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from courses.tests.command_line import courses_here
from headrace.pipeline.command_line.group import COMMANDS
from headrace.pipeline.config import decoded
from headrace.pipeline.configuration.composition import compose
from tests.command_line import headrace_here, understood

ROOT = Path(__file__).parents[2]
RUN = ("config", "help", "plan", "study")
"""Commands that start nothing: they are run as they stand. The settings of the others are composed and checked."""
PROGRAM = "python -m headrace_courses."


def rows() -> Iterator[tuple[str, str, str, str]]:
    """Yields the four cells of each row: what is taught, command, tests, state."""
    for line in (ROOT / "courses/docs/taught.md").read_text(encoding="utf-8").splitlines():
        if line.startswith("| ") and not line.startswith("| taught "):
            taught, command, tests, state = (cell.strip() for cell in line.strip("|").split(" | "))
            yield taught, command.strip("`"), tests, state


ROWS = list(rows())
SHOWN = [row for row in ROWS if not row[3].startswith("left out")]
COMMAND_LINES = sorted({command for _, command, _, _ in SHOWN})


@functools.cache
def functions(path: Path) -> set[str]:
    """Returns the names of the functions of a module."""
    return {node.name for node in ast.parse(path.read_text(encoding="utf-8")).body if isinstance(node, ast.FunctionDef)}


def test_there_are_rows_of_each_state() -> None:
    assert len(ROWS) > 150
    assert {state.partition(":")[0] for *_, state in ROWS} == {"whole", "in part", "left out"}
    assert len({taught for taught, *_ in ROWS}) == len(ROWS)


@pytest.mark.parametrize(("taught", "command", "tests", "state"), ROWS, ids=[row[0] for row in ROWS])
def test_a_row_has_a_command_and_a_test_or_a_reason(taught: str, command: str, tests: str, state: str) -> None:
    if state.startswith("left out"):
        assert re.fullmatch("left out: .+", state)
        assert (command, tests) == ("–", "–")
        return
    assert state == "whole" or re.fullmatch("in part: .+", state)
    assert command.startswith(("headrace ", PROGRAM)), "no command"
    names = re.findall(r"`((?:courses/)?tests/[\w/]+\.py)::(\w+)`", tests)
    assert names, "no test"
    assert "<br>".join(f"`{path}::{name}`" for path, name in names) == tests
    for path, name in names:
        assert (ROOT / path).is_file(), path
        assert name in functions(ROOT / path), f"{path} has no {name}"


@pytest.mark.parametrize("line", COMMAND_LINES)
def test_a_command_is_run_or_understood(line: str, tmp_path: Path) -> None:
    if line.startswith(f"{PROGRAM}board"):
        return  # courses/tests/test_board.py
    is_ours = line.startswith(PROGRAM)
    name, *arguments = shlex.split(line.removeprefix(PROGRAM).removeprefix("headrace "))
    if is_ours or name in RUN:
        to = ["--to", f"{tmp_path}/picture.svg"] if name == "picture" else []
        done = (courses_here if is_ours else headrace_here)(name, *arguments, *to)
        assert done.returncode == 0, done.stderr
        assert done.stdout.strip()
        return
    if name not in COMMANDS:
        name, arguments = "run", [name, *arguments]
    overrides = understood(name, *arguments)[1]
    decoded(compose(overrides))

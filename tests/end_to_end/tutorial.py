"""Reads a tutorial in Markdown as steps and runs them in a terminal.

    ```yaml conf/cleaning/mine.yaml       a file that the reader writes
    ```console                            commands after "$ ", each with the output that the reader sees
    ```console exit=2                     each command of the block ends with this status
    ```console recorded                   the block is part of the recorded session (docs/images/sessions.py)

In an output, numbers and addresses stand for any others, and … for any text: in a line, or as a line for any lines.
"""

import dataclasses
import fcntl
import os
import pty
import re
import select
import shutil
import signal
import struct
import subprocess
import sys
import termios
import time
import venv
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path

REPOSITORY = Path(__file__).parents[2]
COLUMNS, ROWS = 110, 40
COMMAND_SECONDS = 300
OMITTED = "…"
FENCE = re.compile(r"^```(\w+) ?(.*)\n((?:.*\n)*?)```$", re.MULTILINE)
CONTROL = re.compile(r"\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b\[[0-9;?]*[A-Za-z]|\r|\n|[^\x1b\r\n]+")
STYLE = re.compile(r"\x1b\[[0-9;]*m")
ADDRESS, NUMBER, BAR = re.compile(r"\b[0-9a-f]{12}\b"), re.compile(r"\d[\d,.:]*"), re.compile("[━╸╺]+")
UNSETTLED = ("COMPLETING", "PENDING (None)")
"""SLURM's states of a job whose processes have not all ended, and of one that its scheduler has not looked at."""
CLEANS = " --as cleaning "
"""A comparison that cleans pages, by presets that the folder has no more."""
QUESTIONS = (
    "status", "why", "inspect", "runs", "du", "compare", "generate",
)  # fmt: skip
AS_WHAT = re.compile(r"--(as \w+|logs)")
LONGEST_SECONDS = 1_800
"""A tutorial starts more than twenty commands one after the other; other tests run beside it."""


@dataclasses.dataclass(frozen=True)
class File:
    """A file that the reader writes."""

    path: str
    text: str


@dataclasses.dataclass(frozen=True)
class Command:
    """A command that the reader types."""

    text: str
    """The command as it is shown, perhaps on several lines."""
    output: tuple[str, ...]
    """The lines that the tutorial shows."""
    status: int
    """The exit status that the tutorial expects."""
    is_recorded: bool


def steps(markdown: str) -> Iterator[File | Command]:
    """Yields the files and commands of a tutorial, in its order."""
    for kind, arguments, body in FENCE.findall(markdown):
        if kind == "console":
            yield from _commands(arguments, body)
        elif arguments:
            yield File(arguments, body)


def _commands(arguments: str, body: str) -> Iterator[Command]:
    status = re.search(r"exit=(\d+)", arguments)
    for block in re.split(r"^\$ ", body, flags=re.MULTILINE)[1:]:
        command, output = re.fullmatch(r"((?:.*\\\n)*.*)\n?((?s:.*))", block).groups()
        shown = tuple(line for line in output.splitlines() if line.strip())
        yield Command(command, shown, int(status[1]) if status else 0, "recorded" in arguments)


def aligned(shown: Sequence[str], real: Sequence[str]) -> Iterator[tuple[str, str | None]]:
    """Yields each line of ``shown`` with the line of ``real`` that it stands for: the first like it after the one
    before; None if there is none. A line that is only … stands for itself."""
    left = iter(real)
    for line in shown:
        if line.strip() == OMITTED:
            yield line, line
            continue
        pattern = re.compile(".*".join(re.escape(part) for part in shape(line).split(OMITTED)))
        yield line, next((candidate for candidate in left if pattern.fullmatch(shape(candidate))), None)


def shape(line: str) -> str:
    """Returns ``line`` without styles, its numbers, addresses, bars and runs of spaces replaced."""
    for pattern, replacement in ((STYLE, ""), (ADDRESS, "#"), (NUMBER, "0"), (BAR, "━")):
        line = pattern.sub(replacement, line)
    return " ".join(line.split())


class Reader:
    """A person who follows a tutorial in the folder ``own``; a copy of this tree, ``headrace``, is beside it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "own"
        self.folder.mkdir(parents=True)
        self.variables = environment(copy_of_the_tree(folder / "headrace"), folder / "environment")
        self._addresses: dict[str, str] = {}
        """The addresses that the tutorial shows, and those that this reader sees in their place."""

    def follow(self, step: File | Command) -> list[str]:
        """Writes the file, or runs the command and compares its output. Returns the lines in the terminal."""
        if isinstance(step, Command):
            return self.run(step)
        path = self.folder / step.path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(step.text)
        return []

    def run(self, command: Command) -> list[str]:
        """Runs ``command`` in a terminal. Returns its output.

        Raises:
            AssertionError: when its exit status or its output is not that of the tutorial.
        """
        line = ADDRESS.sub(lambda match: self._addresses.get(match[0], match[0]), command.text)
        deadline, is_settled = time.monotonic() + COMMAND_SECONDS, False
        while not is_settled:  # a person asks again
            status, output = in_terminal(line, self.folder, self.variables, COMMAND_SECONDS)
            printed = STYLE.sub("", "\n".join(output))
            is_settled = time.monotonic() > deadline or not any(state in printed for state in UNSETTLED)
        assert status == command.status, f"{line}: exit status {status}\n{printed}"
        for shown, real in aligned(command.output, output):
            assert real is not None, f"{line}: no line like {shown!r} in its output\n{printed}"
            self._addresses |= dict(zip(ADDRESS.findall(shown), ADDRESS.findall(real), strict=False))
        return output


def questions(tutorial: Sequence[File | Command]) -> Collection[Command]:
    """The last question of each kind."""
    commands = (step for step in tutorial if isinstance(step, Command) and step.text.startswith("headrace "))
    asked = [command for command in commands if command.text.split()[1] in QUESTIONS and CLEANS not in command.text]
    return {(command.text.split()[1], *AS_WHAT.findall(command.text)): command for command in asked}.values()


def follow(name: str, folder: Path) -> Reader:
    """Follows the tutorial ``name``, moves all files but the runs away, and asks its questions again.

    The answers are those of the tutorial, except about the state of a run, which was another one then.
    """
    tutorial = list(steps((REPOSITORY / f"docs/tutorial_{name}.md").read_text()))
    assert sum(isinstance(step, Command) for step in tutorial) > 10
    reader = Reader(folder)
    where = 'python -c "import headrace.pipeline as used; print(used.__path__)"'
    reader.run(Command(where, (f"['{folder}/headrace/src/headrace/pipeline']",), 0, False))
    for step in tutorial:
        reader.follow(step)
    (folder / "archive").mkdir()
    for path in sorted(reader.folder.iterdir()):
        if path.name != "runs":
            shutil.move(path, folder / "archive" / path.name)
    assert len(questions(tutorial)) > 4
    for question in questions(tutorial):
        is_about_state = question.text.startswith("headrace status")
        assert reader.run(dataclasses.replace(question, output=() if is_about_state else question.output))
    return reader


def copy_of_the_tree(folder: Path) -> Path:
    """Copies what a clone would hold, and what is not committed yet, to ``folder``.

    Kernels that numba has compiled are copied, too: a first start would compile them for a minute.
    """
    listing = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(listing, cwd=REPOSITORY, check=True, capture_output=True, text=True).stdout
    names += "\0".join(str(path.relative_to(REPOSITORY)) for path in REPOSITORY.glob("data_prep/**/*.nb[ic]"))
    archive = subprocess.run(
        ["tar", "--create", "--null", "--files-from=-", "--ignore-failed-read"],
        cwd=REPOSITORY, input=names.encode(), capture_output=True,
    )  # fmt: skip
    assert archive.returncode in (0, 1), archive.stderr  # 1: another test compiles a kernel and replaces its file
    folder.mkdir(parents=True)
    subprocess.run(["tar", "--extract"], cwd=folder, input=archive.stdout, check=True)
    return folder


def environment(tree: Path, folder: Path) -> dict[str, str]:
    """Makes an environment in ``folder`` whose ``headrace`` is the copy ``tree``; its packages are those of this one.

    Returns:
        The variables of a shell in which it is active.
    """
    venv.create(folder, symlinks=True)
    (packages,) = folder.glob("lib/python*/site-packages")
    shared = [path for path in sys.path if path.endswith(("site-packages", "dist-packages"))]
    (packages / "headrace.pth").write_text("".join(f"{path}\n" for path in (tree / "src", *shared)))
    program = folder / "bin/headrace"
    program.write_text(f'#!/bin/sh\nexec "{folder}/bin/python" -m headrace "$@"\n')
    program.chmod(0o755)
    path = f"{folder}/bin{os.pathsep}{os.environ['PATH']}"
    shell = {"PATH": path, "TERM": "xterm-256color", "WANDB_MODE": "offline"}
    unset = ("COLUMNS", "LINES", "NO_COLOR", "HEADRACE_CONFIG_DIR", "PYTHONPATH")
    return {name: value for name, value in os.environ.items() if name not in unset} | shell


def in_terminal(command: str, folder: Path, variables: Mapping[str, str], seconds: float) -> tuple[int, list[str]]:
    """Runs ``command`` by bash in a terminal of ``COLUMNS`` columns.

    Returns:
        Its exit status, and the lines that the terminal shows at its end, with their styles.

    Raises:
        TimeoutError: when it takes more than ``seconds``. Its processes are killed.
    """
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
    process = subprocess.Popen(
        ["bash", "-c", command], cwd=folder, env=dict(variables), stdin=subprocess.DEVNULL,
        stdout=theirs, stderr=theirs, start_new_session=True,
    )  # fmt: skip
    os.close(theirs)
    data, deadline = bytearray(), time.monotonic() + seconds
    try:
        while chunk := _read(ours, deadline):
            data += chunk
        status = process.wait(max(deadline - time.monotonic(), 1))
    except (TimeoutError, subprocess.TimeoutExpired):
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        raise TimeoutError(f"{command}: more than {seconds} s; its output: {data.decode(errors='replace')}") from None
    finally:
        os.close(ours)
    return status, screen(data.decode(errors="replace"))


def _read(terminal: int, deadline: float) -> bytes:
    """Returns what was printed next; empty after the end of all processes that print to ``terminal``."""
    if not select.select([terminal], [], [], max(deadline - time.monotonic(), 0))[0]:
        raise TimeoutError
    try:
        return os.read(terminal, 65536)
    except OSError:  # Linux reports the end of a terminal as EIO
        return b""


def screen(data: str) -> list[str]:
    """Returns the lines that a terminal shows after ``data``, with their styles: bars that moved are shown once."""
    lines, row, overwrites = [""], 0, False
    for token in CONTROL.findall(data):
        if token == "\n":
            row, overwrites = row + 1, False
            lines += [""] * (row + 1 - len(lines))
        elif token == "\r":
            overwrites = True
        elif re.fullmatch(r"\x1b\[\d*A", token):
            row = max(row - int(token[2:-1] or 1), 0)
        elif token.startswith("\x1b[") and token.endswith("K"):
            lines[row] = ""
        elif not token.startswith("\x1b") or token.endswith("m"):
            lines[row] = token if overwrites else lines[row] + token
            overwrites = False
    return [line.rstrip() for line in lines]

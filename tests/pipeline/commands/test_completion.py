"""Completion as shells ask for it: through environment variables, and a real bash with a real TAB."""

import json
import os
import pty
import select
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.command_line import headrace_here
from tests.other_processes import DEADLINE_SECONDS


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch):
    """``asked(shell, words)`` returns the shell's completions of the last word, which may be empty."""

    def ask(shell: str, *words: str) -> list[str]:
        monkeypatch.setenv("_HEADRACE_COMPLETE", f"{shell}_complete")
        monkeypatch.setenv("COMP_WORDS", "\n".join(["headrace", *words]))
        monkeypatch.setenv("COMP_CWORD", words[-1] if shell == "fish" else str(len(words)))
        return [line for line in headrace_here().stdout.splitlines() if line]

    return ask


def test_commands_and_options(asked) -> None:
    assert asked("bash", "sta") == ["plain,status"]
    options = ("rule", "sample", "seed", "extreme", "score", "around", "only", "run", "help")
    assert asked("bash", "inspect", "clean", "--") == [f"plain,--{name}" for name in options]
    assert asked("bash", "evaluate", "") == asked("bash", "forget", "--ids", "") == ["file,"]


def test_groups_options_and_fields(asked) -> None:
    """Bash splits words at ``=`` and appends a completion after it."""
    assert asked("bash", "mod") == asked("bash", "status", "mod") == ["plain,model="]
    assert asked("bash", "model", "=", "gpt2_") == [f"plain,gpt2_{size}" for size in ("large", "medium", "small", "xl")]
    assert asked("bash", "experiment", "=", "gpt2_small", "clu") == ["plain,cluster="]
    assert asked("bash", "status", "zero", "=") == ["plain,auto", *(f"plain,stage_{stage}" for stage in range(4))]
    assert asked("bash", "training.batch") == ["plain,training.batch_rows="]
    assert asked("bash", "-m", "optimizer.learn") == ["plain,optimizer.learning_rate="]
    assert asked("zsh", "model=gpt1") == ["plain", "model=gpt1", "_"]
    assert asked("fish", "model=gpt1") == ["plain,model=gpt1"]


def test_runs_by_name_or_id(asked, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for identity, name in (("77f90d000000", "small"), ("9c1e2f000000", ""), ("aa0000000000", "`reboot`")):
        file = tmp_path / "runs" / "runs" / identity / "run.json"
        file.parent.mkdir(parents=True)
        file.write_text(json.dumps({"config": {"name": name}}))
    monkeypatch.chdir(tmp_path)
    assert asked("bash", "status", "sm") == asked("bash", "why", "x:1", "--run", "sm") == ["plain,small"]
    assert sorted(asked("bash", "why", "x:1", "--run", "")) == [
        "plain,9c1e2f000000",
        "plain,aa0000000000",
        "plain,small",
    ]
    monkeypatch.chdir("/")
    assert asked("bash", "status", f"root={tmp_path / 'runs'}", "9") == ["plain,9c1e2f000000"]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_of_each_shell(shell: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("_HEADRACE_COMPLETE", f"{shell}_source")
    script = headrace_here().stdout
    assert f"_HEADRACE_COMPLETE={shell}_complete" in script
    if shell != "fish":  # which adds no space after =
        assert {"bash": "compopt -o nospace", "zsh": "compadd -S '' -U"}[shell] in script
    if shutil.which(shell):
        assert subprocess.run([shell, "-n"], input=script, text=True, timeout=300).returncode == 0


@pytest.mark.skipif(shutil.which("bash") is None, reason="no bash on this machine")
def test_a_tab_in_bash(tmp_path: Path) -> None:
    """Two tabs, after ``mod`` and ``gpt2_med``, make a whole override without a space inside."""
    command = tmp_path / "headrace"
    command.write_text(
        f'#!/bin/sh\n[ "$1" = show ] && shift && echo "got:$*:" && exit\nexec {sys.executable} -m headrace "$@"\n'
    )
    command.chmod(0o755)
    process, terminal = pty.fork()
    if not process:
        path = f"{tmp_path}{os.pathsep}{os.environ['PATH']}"
        os.execvpe("bash", ["bash", "--norc", "--noprofile", "-i"], os.environ | {"PATH": path, "TERM": "dumb"})
    os.write(terminal, b'eval "$(_HEADRACE_COMPLETE=bash_source headrace)"; headrace show rea""dy\n')
    wait_for(terminal, b"got:ready:")
    os.write(terminal, b"headrace show mod\tgpt2_med\tranks=2\n")
    shown = wait_for(terminal, b"got:m")
    os.write(terminal, b"exit\n")
    os.close(terminal)
    os.waitpid(process, 0)
    assert b"got:model=gpt2_medium ranks=2:" in shown


def wait_for(terminal: int, sign: bytes) -> bytes:
    """Reads the terminal's output up to the end of the line of ``sign``."""
    shown, deadline = b"", time.monotonic() + DEADLINE_SECONDS
    while sign not in shown or not shown.rpartition(sign)[2].count(b"\n"):
        assert time.monotonic() < deadline, shown
        if select.select([terminal], [], [], 0.1)[0]:
            shown += os.read(terminal, 4096)
    return shown

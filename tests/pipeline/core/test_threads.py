"""Threads of a model that works in the process of a command sleep while they wait, unless the user decides."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from headrace.pipeline.command_line.group import obey
from headrace.pipeline.commands import generate
from headrace.pipeline.core.errors import ConfigError


@pytest.mark.parametrize("own", ["", "ACTIVE"])
@pytest.mark.parametrize(
    ("module", "function", "arguments"),
    [
        (generate, "generated", ["generate", "--prompt", "a", "--model", "{}"]),
        (generate.Chat, "open", ["generate", "--chat", "--model", "{}"]),
    ],
)
def test_threads_sleep_in_commands_that_load_a_model(
    module, function: str, arguments: list[str], own: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def load(*_: object) -> None:
        raise ConfigError("threads", os.environ["OMP_WAIT_POLICY"], "")

    (tmp_path / "config.json").write_text("{}")
    monkeypatch.setattr(module, function, load)
    monkeypatch.setenv("OMP_WAIT_POLICY", own)
    if not own:
        monkeypatch.delenv("OMP_WAIT_POLICY")
    with pytest.raises(ConfigError) as caught:
        obey([argument.format(tmp_path) for argument in arguments])
    assert caught.value.problem == (own or "PASSIVE")


def test_the_commands_load_torch_later() -> None:
    """The variable has an effect only before."""
    commands = "headrace.pipeline.commands.generate"
    code = f"import sys, {commands}; print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"

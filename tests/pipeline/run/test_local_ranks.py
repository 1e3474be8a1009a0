"""The ranks of a command take no number, address or cores from the environment in which it is typed."""

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from headrace.pipeline.run import local_ranks
from headrace.train.weights import Weights
from tests.pipeline.core.test_own_environment import OF_OTHERS


class StartedError(Exception):
    """Stands in for the ranks, which do not start."""


@pytest.mark.parametrize(
    ("ranks", "numbers"),
    [(1, {"RANK": "0", "WORLD_SIZE": "1", "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "1"}), (2, {})],
)
def test_ranks_on_this_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ranks: int, numbers: dict[str, str]
) -> None:
    """The cores of a SLURM task around the command are not those of each rank."""
    for name, value in {**OF_OTHERS, "HEADRACE_RESTARTS": "2"}.items():
        monkeypatch.setenv(name, value)
    seen: dict[str, str] = {}

    def start(command: list[str], env: dict[str, str], **_: Any) -> None:
        seen.update(env)
        raise StartedError

    monkeypatch.setattr(subprocess, "Popen", start)
    with pytest.raises(StartedError):
        local_ranks.launch(Weights.__new__(Weights), tmp_path, tmp_path / "stage.json", ranks)
    found = {name: seen[name] for name in OF_OTHERS if name in seen}
    own = {"HEADRACE_JOB": "7", "HEADRACE_RESTARTS": "2", "HEADRACE_NODE": "n9", "HEADRACE_MAIN_PID": str(os.getpid())}
    assert found == own | numbers

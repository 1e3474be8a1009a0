"""SIGKILL at random moments of training: benchmarks/robustness/kill_anywhere.py takes any number of kills."""

import json
import subprocess
import sys

import pytest

KILL_ANYWHERE = "benchmarks.robustness.kill_anywhere"


@pytest.mark.slow
def test_kills_at_random_moments_change_no_weight(few_documents: str) -> None:
    """This seed draws the parent of the ranks, then the main process of the user's command."""
    command = [sys.executable, "-m", KILL_ANYWHERE, few_documents, "training.steps=30"]
    command += ["--kills", "2", "--seed", "3272", "--ranks", "2"]
    result = subprocess.run(command, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    found = json.loads(result.stdout)
    assert (found["kills"], found["differences"], found["hangs"], found["errors"]) == (2, 0, 0, 0)
    assert found["trainings"] >= 1
    assert sum(found["victims"].values()) == 2

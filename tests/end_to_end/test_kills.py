"""SIGKILL at random moments over the data stages: benchmarks/robustness/kill_data.py takes any number of kills."""

import json
import subprocess
import sys

import pytest

KILL_DATA = "benchmarks.robustness.kill_data"


@pytest.mark.slow
def test_kills_at_random_moments_change_no_byte(few_documents: str) -> None:
    command = [sys.executable, "-m", KILL_DATA, "--kills", "3", "--seed", "3", "--workers", "1,2,5", few_documents]
    result = subprocess.run(command, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    found = json.loads(result.stdout)
    assert (found["kills"], found["differing"], found["unexpected"]) == (3, 0, 0)
    assert found["lines"] >= 1
    assert sum(found["landed"].values()) == 3

"""SIGKILL at random moments over the data stages: see benchmarks/kill_data.py, which takes any number of kills."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.end_to_end.test_line import FEW_DOCUMENTS

KILL_DATA = Path(__file__).parents[2] / "benchmarks" / "kill_data.py"


@pytest.mark.slow
def test_kills_at_random_moments_change_no_byte() -> None:
    command = [sys.executable, str(KILL_DATA), "--kills", "3", "--seed", "3", "--workers", "1,2,5", FEW_DOCUMENTS]
    result = subprocess.run(command, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    found = json.loads(result.stdout)
    assert (found["kills"], found["differing"], found["unexpected"]) == (3, 0, 0)
    assert found["lines"] >= 1
    assert sum(found["landed"].values()) == 3

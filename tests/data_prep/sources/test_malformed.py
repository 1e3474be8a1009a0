"""Broken files through the readers and through the stage: no crash, no hang, no lost record."""

import json
import subprocess
import sys

import pytest

from tests.data_prep.sources.malformed import KINDS, malformed
from tests.odd_inputs import TRIALS

FUZZ = "benchmarks.robustness.fuzz_sources"


def fuzz(inputs: int, *options: str) -> dict[str, object]:
    command = [sys.executable, "-m", FUZZ, "--inputs", str(inputs), *options]
    result = subprocess.run(command, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout)


@pytest.mark.slow
def test_a_few_odd_files_and_settings():
    """Marks, classifiers and settings; larger numbers: benchmarks/robustness/fuzz_files.py."""
    command = [sys.executable, "-m", "benchmarks.robustness.fuzz_files", "--inputs", "600", "--seed", "3"]
    result = subprocess.run(command, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    outcomes = json.loads(result.stdout)["outcomes"]
    assert set(outcomes) == {f"{kind}: {outcome}" for kind in TRIALS for outcome in ("read", "refused")}
    assert sum(outcomes.values()) == 600


def check(found: dict[str, object]) -> None:
    assert (found["crashes"], found["hangs"], found["unaccounted"]) == (0, 0, 0)
    assert found["records"] == found["kept"] + sum(found["dropped"].values())
    assert found["peak_rss_mb"] < 2000


@pytest.mark.slow
def test_a_few_broken_files():
    """Without a global filter the stage is one phase of one task for each kind."""
    found = fuzz(120, "--no-filters", "--workers", "1")
    check(found)
    assert found["records"] > 120
    assert {"broken_compression", "broken_record", "not_json", "no_text", "wrong_length"} <= set(found["dropped"])


@pytest.mark.slow
def test_many_broken_files():
    """With all filters, on several workers. Larger numbers: benchmarks/robustness/fuzz_sources.py."""
    check(fuzz(120, "--seed", "1"))


def test_the_same_number_and_seed_give_the_same_file():
    assert [malformed(number, 5) for number in range(40)] == [malformed(number, 5) for number in range(40)]
    assert malformed(1, 5) != malformed(1, 6)
    assert {malformed(number, 5).kind for number in range(100)} == set(KINDS)

"""Processes that hang, and what their watchdog leaves of them."""

import subprocess
import sys
from pathlib import Path

from headrace.pipeline.core import error_report
from headrace.pipeline.core.errors import RetryableError

ROOT = Path(__file__).parents[3]
PROCESS = """
import re, sys, time
from pathlib import Path
from headrace.train.distributed.watchdog import Watchdog

def hang():
    {hanging}

with Watchdog(0.5, 2.5, 3, Path(sys.argv[1])) as watchdog:
    for step in range(4):
        time.sleep(0.2)
        watchdog.beat(step + 1)
    hang()
"""
HOLDS_THE_INTERPRETER = 're.match("(a+)+$", 60 * "a" + "b")'


def process(folder: Path, hanging: str) -> "subprocess.CompletedProcess[str]":
    code = PROCESS.format(hanging=hanging)
    return subprocess.run([sys.executable, "-c", code, str(folder)], capture_output=True, text=True, cwd=ROOT)


def test_a_hung_process_shows_its_stacks_and_ends(tmp_path: Path) -> None:
    done = process(tmp_path, "time.sleep(1000)")
    assert done.returncode == 75
    reason, *stacks = done.stderr.splitlines()
    assert reason == (
        "headrace: weights: rank 3 finished no step for 0.5 s after step 4;"
        " see the stacks in logs/; run again to go on from the newest checkpoint"
    )
    assert '  File "<string>", line 7 in hang' in stacks
    left = error_report.read(tmp_path)
    assert isinstance(left, RetryableError)
    assert f"headrace: {left}" == reason


def test_a_process_that_holds_the_interpreter_ends_too(tmp_path: Path) -> None:
    done = process(tmp_path, HOLDS_THE_INTERPRETER)
    assert done.returncode == 1
    assert '  File "<string>", line 7 in hang' in done.stderr.splitlines()


LONG_SAVE = """with watchdog.saving():
        time.sleep({seconds})
    time.sleep({after})"""


def test_a_save_has_a_limit_of_its_own(tmp_path: Path) -> None:
    done = process(tmp_path, LONG_SAVE.format(seconds=1.5, after=0.2))
    assert (done.returncode, done.stderr) == (0, "")
    done = process(tmp_path, LONG_SAVE.format(seconds=100, after=0))
    assert done.returncode == 75
    assert done.stderr.startswith("headrace: weights: rank 3 waited for a save for 2.5 s after step 4; see the stacks")


def test_after_a_save_the_limit_of_a_step_holds_again(tmp_path: Path) -> None:
    done = process(tmp_path, LONG_SAVE.format(seconds=0.1, after=100))
    assert done.returncode == 75
    assert done.stderr.startswith("headrace: weights: rank 3 finished no step for 0.5 s after step 4; see the stacks")


def test_a_training_that_is_over_is_watched_no_longer(tmp_path: Path) -> None:
    code = PROCESS.format(hanging="return") + "\ntime.sleep(8)\nsys.exit(7)"
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, cwd=ROOT)
    assert (done.returncode, done.stderr) == (7, "")
    assert error_report.read(tmp_path) is None

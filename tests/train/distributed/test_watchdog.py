"""Processes that hang, and what their watchdog leaves of them."""

import subprocess
import sys
import types
from pathlib import Path

import pytest

from headrace.pipeline.core import work_log
from headrace.pipeline.core.errors import RetryableError
from headrace.pipeline.core.settings import decode
from headrace.train.distributed import watchdog
from headrace.train.loop import trainer
from headrace.train.weights import Weights
from tests.train.test_weights import settings

ROOT = Path(__file__).parents[3]
PROCESS = """
import re, sys, time
from pathlib import Path
from headrace.train.distributed.watchdog import Watchdog

def hang():
    {hanging}

with Watchdog(2.0, 6.0, 3, Path(sys.argv[1])) as watchdog:
    for step in range(4):
        time.sleep(0.6)
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
        "headrace: weights: rank 3 finished no step for 2 s after step 4;"
        " see the stacks in logs/; run again to go on from the newest checkpoint"
    )
    assert '  File "<string>", line 7 in hang' in stacks
    left = work_log.error_of(tmp_path)
    assert isinstance(left, RetryableError)
    assert f"headrace: {left}" == reason


@pytest.mark.slow
def test_a_process_that_holds_the_interpreter_ends_too(tmp_path: Path) -> None:
    done = process(tmp_path, HOLDS_THE_INTERPRETER)
    assert done.returncode == 1
    assert '  File "<string>", line 7 in hang' in done.stderr.splitlines()


LONG_SAVE = """with watchdog.saving():
        time.sleep({seconds})
    time.sleep({after})"""


@pytest.mark.slow
def test_a_save_has_a_limit_of_its_own(tmp_path: Path) -> None:
    done = process(tmp_path, LONG_SAVE.format(seconds=3, after=0))
    assert (done.returncode, done.stderr) == (0, "")
    done = process(tmp_path, LONG_SAVE.format(seconds=1000, after=0))
    assert done.returncode == 75
    assert done.stderr.startswith("headrace: weights: rank 3 waited for a save for 6 s after step 4; see the stacks")


def test_after_a_save_the_limit_of_a_step_holds_again(tmp_path: Path) -> None:
    done = process(tmp_path, LONG_SAVE.format(seconds=0.1, after=1000))
    assert done.returncode == 75
    assert done.stderr.startswith("headrace: weights: rank 3 finished no step for 2 s after step 4; see the stacks")


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The time of a watchdog that is not entered, so it ends nothing."""
    seconds = [0.0]
    monkeypatch.setattr(watchdog, "time", types.SimpleNamespace(monotonic=lambda: seconds[0]))
    monkeypatch.setattr(watchdog.faulthandler, "dump_traceback_later", lambda *_, **__: None)
    return seconds


@pytest.mark.parametrize(("update", "limit"), [(1.0, 180.0), (15.0, 300.0), (200.0, 1800.0)])
def test_without_a_limit_that_of_an_update_follows_from_the_median(tmp_path: Path, clock, update, limit) -> None:
    """The time after an update is not counted, and has the limit of what is not known."""
    watched = watchdog.Watchdog(None, 99.0, 0, tmp_path, unequal_steps=12)
    for step in range(1, 15):
        assert watched.limit_seconds == (1800.0 if step <= 12 else limit)
        clock[0] += 500 if step == 3 else update  # 3 compiles
        for _ in range(2):
            watched.updated(step)
            assert watched.limit_seconds == 1800.0
            clock[0] += 1000
        watched.beat(step)
    with watched.saving():
        assert watched.limit_seconds == 99.0
    assert watched.limit_seconds == limit


def test_the_short_limit_holds_for_updates_of_a_training_and_not_for_what_follows(
    tmp_path: Path, inputs, run_stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watchdog, "MEASURED_UPDATES", 1)
    found: dict[str, list[float]] = {}
    for name in ("apply", "metrics", "save"):
        called = getattr(trainer, name)

        def recorded(job, *arguments, name=name, called=called):
            found.setdefault(name, []).append(job.watchdog.limit_seconds)
            return called(job, *arguments)

        monkeypatch.setattr(trainer, name, recorded)
    run_stage(decode(Weights, settings(steps=4, save_every=2, log_every=1)), inputs, tmp_path / "weights")
    assert found == {"apply": [1800.0, *3 * [180.0]], "metrics": 4 * [1800.0], "save": 2 * [1800.0]}


@pytest.mark.slow
def test_a_training_that_is_over_is_watched_no_longer(tmp_path: Path) -> None:
    code = PROCESS.format(hanging="return") + "\ntime.sleep(9)\nsys.exit(7)"
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, cwd=ROOT)
    assert (done.returncode, done.stderr) == (7, "")
    assert work_log.error_of(tmp_path) is None

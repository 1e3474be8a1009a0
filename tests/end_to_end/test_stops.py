"""Real trainings that are stopped by a signal: the progress is saved, and the same command resumes from there."""

import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest

from headrace.pipeline.core.metrics_file import read_metrics
from tests.end_to_end.test_line import command, exported, finish_here

TRAINING = (
    "until=weights",
    "training.steps=60",
    "training.save_every=1000",
    "training.validate_every=60",
)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory, few_documents: str) -> Path:
    """The root of an undisturbed training."""
    root = tmp_path_factory.mktemp("whole")
    finish_here(root, few_documents, *TRAINING)
    return root


def steps(root: Path) -> list[int]:
    return [row["step"] for path in root.glob("weights/*/metrics.jsonl") for row in read_metrics(path)]


def curve(root: Path) -> list[tuple[int, float, float]]:
    """Step, loss and norm of the gradient of each step: they locate the first step that differs."""
    rows = [row for path in root.glob("weights/*/metrics.jsonl") for row in read_metrics(path)]
    return [(row["step"], row["loss"], row["gradient_norm"]) for row in rows]


def checkpoints(root: Path) -> list[str]:
    return sorted(path.parent.name for path in root.glob("weights/*/checkpoints/step_*/manifest.json"))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("ranks", "signals"),
    [
        (1, [(signal.SIGINT, os.kill), (signal.SIGHUP, os.kill)]),
        (2, [(signal.SIGINT, os.killpg), (signal.SIGTERM, os.kill)]),
    ],
)
def test_a_training_that_is_stopped_twice_loses_no_step(
    whole: Path, tmp_path: Path, few_documents: str, ranks: int, signals
) -> None:
    """The second start resumes on the same number of ranks, the last one on a single rank."""
    for each in whole.iterdir():
        if each.name != "weights":
            shutil.copytree(each, tmp_path / each.name)
    for number, send in signals:
        before = len(steps(tmp_path))
        start = command(tmp_path, few_documents, *TRAINING, f"ranks={ranks}")
        process = subprocess.Popen(start, stderr=subprocess.PIPE, text=True, start_new_session=True)
        while len(steps(tmp_path)) < before + 8:
            assert process.poll() is None, process.communicate()[1]
            time.sleep(0.01)
        send(process.pid, number)
        _, lines = process.communicate(timeout=300)
        last = steps(tmp_path)[-1]
        said = f"headrace: weights: stopped on request at step {last}; run the same command again to go on"
        assert (process.returncode, lines.splitlines()[-1]) == (128 + number, said)
        assert (last < 60, checkpoints(tmp_path)[-1]) == (True, f"step_{last:08d}")
    finish_here(tmp_path, few_documents, *TRAINING)
    assert steps(tmp_path) == list(range(1, 61))
    if ranks == 1:
        assert curve(tmp_path) == curve(whole)
        assert exported(tmp_path) == exported(whole)

"""Trainings on a real SLURM with faults: each resumes by itself and ends like a training without faults."""

import errno
import os
import re
import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.line import Line
from tests.cluster.one_machine import OneMachineSlurm, client, processes_of, until
from tests.cluster.training import WAIT_SECONDS, Training

LIMITS = ("training.hang_seconds=20", "training.save_hang_seconds=30")


def signal_rank(training: Training, rank: int, number: signal.Signals) -> None:
    """Sends ``number`` to one rank only."""
    processes = processes_of(training.job, rank)
    assert processes
    for process in processes:
        os.kill(process, number)


def steps_asked_to_stop_at(training: Training) -> list[str]:
    """Returns the stop that each rank reported, in all attempts, as the name of the step's checkpoint."""
    words = r"^headrace: weights: stopped on request at step (\d+); run the same command again to go on$"
    return [f"step_{int(step):08d}" for step in re.findall(words, training.words, re.M)]


@pytest.mark.timeout(1500)
def test_ranks_are_killed_hang_and_are_asked_to_stop_then_nodes_are_taken_away_and_lost(
    slurm: OneMachineSlurm, local_line: Line, undisturbed: Training, tmp_path: Path
) -> None:
    training = Training.submit(local_line, tmp_path / "root", *LIMITS)
    training.wait_for_step(20, attempt=1)
    signal_rank(training, 1, signal.SIGKILL)
    training.wait_for_step(45, attempt=2)
    signal_rank(training, 1, signal.SIGSTOP)
    training.wait_for_step(70, attempt=3)
    client("scancel", "--batch", "--signal=USR2", str(training.job))  # what SLURM does at --signal=B:USR2@seconds
    training.wait_for_step(95, attempt=4)
    assert training.words.count(": back into the queue\n") == 3
    urgent = ["sbatch", "--partition=urgent", "--nodes=2", "--exclusive", f"--output={tmp_path}/urgent"]
    subprocess.run([*urgent, "--wrap=sleep 1"], check=True, capture_output=True)
    training.wait_for_step(120, attempt=5)
    node = client("squeue", "--noheader", f"--jobs={training.job}", "--format=%N")
    slurm.power_off_node(node)
    try:
        training.wait_for_end("COMPLETED")
    finally:
        slurm.bring_back_node(node)
    starts, words = training.starts, training.words
    assert [attempt for attempt, _ in starts] == [1, 2, 3, 4, 5, 6]
    assert "task 1: Killed" in words
    hung = re.search(
        r"^headrace: weights: rank 0 finished no step for 20 s after step (\d+); see the stacks", words, re.M
    )
    assert hung
    assert 45 <= int(hung[1]) < 150
    assert re.search(r'File ".*/train/loop/trainer.py", line \d+ in train$', words, re.M)
    asked = steps_asked_to_stop_at(training)
    assert asked[:4] == [starts[3][1]] * 2 + [starts[4][1]] * 2, "both ranks save, and no step is done again"
    assert starts[5][1] >= "step_00000100"
    training.same_as(undisturbed)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A root whose weights lie on a disk of 8 MB."""
    weights = tmp_path / "root" / "weights"
    weights.mkdir(parents=True)
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", weights], capture_output=True).returncode:
        pytest.skip("no tmpfs can be mounted here")
    yield weights
    subprocess.run(["umount", "--lazy", weights], check=True)


@pytest.mark.timeout(1500)
def test_the_disk_is_full_until_somebody_makes_room(
    slurm: OneMachineSlurm, local_line: Line, undisturbed: Training, small_disk: Path
) -> None:
    training = Training.submit(local_line, small_disk.parent)
    training.wait_for_step(30, attempt=1)
    with (small_disk / "of somebody else").open("wb") as file:

        def fails_when_filled() -> bool:
            """Fills the disk up to what metrics and logs need, and also the space that becomes free meanwhile."""
            free = shutil.disk_usage(small_disk).free - 200_000
            try:
                os.posix_fallocate(file.fileno(), 0, os.fstat(file.fileno()).st_size + max(1, free))
            except OSError as error:
                if error.errno != errno.ENOSPC:  # else a checkpoint was faster
                    raise
            return "attempt 1 of 3 from step_" in training.words

        assert until(fails_when_filled, WAIT_SECONDS), training.words
    (small_disk / "of somebody else").unlink()
    training.wait_for_end("COMPLETED")
    full = r"could not be saved \(rank \d: .*No space left on device.*\); free space there and run again"
    assert re.search(
        rf"^headrace: {training.folder}/checkpoints: the checkpoint of step \d+ {full}", training.words, re.M
    )
    assert re.search(rf"^headrace: {training.folder}: [\d.]+ GB are free", training.words, re.M)
    training.same_as(undisturbed)

"""Decisions after a failed attempt, without a cluster. tests/cluster/test_scripts.py has the same on a real SLURM."""

import dataclasses
from pathlib import Path

import pytest

from headrace.pipeline.clusters.recovery import (
    RECORD,
    Decision,
    EndedAttempt,
    decide,
    newest_checkpoint,
    number_of_attempt,
)
from headrace.pipeline.core.errors import ArtifactError, ConfigError, RetryableError, TaskError

OLD, NEW = "step_00000010", "step_00000020"
FAILED = EndedAttempt(
    stage="weights", status=1, reported=None, out_of_time=False, before=OLD, after=OLD, number=1, limit=3
)
KILLED = RetryableError("weights", "rank 1 hung", "run again")

OVER = Decision(again=False)
AFTER_NEW = Decision(True, "weights ended early (status 137) after step_00000020: back into the queue")
OUT_OF_TIME = Decision(
    False, "weights saved no checkpoint within its time limit: raise cluster.train_time or save more often"
)


def early(status: int, number: int, start: str = OLD) -> Decision:
    return Decision(
        True, f"weights ended early (status {status}), attempt {number} of 3 from {start}: back into the queue"
    )


@pytest.mark.parametrize(
    ("changes", "decision"),
    [
        ({"status": 0, "after": NEW}, OVER),
        ({}, OVER),
        ({"after": NEW}, OVER),
        ({"status": 75}, early(75, 1)),
        ({"status": 137, "number": 2}, early(137, 2)),
        ({"status": 137, "before": "", "after": ""}, early(137, 1, "the start")),
        ({"status": 137, "after": NEW}, AFTER_NEW),
        ({"status": 137, "after": NEW, "number": 3}, AFTER_NEW),
        ({"status": 137, "after": NEW, "out_of_time": True}, AFTER_NEW),
        (
            {"status": 137, "number": 3},
            Decision(False, "weights stays out of the queue: 3 attempts from step_00000010 saved no checkpoint"),
        ),
        ({"out_of_time": True}, OUT_OF_TIME),
        ({"reported": KILLED}, early(1, 1)),
        ({"reported": TaskError("weights", "the loss of step 7 is nan", "lower the rate"), "status": 137}, OVER),
        ({"reported": ConfigError("zero.stage", "9", "correct it"), "out_of_time": True, "after": NEW}, OVER),
        ({"reported": ArtifactError("packed", "damaged", "remove it"), "status": 75}, OVER),
    ],
)
def test_decisions(changes: dict[str, object], decision: Decision) -> None:
    assert decide(dataclasses.replace(FAILED, **changes)) == decision  # type: ignore[arg-type]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "logs").mkdir()
    return tmp_path


def test_attempts_are_counted_since_the_job_began_from_the_checkpoint(folder: Path) -> None:
    assert number_of_attempt(folder, "7", "", 0) == 1
    assert (folder / RECORD).read_text() == "7 none 0\n"
    assert [number_of_attempt(folder, "7", "", restarts) for restarts in (1, 2)] == [2, 3]
    assert [number_of_attempt(folder, "7", OLD, restarts) for restarts in (3, 4)] == [1, 2]
    assert (folder / RECORD).read_text() == f"7 {OLD} 3\n"
    assert number_of_attempt(folder, "8", OLD, 0) == 1, "another job counts anew"


def test_on_a_disk_that_takes_no_record_all_restarts_count(folder: Path) -> None:
    (folder / RECORD).mkdir()
    assert [number_of_attempt(folder, "7", OLD, restarts) for restarts in (0, 1, 5)] == [1, 2, 6]


@pytest.mark.parametrize("record", [b"7 none x", b"7 none", b"\xff\xfe 7 none 1"])
def test_a_damaged_record_is_none(folder: Path, record: bytes) -> None:
    (folder / RECORD).write_bytes(record)
    assert [number_of_attempt(folder, "7", "", restarts) for restarts in (5, 6)] == [1, 2]


def test_the_newest_checkpoint_is_a_whole_one(folder: Path) -> None:
    assert newest_checkpoint(folder) == ""
    for name in ("step_00000020", "step_00000100", "writing-step_00000200", "step_x", "removing-step_00000300"):
        (folder / "checkpoints" / name).mkdir(parents=True)
    assert newest_checkpoint(folder) == "step_00000100"

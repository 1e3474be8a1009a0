"""Refusals before the first step, on all ranks together."""

import dataclasses
import json
import os
import shutil
import socket
from pathlib import Path
from typing import NamedTuple

import pytest

from headrace.pipeline.core import artifact_files
from headrace.pipeline.core.artifact import Artifact, TaskOutput, finish
from headrace.pipeline.core.artifact_files import FileRecord
from headrace.pipeline.core.errors import ArtifactError, RetryableError
from headrace.train.distributed.processes import Ranks
from headrace.train.engine.optimizers.adamw import AdamW
from headrace.train.loop import preflight
from headrace.train.training_config import TrainingConfig
from tests.train import fork_server

TRAINING = TrainingConfig(steps=1000, batch_rows=8, save_every=100, keep_last=2, keep_every=500)

ADAMW = AdamW(learning_rate=1e-3)


class Usage(NamedTuple):
    total: int
    used: int
    free: int


@pytest.mark.slow
def test_two_ranks_see_the_same_folder_and_settings_or_both_refuse(tmp_path: Path) -> None:
    shared, other, gone = tmp_path / "shared", tmp_path / "other", tmp_path / "gone"
    shared.mkdir()
    other.mkdir()
    cases = [
        [[shared, "a"], [shared, "a"]],
        [[shared, "a"], [other, "a"]],
        [[shared, "a"], [gone, "a"]],
        [[shared, "a"], [shared, "b"]],
        [[shared, "a"], [shared, "a"]],
    ]
    (tmp_path / "cases.json").write_text(json.dumps(cases, default=str))
    done = fork_server.run("tests.train.health_ranks", str(tmp_path / "cases.json"))
    assert done.returncode == 0, done.stderr
    on = f"on rank 1 ({socket.gethostname()}); make it a folder that all nodes share and may write to"
    expected = [
        "healthy",
        "{folder}: does not show what rank 0 writes " + on,
        "{folder}: cannot be written to (No such file or directory) " + on,
        "weights: ranks 0 and 1 differ in settings (a, b); start all ranks from one run.json and one installation",
        "healthy",
    ]
    for rank in range(2):
        folders = [case[rank][0] for case in cases]
        wanted = [text.format(folder=folder) for text, folder in zip(expected, folders, strict=True)]
        wanted += ["absent: No such file or directory"]
        assert json.loads((tmp_path / f"found-{rank}.json").read_text()) == wanted
    assert not list(tmp_path.glob("*/health-*"))


@pytest.fixture
def two_artifacts(tmp_path: Path) -> list[Artifact]:
    found = []
    for name in ("packed", "tokens"):
        out = TaskOutput(tmp_path / name, "rows", 0)
        for number in range(3):
            with out.file(f"rows/{number}") as path:
                path.write_text(f"{name} {number}")
        out.done({})
        found.append(finish(tmp_path / name, {"stage": name}, {"rows": 1}))
    artifact_files.CHECKSUMS.clear()
    return found


@pytest.mark.parametrize("world", [2, 4])
def test_each_file_is_compared_by_one_rank_and_read_by_all(two_artifacts, monkeypatch, world: int) -> None:
    compared: list[str] = []
    measured = FileRecord.of
    monkeypatch.setattr(preflight, "on_each", lambda work: [work()])
    monkeypatch.setattr(FileRecord, "of", lambda path: compared.append(str(path)) or measured(path))
    for rank in range(world):
        artifact_files.CHECKSUMS.clear()  # every rank is a process of its own
        before = len(compared)
        preflight.verify_together(two_artifacts, Ranks(rank, world, rank, world))
        assert len(compared) - before == len(range(rank, 6, world))
        for one in two_artifacts:
            assert len(one.shards("rows")) == 3
        assert len(compared) - before == len(range(rank, 6, world)), "read without another comparison"
    assert len(compared) == len(set(compared)) == 6


def test_ranks_tell_each_other_what_they_found_several_times_over_large_files(two_artifacts, monkeypatch) -> None:
    size = sum(record["bytes"] for one in two_artifacts for record in one.manifest["files"].values())
    monkeypatch.setattr(preflight, "ROUND_BYTES", -(-size // 6))
    heard: list[int] = []
    monkeypatch.setattr(preflight, "on_each", lambda work: [work(), heard.append(len(artifact_files.CHECKSUMS))])
    preflight.verify_together(two_artifacts, Ranks(0, 2, 0, 2))
    assert heard == [1, 2, 3]


def test_a_file_of_another_size_is_refused_after_it_was_trusted(two_artifacts, monkeypatch) -> None:
    monkeypatch.setattr(preflight, "on_each", lambda work: [work()])
    preflight.verify_together(two_artifacts, Ranks(1, 2, 1, 2))
    (two_artifacts[0].folder / "rows/0").write_text("cut")
    with pytest.raises(ArtifactError, match="rows/0: is damaged or missing"):
        two_artifacts[0].path("rows/0")


def test_a_disk_without_room_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """2 last checkpoints, 2 of steps 500 and 1000, 1 on its way: 5 of 12 MB, and 4 MB of export."""
    free = 64_000_000
    monkeypatch.setattr(shutil, "disk_usage", lambda _: Usage(10**12, 0, free))
    preflight.check_room(TRAINING, ADAMW, {"matrix": [(1000, 1000)]}, tmp_path)
    free -= 1
    with pytest.raises(RetryableError) as error:
        preflight.check_room(TRAINING, ADAMW, {"matrix": [(1000, 1000)]}, tmp_path)
    assert str(error.value) == (
        f"{tmp_path}: 0.06 GB are free, the checkpoints to be kept and the export need 0.06 GB;"
        " free disk, or keep fewer (training.keep_last, training.keep_every)"
    )
    for parent in ("weights", "finetuned/seed_2"):
        (tmp_path / parent / "checkpoints/step_00000100/state").mkdir(parents=True)
        (tmp_path / parent / "checkpoints/step_00000100/state/00000.safetensors").write_bytes(b"1")
    for stage in ("weights", "finetuned"):
        preflight.check_room(TRAINING, ADAMW, {"matrix": [(1000, 1000)]}, tmp_path / stage)


ROOMS = {
    "one save, one on its way": ({"steps": 50, "keep_every": None}, 2),
    "the last step is a regular one": ({"steps": 100, "keep_every": None}, 2),
    "two saves": ({"steps": 101, "keep_every": None}, 3),
    "three saves, two are kept": ({"steps": 300, "keep_every": None}, 3),
    "all are kept, more often than saved": ({"steps": 100, "keep_every": 10}, 11),
    "kept at other steps than saved: 100, 150, 200, 300": ({"steps": 300, "keep_every": 150}, 5),
}
"""Changes of TRAINING, and the number of checkpoints for which there must be space."""


@pytest.mark.parametrize("name", ROOMS)
def test_there_is_room_for_the_checkpoints_that_are_kept_and_no_more(name, tmp_path, monkeypatch) -> None:
    changed, number = ROOMS[name]
    training = dataclasses.replace(TRAINING, **changed)
    free = number * 12_000_000 + 4_000_000
    monkeypatch.setattr(shutil, "disk_usage", lambda _: Usage(10**12, 0, free))
    preflight.check_room(training, ADAMW, {"matrix": [(1000, 1000)]}, tmp_path)
    free -= 1
    with pytest.raises(RetryableError):
        preflight.check_room(training, ADAMW, {"matrix": [(1000, 1000)]}, tmp_path)


def test_the_code_of_two_installations_is_compared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "train").mkdir()
    (tmp_path / "train/order.py").write_text("ROUNDS = 8\n")
    monkeypatch.setattr(preflight, "SOURCES", tmp_path)
    before = preflight.code_version()
    os.utime(tmp_path / "train/order.py", (0, 0))
    assert preflight.code_version() == before
    (tmp_path / "train/order.py").write_text("ROUNDS = 9\n")
    assert preflight.code_version() != before

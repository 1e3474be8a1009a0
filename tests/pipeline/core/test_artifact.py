import itertools
import json
import os
import sys
from collections import Counter
from pathlib import Path
from unittest.mock import Mock

import pytest

from headrace.pipeline.core.artifact import (
    UNFINISHED,
    Artifact,
    TaskOutput,
    finish,
    has_older_format,
    missing_tasks,
    part_path,
)
from headrace.pipeline.core.artifact_files import CHECKSUMS
from headrace.pipeline.core.errors import ArtifactError, TaskError
from headrace.pipeline.core.json_files import read_json, read_sealed, write_json

DESCRIPTION = {"stage": "letters", "version": 1, "settings": {}, "inputs": {}, "raw_files": []}


def write_task(folder: Path, task: int, text: str) -> None:
    out = TaskOutput(folder, "write", task)
    with out.scratch("notes", "log") as path:
        path.write_text("for a later phase")
    with out.shard("letters", "txt") as path:
        path.write_text(text)
    out.done(Counter(letters=len(text)))


@pytest.fixture
def artifact(tmp_path: Path) -> Artifact:
    write_task(tmp_path, 0, "abc")
    write_task(tmp_path, 1, "de")
    return finish(tmp_path, DESCRIPTION, {"write": 2})


def test_a_finished_artifact_lists_files_and_sums_counts(artifact: Artifact) -> None:
    assert artifact.counts["letters"] == 5
    assert [path.read_text() for path in artifact.shards("letters")] == ["abc", "de"]
    assert not (artifact.folder / "scratch").exists()


def test_a_manifest_that_cannot_be_read_has_no_older_format(artifact: Artifact, monkeypatch) -> None:
    """It belongs to another user, or its folder was removed after it was listed."""
    write_json(artifact.folder / "manifest.json", {"format": 2})
    assert has_older_format(artifact.folder)
    for error in (PermissionError, FileNotFoundError):
        with monkeypatch.context() as patch:
            patch.setattr(Path, "read_bytes", Mock(side_effect=error))
            assert not has_older_format(artifact.folder)


def test_finish_refuses_while_a_task_is_missing(tmp_path: Path) -> None:
    write_task(tmp_path, 1, "de")
    assert missing_tasks(tmp_path, "write", 3) == [0, 2]
    with pytest.raises(TaskError, match=r"2 of 3 tasks of 'write' are missing \(\[0, 2\] …\); run again"):
        finish(tmp_path, DESCRIPTION, {"write": 3})
    with pytest.raises(ArtifactError, match="is not a finished artifact"):
        Artifact(tmp_path)


def test_a_task_that_fails_leaves_no_file(tmp_path: Path) -> None:
    def fail() -> None:
        with TaskOutput(tmp_path, "write", 0).shard("letters", "txt") as path:
            path.write_text("half")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert list((tmp_path / "letters").iterdir()) == []


@pytest.mark.parametrize("damage", ["flip", "truncate", "remove"])
def test_damage_is_found_before_use(artifact: Artifact, damage: str) -> None:
    path = artifact.folder / "letters/00001.txt"
    CHECKSUMS.clear()
    if damage == "flip":
        path.write_text("dE")
    elif damage == "truncate":
        path.write_text("d")
    else:
        path.unlink()
    with pytest.raises(ArtifactError) as raised:
        artifact.shards("letters")
    assert str(raised.value) == f"{path}: is damaged or missing; remove {artifact.folder} and run again"


def test_a_folder_is_verified_with_all_its_files(artifact: Artifact) -> None:
    assert artifact.verified_folder("letters") == artifact.folder / "letters"
    CHECKSUMS.clear()
    (artifact.folder / "letters/00001.txt").write_text("dE")
    with pytest.raises(ArtifactError, match=r"letters/00001\.txt: is damaged or missing; remove "):
        artifact.verified_folder("letters")
    with pytest.raises(ArtifactError) as raised:
        artifact.verified_folder("letter")
    assert str(raised.value) == f"{artifact.folder}: has no folder 'letter'; check the name against manifest.json"


def test_the_same_work_in_another_order_gives_the_same_bytes(tmp_path: Path) -> None:
    for name, order in (("a", (0, 1)), ("b", (1, 0, 0))):
        for task in order:
            write_task(tmp_path / name, task, ("abc", "de")[task])
        finish(tmp_path / name, DESCRIPTION, {"write": 2})
    files = [sorted(p.relative_to(tmp_path / n) for p in (tmp_path / n).rglob("*") if p.is_file()) for n in "ab"]
    assert files[0] == files[1]
    assert all((tmp_path / "a" / f).read_bytes() == (tmp_path / "b" / f).read_bytes() for f in files[0])


def test_a_manifest_that_is_not_json_is_named(tmp_path: Path) -> None:
    (tmp_path / "manifest.json").write_text("{")
    with pytest.raises(ArtifactError, match=r"manifest.json: is not JSON .*; remove it and run again"):
        Artifact(tmp_path)


def test_the_manifest_holds_no_time_and_no_place(artifact: Artifact) -> None:
    manifest = json.loads((artifact.folder / "manifest.json").read_text())
    assert set(manifest) == {*DESCRIPTION, "format", "phases", "shards", "counts", "files", "seal"}
    assert str(artifact.folder) not in json.dumps(manifest)


def test_every_flipped_bit_of_a_manifest_or_part_is_found_or_harmless(artifact: Artifact) -> None:
    """Only white space instead of other white space is harmless."""
    for path in (artifact.folder / "manifest.json", part_path(artifact.folder, "write", 1)):
        whole = path.read_bytes()
        values = read_sealed(path)
        found = 0
        for at in range(len(whole)):
            for bit in range(8):
                path.write_bytes(whole[:at] + bytes([whole[at] ^ (1 << bit)]) + whole[at + 1 :])
                try:
                    assert read_sealed(path) == values
                    assert whole[at : at + 1].isspace()
                except ArtifactError as error:
                    assert error.where == str(path)  # noqa: PT017
                    found += 1
        assert found > 7 * len(whole)
        path.write_bytes(whole)


def test_a_damaged_part_stops_the_finish(tmp_path: Path) -> None:
    for task in (0, 1):
        write_task(tmp_path, task, ("abc", "de")[task])
    part = part_path(tmp_path, "write", 1)
    part.write_text(part.read_text().replace('"bytes": 2', '"bytes": 3'))
    with pytest.raises(ArtifactError) as raised:
        finish(tmp_path, DESCRIPTION, {"write": 2})
    assert str(raised.value) == f"{part}: is damaged (its seal does not match); remove it and run again"
    assert not (tmp_path / "manifest.json").exists()


READS = {"os.listdir", "os.scandir", "os.getxattr", "os.listxattr"}


def touches(event: str) -> bool:
    """Whether an audited call may change the disk."""
    return event == "open" or (event.startswith(("os.", "shutil.")) and event not in READS)


def die_at_call(number: int) -> None:
    """Ends this process at the ``number``-th call to open, rename, remove, ... a file, which Python audits."""
    calls = itertools.count()

    def hook(event: str, _: object) -> None:
        if touches(event) and next(calls) == number:
            os._exit(1)

    sys.addaudithook(hook)


@pytest.mark.slow
def test_a_kill_before_any_touch_of_the_disk_leaves_nothing_behind(tmp_path: Path) -> None:
    def work(folder: Path) -> None:
        for task in missing_tasks(folder, "write", 2):
            write_task(folder, task, ("abc", "de")[task])
        if not (folder / "manifest.json").exists():
            finish(folder, DESCRIPTION, {"write": 2})

    def content(folder: Path) -> dict[str, bytes]:
        return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}

    work(tmp_path / "whole")
    left_behind = set()
    for deaths in itertools.count():
        folder = tmp_path / str(deaths)
        folder.mkdir()
        (folder / f"{UNFINISHED}of-an-earlier-kill").touch()
        if (child := os.fork()) == 0:
            die_at_call(deaths)
            work(folder)
            os._exit(0)
        killed = os.waitpid(child, 0)[1] != 0
        left_behind |= {path.name.split("-")[-1] for path in folder.rglob(f"{UNFINISHED}*")}
        work(folder)
        assert content(folder) == content(tmp_path / "whole"), deaths
        if not killed:
            break
    assert left_behind == {
        "kill",
        "00000.log",
        "00001.log",
        "00000.txt",
        "00001.txt",
        "00000.json",
        "00001.json",
        "manifest.json",
    }


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
def test_json_never_holds_a_number_that_is_not_finite(tmp_path: Path, value: float) -> None:
    path = tmp_path / "scores.json"
    with pytest.raises(TaskError) as caught:
        write_json(path, {"acc": value})
    assert str(caught.value).startswith(f"{path}: cannot be written as JSON (")
    assert not list(tmp_path.iterdir())
    path.write_text(json.dumps({"acc": value}))  # what older versions left
    with pytest.raises(ArtifactError) as poisoned:
        read_json(path)
    assert str(poisoned.value) == f"{path}: is not JSON ({json.dumps(value)} is not a number); remove it and run again"


def test_json_that_is_nested_too_deep_is_named(tmp_path: Path) -> None:
    (tmp_path / "run.json").write_text("[" * 100_000)
    with pytest.raises(ArtifactError, match=r"run\.json: is not JSON \(maximum recursion depth"):
        read_json(tmp_path / "run.json")

"""A damaged file of a seed is found before it is used, and the seed is trained again. The trainings are stubs."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from headrace.pipeline.core.artifact import Artifact, TaskOutput
from headrace.pipeline.core.artifact_files import CHECKSUMS
from headrace.pipeline.core.errors import ArtifactError, RetryableError
from headrace.pipeline.core.json_files import write_json
from headrace.train.finetune import seed_files, seeds
from headrace.train.finetune.seed_files import SeedFiles
from tests.finished import finished
from tests.train.finetune.small_tasks import ENCODER, sentiment, stage, tokenizer_artifact

SEED_FILES = (
    *(f"seed_1/{name}" for name in ("metrics.jsonl", "result.json", "predictions.jsonl", "test_predictions.jsonl")),
    *(f"scratch/hf_1/{name}" for name in ("config.json", "model.safetensors", "generator/config.json")),
    "scratch/seed_1.json",
)


class Killed(BaseException):
    """Stands in for SIGKILL: nothing of ours catches it."""


class Stub:
    """The training of a seed: it writes what a real one leaves."""

    trained: list[int]
    before_finish: Callable[[SeedFiles], None]

    @staticmethod
    def open(material: Any, seed: int, folder: Path, ranks: Any) -> "Stub":
        Stub.trained.append(seed)
        (folder / "checkpoints").mkdir(exist_ok=True)
        return Stub()

    def train(self, progress: Any, stop: Any) -> Any:
        return SimpleNamespace(step=2)

    def finish(self, state: Any, files: SeedFiles) -> None:
        Stub.before_finish(files)
        (files.exported / "generator").mkdir(parents=True, exist_ok=True)
        for path in (files.exported / "model.safetensors", *(files.folder / f"{name}.jsonl" for name in NAMES)):
            path.write_text(f"{path.name} of seed {files.seed}\n")
        for folder in (files.exported, files.exported / "generator"):
            write_json(folder / "config.json", {"seed": files.seed})
        result = {"seed": files.seed, "scores": {"accuracy": 0.9}, "steps": 2, "rows": 32, "tokens": 99, "best_step": 2}
        write_json(files.folder / "result.json", result)
        files.commit()


NAMES = ("metrics", "predictions", "test_predictions")


def nothing(files: SeedFiles) -> None:
    pass


def killed_in_the_second(files: SeedFiles) -> None:
    if files.seed == 2:
        raise Killed


@pytest.fixture(autouse=True)
def stubs(monkeypatch: pytest.MonkeyPatch) -> None:
    network = SimpleNamespace(model=ENCODER, vocabulary=40)
    splits = SimpleNamespace(overlapping=0)
    material = SimpleNamespace(
        rows=[1] * 16, network=network, splits=splits, cut={}, dropped={}, unread_words={}, has_own_format=False
    )
    monkeypatch.setattr(seeds, "_material", lambda *_: material)
    monkeypatch.setattr(seeds, "_facts", lambda _: {"examples": {"train": 1}})
    monkeypatch.setattr(seeds.preflight, "check", lambda *_: None)
    monkeypatch.setattr(seeds, "SeedTraining", Stub)
    monkeypatch.setattr(os, "fsync", lambda _: None)
    Stub.trained, Stub.before_finish = [], nothing


@pytest.fixture
def run(run_stage, tmp_path_factory) -> Callable[[Path], Artifact]:
    """Fine-tunes from two seeds in a folder."""
    folder = tmp_path_factory.mktemp("inputs")
    tuning = stage(ENCODER, sentiment(folder), seeds=[1, 2])
    tokenizer = tokenizer_artifact(folder / "tokenizer")
    return lambda folder: run_stage(tuning, {"tokenizer": tokenizer}, folder)


@pytest.fixture
def begun(run, tmp_path: Path) -> Path:
    """The folder of a fine-tuning that was killed in its second seed."""
    Stub.before_finish = killed_in_the_second
    with pytest.raises(Killed):
        run(tmp_path / "begun")
    Stub.trained, Stub.before_finish = [], nothing
    return tmp_path / "begun"


def flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(bytes(data))


def cut(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def content(artifact: Artifact) -> dict[str, bytes]:
    return {name: artifact.path(name).read_bytes() for name in artifact.manifest["files"]}


def test_a_whole_seed_is_skipped_and_a_damaged_one_trained_again(begun, run, tmp_path, capfd) -> None:
    found = {str(path.relative_to(begun)) for path in files_of(begun, 1)}
    assert found == {*SEED_FILES}
    shutil.copytree(begun, tmp_path / "whole")
    expected = content(run(tmp_path / "whole"))
    assert Stub.trained == [2]
    assert {"hf/generator/config.json", "seed_2/test_predictions.jsonl", "scores.json"} < expected.keys()
    for damage, name in ((flip, "seed_1/result.json"), (cut, "scratch/hf_1/model.safetensors")):
        folder = tmp_path / damage.__name__
        shutil.copytree(begun, folder)
        damage(folder / name)
        Stub.trained = []
        capfd.readouterr()
        assert content(run(folder)) == expected, name
        assert Stub.trained == [1, 2], name
        assert f"{folder / name}: is damaged or missing; seed 1 is trained again\n" in capfd.readouterr().err


def test_any_damaged_file_makes_the_seed_not_whole(begun, tmp_path, capfd) -> None:
    for damage in (flip, cut, Path.unlink):
        for name in SEED_FILES:
            folder = tmp_path / f"{damage.__name__}-{name.replace('/', '-')}"
            shutil.copytree(begun, folder)
            files = SeedFiles(TaskOutput(folder, "finetuned", 0), 1)
            assert files.are_whole()
            damage(folder / name)
            capfd.readouterr()
            assert not files.are_whole(), name
            if (damage, name) != (Path.unlink, "scratch/seed_1.json"):  # that is a seed that was never committed
                assert capfd.readouterr().err.startswith(f"{folder / name}: is "), name
                assert files_of(folder, 1) == [], name


def files_of(folder: Path, seed: int) -> list[Path]:
    found = [*folder.glob(f"seed_{seed}/**/*"), *folder.glob(f"scratch/*_{seed}/**/*")]
    found += folder.glob(f"scratch/seed_{seed}.json")
    return [path for path in found if path.is_file()]


@pytest.mark.parametrize("name", ["seed_1/predictions.jsonl", "scratch/hf_1/model.safetensors"])
def test_damage_before_the_copy_to_the_artifact_is_found(begun, run, name: str) -> None:
    """It happens while the second seed is trained."""
    Stub.before_finish = lambda files: flip(begun / name)
    with pytest.raises(RetryableError) as error:
        run(begun)
    assert str(error.value) == f"{begun / name}: is damaged or missing; run again: seed 1 is trained again"
    assert not (begun / "manifest.json").exists()
    Stub.trained, Stub.before_finish = [], nothing
    run(begun)
    assert Stub.trained == [1]


def test_checkpoints_are_removed_after_a_kill_that_left_them(run, tmp_path, monkeypatch) -> None:
    def killed(files: SeedFiles) -> None:
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(SeedFiles, "_remove_checkpoints", killed)
        with pytest.raises(Killed):
            run(tmp_path)
    assert (tmp_path / "seed_1/checkpoints").exists()
    run(tmp_path)
    assert Stub.trained == [1, 2]
    assert not list(tmp_path.rglob("checkpoints"))


def test_all_files_are_flushed_to_the_disk_before_their_record(run, tmp_path, monkeypatch) -> None:
    flushed: list[tuple[str, bool]] = []
    record = tmp_path / "scratch/seed_1.json"
    monkeypatch.setattr(
        seed_files, "sync", lambda path: flushed.append((str(path.relative_to(tmp_path)), record.exists()))
    )
    Stub.before_finish = killed_in_the_second
    with pytest.raises(Killed):
        run(tmp_path)
    folders = ("seed_1", "scratch/hf_1", "scratch/hf_1/generator", ".")
    assert {*flushed} == {*((name, False) for name in (*SEED_FILES[:-1], *folders)), ("scratch", True)}


def test_a_damaged_config_of_the_weights_is_named(tmp_path, monkeypatch) -> None:
    """A digit of config.json is another one: training would begin from another model."""
    monkeypatch.undo()
    weights, tokenizer = tmp_path / "weights", tokenizer_artifact(tmp_path / "tokenizer")
    (weights / "hf").mkdir(parents=True)
    for name in ("config.json", "model.safetensors"):
        (weights / "hf" / name).write_text("2")
    inputs = {"tokenizer": tokenizer, "weights": finished(weights)}
    (weights / "hf/config.json").write_text("3")
    CHECKSUMS.clear()
    with pytest.raises(ArtifactError, match=r"hf/config\.json: is damaged or missing; remove "):
        seeds._material(stage(ENCODER, sentiment(tmp_path), from_scratch=False), inputs)

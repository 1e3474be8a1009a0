"""Trainings that go on from a checkpoint of another one."""

import dataclasses
import json
import shutil

import pytest

from headrace.pipeline.core.artifact import Artifact
from headrace.pipeline.core.errors import ArtifactError, ConfigError
from headrace.pipeline.core.json_files import read_json, read_sealed
from headrace.pipeline.core.metrics_file import read_metrics
from headrace.pipeline.core.settings import decode
from headrace.train.data.mixture import Mix, training_data
from headrace.train.data.order import Order
from headrace.train.weights import Weights
from tests.train.conftest import make_inputs
from tests.train.curves import curve
from tests.train.training import specify, train

MODEL = {"layers": 1, "width": 16, "heads": 2, "kv_heads": 2, "context": 64, "mlp_width": 32}
CONSTANT = {"type": "constant", "warmup_steps": 2}
WSD = {"type": "wsd", "warmup_steps": 2, "decay_fraction": 0.25}
COSINE = {"type": "cosine", "warmup_steps": 2}
TRUNK = "0" * 12


def settings(schedule: dict = CONSTANT, optimizer: dict | None = None, **training) -> dict:
    values = {"steps": 8, "batch_rows": 4, "micro_batch_rows": 4, "precision": "fp32", "device": "cpu"}
    values |= {"validate_every": 4, "save_every": 4, "keep_last": 9}
    return {
        "model": MODEL,
        "optimizer": {"type": "adamw", "learning_rate": 1e-2} | (optimizer or {}),
        "schedule": schedule,
        "training": values | training,
        "zero": {"stage": 0},
        "tracking": {"wandb": "off"},
    }


def stage(*arguments, **named) -> Weights:
    return decode(Weights, settings(*arguments, **named))


def same_training(found: Artifact, expected: Artifact) -> None:
    """Equal weights, bit for bit, and equal curves, times aside."""
    assert found.path("hf/model.safetensors").read_bytes() == expected.path("hf/model.safetensors").read_bytes()
    assert curve(found.folder) == curve(expected.folder)


@pytest.fixture
def trunk(tmp_path, inputs, run_stage) -> Artifact:
    """8 steps at a constant rate."""
    return run_stage(stage(), inputs, tmp_path / TRUNK)


def test_more_steps_are_those_of_one_long_training(tmp_path, inputs, run_stage, trunk, capsys):
    longer = run_stage(stage(branch_from=f"{TRUNK}@8", steps=12), inputs, tmp_path / "longer")
    assert f"weights: goes on from step 8 of {trunk.folder} (training.branch_from)\n" in capsys.readouterr().err
    (known,) = read_json(longer.path("origin.json"))["origins"]
    changed = {"training.steps": [8, 12]}
    assert known == {"weights": TRUNK, "step": 8, "rows_seen": 32, "is_branch": True, "changed": changed}
    long = run_stage(stage(steps=12), inputs, tmp_path / "alone" / "long")
    same_training(longer, long)
    assert "origin.json" not in long.manifest["files"]
    again = run_stage(stage(branch_from="longer@12", steps=16), inputs, tmp_path / "again")
    assert [one["weights"] for one in read_json(again.path("origin.json"))["origins"]] == [TRUNK, "longer"]


def test_a_cool_down_of_a_trunk_is_the_end_of_one_long_training(tmp_path, inputs, run_stage, trunk):
    """A constant rate, then a decay over the last two steps: that is what WSD computes without a branch."""
    cooled = run_stage(stage(WSD, branch_from=f"{TRUNK}@8", steps=11), inputs, tmp_path / "cooled")
    whole = run_stage(stage(WSD, steps=11), inputs, tmp_path / "alone" / "whole")
    same_training(cooled, whole)
    (known,) = read_json(cooled.path("origin.json"))["origins"]
    assert (known["is_branch"], known["step"]) == (True, 8)
    changed = {"training.steps": [8, 11], "schedule.type": ["constant", "wsd"], "schedule.decay_fraction": [None, 0.25]}
    assert known["changed"] == changed
    assert (cooled.counts["trunk_steps"], cooled.counts["trunk_rows"], cooled.counts["rows"]) == (8, 32, 44)


def test_a_branch_may_have_another_batch_size(tmp_path, inputs, run_stage, trunk, monkeypatch):
    asked = []
    batch = Order.batch
    monkeypatch.setattr(Order, "batch", lambda *arguments: asked.append(arguments[1:]) or batch(*arguments))
    branch = run_stage(stage(branch_from=f"{TRUNK}@4", steps=7, batch_rows=8), inputs, tmp_path / "branch")
    assert branch.counts["rows"] == 4 * 4 + 3 * 8
    assert [one for one in asked if one[1] == 8] == [(16, 8), (24, 8), (32, 8)]
    state = read_sealed(branch.folder / "checkpoints/step_00000007/manifest.json")
    assert (state["rows_seen"], state["first_row"]) == (40, 0)


def test_other_data_of_a_branch_begin_at_their_first_row(tmp_path, inputs, run_stage, trunk):
    other = make_inputs(tmp_path / "data", run_stage, documents=30)
    branch = run_stage(stage(branch_from=f"{TRUNK}@8", steps=10), other, tmp_path / "branch")
    _, order = training_data(0, other, Mix())
    seen = {row["step"]: row["epoch"] for row in read_metrics(branch.path("metrics.jsonl"))}
    assert list(seen) == list(range(1, 11))
    assert seen[10] == pytest.approx(order.epochs(8)["epoch"])
    state = read_sealed(branch.folder / "checkpoints/step_00000010/manifest.json")
    assert (state["rows_seen"], state["first_row"]) == (40, 32)


@pytest.mark.slow
def test_a_killed_branch_goes_on_to_the_same_weights(tmp_path, inputs, run_stage, trunk):
    """Killed while it takes over the checkpoint, before its own first one, and after it; the trunk goes meanwhile."""
    branch = settings(branch_from=f"{TRUNK}@8", steps=16)
    kills = {
        "takes over": ["headrace.train.checkpoint.store:Path", "rename", 1],
        "before": ["headrace.train.loop.trainer", "apply", 3],
        "after": ["headrace.train.loop.trainer", "apply", 7],
    }
    runs = [[str(tmp_path / "whole"), None]]
    for name, kill in kills.items():
        runs += [[str(tmp_path / name), kill], [str(tmp_path / name), None]]
    ends, said = train(specify(tmp_path, inputs, branch, runs))
    assert ends == [0, *[-9, 0] * len(kills)], said
    for name in kills:
        same_training(Artifact(tmp_path / name), Artifact(tmp_path / "whole"))
    shutil.rmtree(trunk.folder)
    shutil.rmtree(tmp_path / "after/checkpoints/step_00000016")
    (tmp_path / "after/manifest.json").unlink()
    same_training(run_stage(decode(Weights, branch), inputs, tmp_path / "after"), Artifact(tmp_path / "whole"))


REFUSED = {
    "no such step": (
        {"branch_from": f"{TRUNK}@6"},
        "training.branch_from: {folder} has no checkpoint of step 6: there are checkpoints of 4, 8; branch from one of "
        "them (training.keep_every=N keeps more)",
    ),
    "no such weights": (
        {"branch_from": "1" * 12 + "@6"},
        "training.branch_from: {beside}/111111111111 is not there; start its run again (headrace runs lists all), or "
        "restore the folder",
    ),
    "no step": (
        {"branch_from": TRUNK},
        f"training.branch_from: '{TRUNK}' names no step; give a run and a step: RUN@STEP",
    ),
    "too few steps": (
        {"branch_from": f"{TRUNK}@8", "steps": 8},
        "training.steps: is 8, and the branch begins at step 8; give more steps: they are counted from the beginning "
        "of the trunk",
    ),
    "a spike would go back too far": (
        {"branch_from": f"{TRUNK}@8", "steps": 12, "spike_sigma": 6.0, "spike_rollback_every": 5},
        "training.spike_rollback_every: is 5, and the branch begins at step 8, no multiple of it; branch from a "
        "multiple of it, or give null",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_branch_that_cannot_begin_is_refused(name, tmp_path, inputs, run_stage, trunk):
    training, message = REFUSED[name]
    with pytest.raises(ConfigError) as error:
        run_stage(stage(**training), inputs, tmp_path / "branch")
    assert str(error.value) == message.format(folder=trunk.folder, beside=tmp_path)


def test_a_branch_of_another_model_is_refused(tmp_path, inputs, run_stage, trunk):
    wider = stage(branch_from=f"{TRUNK}@8", steps=12)
    wider = dataclasses.replace(wider, model=dataclasses.replace(wider.model, mlp_width=48))
    with pytest.raises(ConfigError) as error:
        run_stage(wider, inputs, tmp_path / "branch")
    wrong = f"weights/{TRUNK} has mlp_width 32, model.mlp_width is 48"
    assert str(error.value) == f"training.branch_from: {wrong}; set model.mlp_width=32"


@pytest.mark.parametrize("name", ["state/00000.safetensors", "manifest.json"])
def test_a_branch_from_a_damaged_checkpoint_is_refused(tmp_path, inputs, run_stage, trunk, name):
    file = trunk.folder / "checkpoints/step_00000008" / name
    file.write_bytes(file.read_bytes()[:-1] + b"x")
    with pytest.raises(ArtifactError, match=r"step_00000008.*; restore it, or branch from another step \(4, 8\)$"):
        run_stage(stage(branch_from=f"{TRUNK}@8", steps=12), inputs, tmp_path / "branch")


def test_a_branch_with_another_tokenizer_is_refused(tmp_path, inputs, run_stage, trunk):
    folder = tmp_path / "tokenizer"
    shutil.copytree(inputs["tokenizer"].folder, folder)
    manifest = json.loads((folder / "manifest.json").read_text())
    other = Artifact(folder)
    other.manifest["counts"] = {**manifest["counts"], "x": 1}
    with pytest.raises(ConfigError) as error:
        run_stage(stage(branch_from=f"{TRUNK}@8", steps=12), {**inputs, "tokenizer": other}, tmp_path / "branch")
    wrong = f"{trunk.folder} has the tokenizer tokenizer, this run tokenizer"
    assert str(error.value) == f"training.branch_from: {wrong}; give the run that one: tokenizer=file"


def test_a_branch_and_initial_weights_are_refused():
    with pytest.raises(ConfigError) as error:
        stage(branch_from=f"{TRUNK}@8", initial_weights="folder")
    wrong = f"is {TRUNK}@8, and initial_weights is folder"
    assert str(error.value) == f"training.branch_from: {wrong}; give one of them, or none"

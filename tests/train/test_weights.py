"""The stage as a whole: it learns, it survives being killed, it refuses what it cannot do right."""

import dataclasses
import fcntl
import importlib.metadata
import math
import os
import shutil
import signal
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from headrace.pipeline.core import work_log
from headrace.pipeline.core.artifact import Artifact
from headrace.pipeline.core.environment import CORES
from headrace.pipeline.core.errors import ArtifactError, ConfigError, RetryableError
from headrace.pipeline.core.json_files import read_json
from headrace.pipeline.core.metrics_file import read_metrics
from headrace.pipeline.core.settings import canonical, decode
from headrace.pipeline.tracking.wandb_run import Tracking
from headrace.train.config import ModelConfig
from headrace.train.data.batches import IGNORED
from headrace.train.data.rows import Rows
from headrace.train.families.hf_folder import load
from headrace.train.objectives.row_reader import MicroBatch, Reader
from headrace.train.training_config import ZeroConfig
from headrace.train.weights import Weights
from tests.pipeline.tracking.wandb_records import offline_runs
from tests.pipeline.tracking.wandb_server import server
from tests.train.curves import curve
from tests.train.training import specify, train

MODEL = ModelConfig(layers=2, width=32, heads=4, kv_heads=4, context=64, mlp_width=64)
BENCHMARKS = {"agreement": {"type": "agreement", "limit": 8}, "validation": {"type": "validation", "limit": 2}}


def settings(**training) -> dict:
    values = {"steps": 12, "batch_rows": 8, "micro_batch_rows": 4, "precision": "fp32", "device": "cpu"}
    values |= {"validate_every": 4, "save_every": 4}
    return {
        "model": dataclasses.asdict(MODEL),
        "optimizer": {"type": "adamw", "learning_rate": 1e-2},
        "schedule": {"type": "cosine", "warmup_steps": 2},
        "training": values | training,
        "zero": {"stage": 1},
        "tracking": {"wandb": "off"},
        "evaluation": {"benchmarks": dict(BENCHMARKS)},
    }


def stage(**training) -> Weights:
    return decode(Weights, settings(**training))


def test_a_model_learns_and_is_exported(tmp_path, inputs, run_stage):
    artifact = run_stage(stage(steps=150, validate_every=50, save_every=60), inputs, tmp_path / "weights")
    rows = read_metrics(artifact.path("metrics.jsonl"))
    assert [row["step"] for row in rows] == list(range(1, 151))
    assert rows[0]["loss"] == pytest.approx(5.55, abs=0.05)  # ln 257
    assert [row["step"] for row in rows if "bits_per_byte" in row] == [50, 100, 150]
    assert rows[-1]["validation_loss"] < 1.5
    assert rows[-1]["bits_per_byte"] == pytest.approx(rows[-1]["validation_loss"] * 1.4427 * 1.01, rel=0.02)
    assert load(artifact.path("hf/config.json").parent).config == MODEL
    kept = sorted(path.name for path in (artifact.folder / "checkpoints").iterdir())
    assert kept == ["step_00000120", "step_00000150"]
    assert (artifact.counts["steps"], artifact.counts["rows"]) == (150, 1200)
    assert artifact.counts["target_tokens"] == rows[-1]["tokens_seen"]
    assert artifact.counts["parameters"] == MODEL.parameters(257)


def test_z_loss_is_trained_and_logged_apart_from_the_loss(tmp_path, inputs, run_stage):
    """The first loss is that of a training without it, later ones are not; its term falls when it weighs enough."""
    plain, with_z = (
        read_metrics(run_stage(decode(Weights, values), inputs, tmp_path / name).path("metrics.jsonl"))
        for name, values in (
            ("plain", settings(steps=6)),
            ("z", settings(steps=6) | {"objective": {"type": "causal", "z_loss": 1.0}}),
        )
    )
    assert with_z[0]["loss"] == plain[0]["loss"]
    assert with_z[-1]["loss"] != plain[-1]["loss"]
    assert all(row["loss"] == row["loss:nll"] for row in with_z)
    assert with_z[0]["loss:z_loss"] == pytest.approx(math.log(257) ** 2, abs=0.5)
    assert with_z[-1]["loss:z_loss"] < 0.8 * with_z[0]["loss:z_loss"]
    assert with_z[-1]["validation_loss"] == with_z[-1]["validation_loss:nll"]
    assert not any("z_loss" in name for name in plain[-1])


def test_a_step_without_targets_makes_no_update(tmp_path, inputs, run_stage, monkeypatch, capsys):
    """All labels of the steps 5 and 6 are masked. Momentum and weight decay would change the weights all the same."""
    read = Reader.read

    def masked(reader: Reader, rows: Rows, numbers: Sequence[int], first_position: int, *rest: int) -> MicroBatch:
        batch = read(reader, rows, numbers, first_position, *rest)
        if reader.purpose != "training" or first_position // 8 + 1 not in (5, 6):
            return batch
        arrays = {**batch.arrays, "targets": np.full_like(batch.arrays["targets"], IGNORED)}
        return MicroBatch(arrays, reader.objective.counts(arrays), batch.tokens)

    monkeypatch.setattr(Reader, "read", masked)
    artifact = run_stage(stage(save_every=4, keep_last=9, steps=8), inputs, tmp_path / "weights")
    rows = {row["step"]: row for row in read_metrics(artifact.path("metrics.jsonl"))}
    assert [step for step, row in rows.items() if "loss" not in row] == [5, 6]
    assert [row.get("steps_without_targets") for row in rows.values()] == [None] * 4 + [1, 2, 2, 2]
    assert "headrace: the rows of step 5 have no target: the weights stay as they are\n" in capsys.readouterr().err
    assert read_json(artifact.folder / "checkpoints/step_00000008/manifest.json")["without_targets"] == [5, 6]


def same(found: Path, expected: Path) -> None:
    """Equal weights, bit for bit, and equal curves, times aside."""
    assert (found / "hf/model.safetensors").read_bytes() == (expected / "hf/model.safetensors").read_bytes()
    assert curve(found) == curve(expected)
    assert sorted(p.name for p in (found / "checkpoints").iterdir()) == ["step_00000008", "step_00000012"]


KILLS = {
    "an update": ["headrace.train.engine.engine:Engine", "step", 7],
    "the copy": ["headrace.train.engine.engine:Engine", "snapshot", 2],
    "the writing": ["headrace.train.engine.fragments", "save_file", 2],
    "the checksums": ["headrace.train.checkpoint.store", "_synced", 2],
    "the manifest": ["headrace.train.checkpoint.store", "write_sealed", 2],
    "the rename": ["headrace.train.checkpoint.store:Path", "rename", 2],
    "the removal of an old one": ["headrace.train.checkpoint.store:shutil", "rmtree", 1],
    "the validation after the last step": ["headrace.train.loop.validation:HeldOutRows", "values", 3],
    "the export": ["headrace.train.families.hf_folder", "save_file", 1],
    "the registration": ["headrace.train.weights:shutil", "copyfile", 3],
    "the scores": ["headrace.train.loop.validation:InLoopEvaluation", "scores", 3],
}


@pytest.mark.slow
def test_killed_anywhere_it_goes_on_to_the_same_weights(tmp_path, inputs):
    runs: list[list[Any]] = [[str(tmp_path / "whole"), None]]
    for name, kill in KILLS.items():
        runs += [[str(tmp_path / name), kill], [str(tmp_path / name), None]]
    ends, said = train(specify(tmp_path, inputs, settings(evaluate_every=3), runs))
    assert ends == [0, *[-9, 0] * len(KILLS)], said
    for name in KILLS:
        same(tmp_path / name, tmp_path / "whole")
    scored = [row["step"] for row in read_metrics(tmp_path / "whole" / "metrics.jsonl") if "evaluation" in row]
    assert scored == [3, 6, 9, 12]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("optimizer", "zero", "mixer"),
    [
        *((optimizer, {"stage": 1}, "attention") for optimizer in ("muon", "adafactor")),
        ("adamw", {"stage": 2, "offload": "optimizer"}, "attention"),
        ("adamw", {"stage": 3}, "lstm"),
    ],
)
def test_two_ranks_of_another_update_are_killed_and_go_on_to_the_same_weights(optimizer, zero, mixer, tmp_path, inputs):
    spec = settings() | {"optimizer": {"type": optimizer, "learning_rate": 1e-2}, "zero": zero}
    spec["model"] |= {"mixer": mixer, "positions": "learned" if mixer == "attention" else "none"}
    runs: list[list[Any]] = [[str(tmp_path / "whole"), None]]
    runs += [[str(tmp_path / "killed"), kill] for kill in (KILLS["an update"], None)]
    ends, said = train(specify(tmp_path, inputs, spec, runs, ranks=2))
    assert ends == [0, -9, 0], said
    same(tmp_path / "killed", tmp_path / "whole")


SIGNALS = ("SIGINT", "SIGHUP")


def test_a_damaged_checkpoint_is_passed_over_loudly(tmp_path, inputs, run_stage, capfd):
    whole, folder = tmp_path / "whole", tmp_path / "damaged"
    for each in (whole, folder):
        run_stage(stage(), inputs, each)
    newest = next((folder / "checkpoints/step_00000012/state").iterdir())
    content = bytearray(newest.read_bytes())
    content[len(content) // 2] ^= 1
    newest.write_bytes(content)
    capfd.readouterr()
    (folder / "manifest.json").unlink()
    (folder / "scratch/hf").mkdir(parents=True)
    (folder / "scratch/hf/tmp-config.json").write_text("{")  # a kill in the middle of the export leaves it
    run_stage(stage(), inputs, folder)
    line = f"weights: goes on from step 8, its newest whole checkpoint (passed over: {newest} is damaged or missing)"
    assert f"{line}\n" in capfd.readouterr().err
    assert work_log.latest_start(folder) == line
    same(folder, whole)
    assert Artifact(folder).manifest["files"].keys() == Artifact(whole).manifest["files"].keys()


def test_a_training_begins_anew_only_where_nothing_was_saved(tmp_path, inputs, run_stage, capfd):
    folder = tmp_path / "weights"
    run_stage(stage(), inputs, folder)
    assert work_log.latest_start(folder) == "weights: begins at step 0: nothing was saved before"
    for path in (folder / "checkpoints").iterdir():
        (path / "manifest.json").write_text("{")
    kept = (folder / "metrics.jsonl").read_bytes()
    with pytest.raises(ArtifactError) as error:
        run_stage(stage(), inputs, folder)
    assert f"; to begin at step 0: rm -r {folder}/checkpoints" in str(error.value)
    assert (folder / "metrics.jsonl").read_bytes() == kept
    shutil.rmtree(folder / "checkpoints")
    run_stage(stage(), inputs, folder)
    reason = "no checkpoint is there, and metrics.jsonl of an earlier start is replaced"
    assert work_log.latest_start(folder) == f"weights: begins at step 0: {reason}"


def test_a_checkpoint_of_other_settings_is_refused(tmp_path, inputs, run_stage):
    """A user has copied it from another training of the same data."""
    other = decode(Weights, settings(steps=4) | {"optimizer": {"type": "adamw", "learning_rate": 1e-3}})
    run_stage(other, inputs, tmp_path / "elsewhere" / "other")
    shutil.copytree(tmp_path / "elsewhere/other/checkpoints", tmp_path / "weights/checkpoints")
    with pytest.raises(ArtifactError, match="step 4 is of a training with other settings: optimizer, training; "):
        run_stage(stage(), inputs, tmp_path / "weights")


def test_a_second_training_of_the_same_folder_is_refused(tmp_path, inputs, run_stage):
    with (tmp_path / "lock").open("w") as held:
        held.write("process 1 on host\n")
        held.flush()
        fcntl.flock(held, fcntl.LOCK_EX)
        with pytest.raises(RetryableError) as error:
            run_stage(stage(), inputs, tmp_path)
    wrong = "another training writes here (process 1 on host)"
    assert str(error.value) == f"{tmp_path}: {wrong}; wait for it or stop it, then run again"


def test_a_request_to_stop_leaves_a_checkpoint(tmp_path, inputs, run_stage, monkeypatch):
    from headrace.train.loop.validation import HeldOutRows

    asked = []

    def validate(validation):
        asked.append(os.kill(os.getpid(), signal.SIGUSR1))
        return {}

    monkeypatch.setattr(HeldOutRows, "values", validate)
    with pytest.raises(RetryableError) as error:
        run_stage(stage(validate_every=3), inputs, tmp_path)
    assert str(error.value) == "weights: stopped on request at step 3; run the same command again to go on"
    assert [path.name for path in (tmp_path / "checkpoints").iterdir()] == ["step_00000003"]
    monkeypatch.undo()
    run_stage(stage(validate_every=3), inputs, tmp_path)


@pytest.mark.slow
def test_every_polite_signal_to_a_rank_saves_at_the_next_step(tmp_path, inputs):
    runs: list[list[Any]] = [[str(tmp_path / "whole"), None]]
    for name in SIGNALS:
        asked = ["headrace.train.engine.engine:Engine", "step", 7, name]
        runs += [[str(tmp_path / name), asked], [str(tmp_path / name), None]]
    ends, said = train(specify(tmp_path, inputs, settings(save_every=1000), runs))
    assert ends == [0, *[1, 0] * len(SIGNALS)], said
    assert said.count("weights: stopped on request at step 7; run the same command again to go on") == len(SIGNALS)
    expected = (tmp_path / "whole/hf/model.safetensors").read_bytes()
    for name in SIGNALS:
        checkpoints = sorted(path.name for path in (tmp_path / name / "checkpoints").iterdir())
        assert checkpoints == ["step_00000007", "step_00000012"]
        assert (tmp_path / name / "hf/model.safetensors").read_bytes() == expected


@pytest.mark.slow
def test_a_server_of_wandb_that_hangs_ends_no_training_and_no_resume(tmp_path, inputs, monkeypatch):
    with server("hangs") as address:
        online = {"WANDB_BASE_URL": address, "WANDB_API_KEY": "0" * 40, "WANDB_INIT_TIMEOUT": "1"}
        for name, value in online.items():
            monkeypatch.setenv(name, value)
        monkeypatch.delenv("WANDB_MODE", raising=False)
        monkeypatch.delenv("WANDB_SERVICE", raising=False)
        folder = str(tmp_path / "online")
        runs = [[folder, ["headrace.train.engine.engine:Engine", "step", 7]], [folder, None]]
        spec = settings() | {"tracking": {"wandb": "online"}}
        ends, said = train(specify(tmp_path, inputs, spec, runs))
    assert ends == [-9, 0], said
    assert "; the run is recorded offline in " in said
    rows = read_metrics(tmp_path / "online/metrics.jsonl")
    assert [row["step"] for row in rows] == list(range(1, 13))


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["offline", "disabled"])
def test_wandb_gets_version_ranks_and_address_or_nothing_at_all(mode, tmp_path, inputs, run_stage, monkeypatch):
    monkeypatch.setenv("WANDB_MODE", mode)
    folder = tmp_path / "weights/0123"
    run_stage(decode(Weights, settings(steps=1) | {"tracking": {}}), inputs, folder)
    found = [run.config for run in offline_runs(tmp_path)]
    expected = [{"address": "0123", "ranks": 1, "headrace": importlib.metadata.version("headrace")}]
    assert [{name: one[name] for name in expected[0]} for one in found] == (expected if mode == "offline" else [])
    assert (folder / "wandb").exists() == (mode == "offline")


def test_another_zero_stage_goes_on(tmp_path, inputs, run_stage):
    folder = tmp_path / "weights"
    zeros = (ZeroConfig(stage=1), ZeroConfig(stage=3, offload="optimizer"), ZeroConfig(stage=0), ZeroConfig(stage=2))
    for number, zero in enumerate(zeros):
        for finished in (folder / "checkpoints").glob("step_00000012"):
            shutil.rmtree(finished)
        run_stage(dataclasses.replace(stage(), zero=zero), inputs, folder)
        losses = [row["loss"] for row in read_metrics(folder / "metrics.jsonl")]
        if number == 0:
            expected = losses
        assert losses == pytest.approx(expected, abs=1e-5)
        assert len(losses) == 12


def test_rows_longer_than_the_context_are_refused(tmp_path, inputs, run_stage):
    short = dataclasses.replace(stage(), model=dataclasses.replace(MODEL, context=32))
    with pytest.raises(ConfigError) as error:
        run_stage(short, inputs, tmp_path)
    assert str(error.value) == "model.context: is 32, the packed rows have 64 tokens; make them equal"


def test_how_it_is_computed_stays_out_of_the_address():
    how = {"micro_batch_rows": 1, "save_every": 1, "keep_last": 9, "device": "auto", "log_every": 7}
    other = dataclasses.replace(
        stage(**how), zero=ZeroConfig(stage=3, offload="optimizer"), tracking=Tracking(wandb="offline")
    )
    assert canonical(other) == canonical(stage())
    assert canonical(stage(seed=1)) != canonical(stage())


@pytest.mark.slow
@pytest.mark.parametrize(("first", "later", "threads"), [(1, 2, 1), (2, 2, 2), (2, 1, 1)])
def test_a_training_goes_on_in_the_threads_that_it_began_with(
    first, later, threads, tmp_path, inputs, run_stage, monkeypatch, capfd
):
    """Or says that it cannot: a sum over two threads is rounded in another order."""
    folder = tmp_path / "weights" / "address"
    for cores in (first, later):
        monkeypatch.setenv(CORES, str(cores))
        run_stage(stage(), inputs, folder)
        (folder / "checkpoints/step_00000012/manifest.json").unlink()
    assert (work_log.start_threads(folder, 0), work_log.start_threads(folder)) == (first, threads)
    said = "goes on in 1 of the 2 threads that it began in, as there are no more cores; its sums are rounded in another"
    assert (said in capfd.readouterr().err) == (threads < first)


def test_dropout_is_the_same_after_a_stop(tmp_path, inputs, run_stage):
    model = dataclasses.replace(MODEL, dropout=0.2)
    for name in ("whole", "stopped"):
        folder = tmp_path / name
        run_stage(dataclasses.replace(stage(), model=model), inputs, folder)
        if name == "stopped":
            (folder / "checkpoints/step_00000012/manifest.json").unlink()
            run_stage(dataclasses.replace(stage(), model=model), inputs, folder)
    same(tmp_path / "stopped", tmp_path / "whole")

"""Spikes: which losses are ones, and that a training that leaves one out goes on as if nothing had been."""

import dataclasses
import math
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch

from pipeline.core.artifact import read_json
from pipeline.core.errors import ConfigError, TaskError
from pipeline.core.settings import decode
from pipeline.core.tracker import read_metrics
from train import distributed, trainer
from train.checkpoint import State
from train.config import AdamW, ModelConfig, TrainingConfig, ZeroConfig
from train.engine import Engine
from train.guards import LossGuard
from train.model.transformer import Transformer, initialize
from train.objectives.causal import DeviceBatch, nll
from train.weights import Weights

GUARD = LossGuard(sigma=6.0, window_steps=8, speaks=False)
START = State(step=0, rows_seen=0, tokens_seen=0, run_id="", data={})
MODEL = ModelConfig(layers=1, width=32, heads=4, kv_heads=4, context=64, mlp_width=64)
SPIKE_STEP, STEPS, BATCH_ROWS = 21, 32, 8


def after(losses: list[float], guard: LossGuard = GUARD) -> State:
    state = START
    for loss in losses:
        is_spike = guard.is_spike(state, loss)
        state = guard.noted(state.after(8, 100), loss, is_spike)
    return state


def test_a_spike_is_more_than_sigma_deviations_above_the_mean() -> None:
    state = after([1.0, 3.0, 1.0, 3.0])  # mean 2, standard deviation of a sample (4/3)^0.5
    limit = 2 + 6 * math.sqrt(4 / 3)
    assert not GUARD.is_spike(state, limit - 1e-9)
    assert GUARD.is_spike(state, limit + 1e-9)
    assert not GUARD.is_spike(state, -100.0)


def test_half_a_window_must_have_gone_by() -> None:
    assert not GUARD.is_spike(after([1.0, 1.1, 1.0]), 1e9)
    assert GUARD.is_spike(after([1.0, 1.1, 1.0, 1.1]), 1e9)


def test_only_the_window_counts_and_a_plateau_is_no_spike_for_ever() -> None:
    state = after([9.0] * 20 + [1.0, 1.1] * 4)
    assert state.losses == [1.0, 1.1] * 4
    state = after([1.0, 1.1] * 4 + [5.0] * 8)
    assert state.left_out == [9]


def test_without_a_sigma_nothing_is_left_out_or_kept() -> None:
    guard = dataclasses.replace(GUARD, sigma=None)
    state = after([1.0, 1.1] * 4 + [1e9], guard)
    assert (state.losses, state.left_out, guard.metrics(state)) == ([], [], {})
    assert state.step == 9


@pytest.mark.parametrize("loss", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("sigma", [None, 6.0])
def test_a_loss_that_is_not_finite_ends_training(loss: float, sigma: float | None) -> None:
    with pytest.raises(TaskError) as error:
        dataclasses.replace(GUARD, sigma=sigma).is_spike(after([1.0] * 9), loss)
    assert str(error.value) == (
        f"weights: the loss of step 10 is {loss}; lower the learning rate, lengthen the warm-up or clip the gradient"
    )


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"spike_sigma": 0.0}, "training.spike_sigma: is 0.0; give a positive number, or null"),
        ({"spike_window_steps": 3}, "training.spike_window_steps: is 3; give at least 4 steps"),
        ({"hang_seconds": 0.0}, "training.hang_seconds: is 0.0; give a positive number"),
    ],
)
def test_settings_that_make_no_sense_are_refused(settings: dict, message: str) -> None:
    with pytest.raises(ConfigError) as error:
        TrainingConfig(steps=1, batch_rows=1, **settings)
    assert str(error.value) == message


def batch(seed: int) -> DeviceBatch:
    """Two rows of one document each."""
    tokens = torch.randint(257, (2, 65), generator=torch.Generator().manual_seed(seed))
    positions = torch.arange(64).expand(2, -1)
    return DeviceBatch(tokens[:, :-1], tokens[:, 1:], positions, torch.zeros_like(positions))


@pytest.mark.parametrize(
    ("stage", "precision"),
    [(0, "fp32"), (1, "fp32"), (2, "fp32"), (3, "fp32"), (1, "bf16"), (2, "bf16"), (3, "bf16")],
)
def test_an_update_that_is_not_applied_changes_nothing(stage: int, precision: str) -> None:
    ranks = distributed.start("cpu")
    training = TrainingConfig(steps=9, batch_rows=4, micro_batch_rows=2, precision=precision)
    weights = []
    for steps, left_out in (([0, 1, 2, 3], 2), ([0, 1, 3], None)):
        model = Transformer(MODEL, 257)
        initialize(model, seed=1)
        engine = Engine(model, AdamW(learning_rate=1e-2), training, ZeroConfig(stage=stage), ranks)
        for step in steps:
            engine.gradient(nll, [batch(2 * step), batch(2 * step + 1)], 4 * 64)
            assert engine.step(1e-2, applied=step != left_out) > 0
        weights.append(dict(engine.weights()))
    for name, value in weights[0].items():
        assert torch.equal(value, weights[1][name]), name


@pytest.fixture
def _spike(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the rows of step ``SPIKE_STEP`` be nonsense."""
    load = trainer.load

    def spoiled(job: trainer.Job, rows_seen: int) -> tuple[list[DeviceBatch], int]:
        batches, targets = load(job, rows_seen)
        if rows_seen == (SPIKE_STEP - 1) * BATCH_ROWS:
            for batch in batches:
                noise = np.random.default_rng(0).integers(0, 257, batch.targets.shape)
                batch.targets[:] = torch.where(batch.targets >= 0, torch.from_numpy(noise), batch.targets)
        return batches, targets

    monkeypatch.setattr(trainer, "load", spoiled)


def stage() -> Weights:
    training = {"steps": STEPS, "batch_rows": BATCH_ROWS, "micro_batch_rows": 4, "precision": "fp32", "device": "cpu"}
    training |= {"save_every": 8, "keep_last": 9, "validate_every": 100, "spike_sigma": 4.0, "spike_window_steps": 10}
    return decode(
        Weights,
        {
            "model": dataclasses.asdict(MODEL),
            "optimizer": {"type": "adamw", "learning_rate": 1e-2},
            "schedule": {"type": "constant", "warmup_steps": 2},
            "training": training,
            "tracking": {"wandb": "off"},
        },
    )


@pytest.mark.usefixtures("_spike")
def test_a_resumed_training_leaves_out_the_same_step_and_ends_with_the_same_weights(
    tmp_path: Path, inputs, run_stage, capsys: pytest.CaptureFixture[str]
) -> None:
    whole, resumed = tmp_path / "whole", tmp_path / "resumed"
    run_stage(stage(), inputs, whole)
    assert f"headrace: the update of step {SPIKE_STEP} is left out: its loss is" in capsys.readouterr().err
    rows = read_metrics(whole / "metrics.jsonl")
    assert [row["steps_left_out"] for row in rows] == [0.0] * (SPIKE_STEP - 1) + [1.0] * (STEPS - SPIKE_STEP + 1)
    assert read_json(whole / f"checkpoints/step_{STEPS:08d}/manifest.json")["left_out"] == [SPIKE_STEP]

    for lost in ((24, 32), (32,)):  # killed between the spike and the save after it; killed later
        shutil.copytree(whole, resumed)
        for step in lost:
            shutil.rmtree(resumed / f"checkpoints/step_{step:08d}")
        run_stage(stage(), inputs, resumed)
        assert (resumed / "hf/model.safetensors").read_bytes() == (whole / "hf/model.safetensors").read_bytes()
        again = read_metrics(resumed / "metrics.jsonl")
        assert [(row["step"], row["loss"], row["steps_left_out"]) for row in again] == [
            (row["step"], row["loss"], row["steps_left_out"]) for row in rows
        ]
        shutil.rmtree(resumed)

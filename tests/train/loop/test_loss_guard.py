"""Loss spikes: their detection, their effects, and a skipped update that changes nothing."""

import dataclasses
import math

import pytest
import torch

from headrace.pipeline.core.errors import ConfigError, TaskError
from headrace.pipeline.core.settings import decode
from headrace.train.checkpoint.state import State
from headrace.train.config import ModelConfig
from headrace.train.distributed import processes
from headrace.train.engine.engine import Engine
from headrace.train.engine.optimizers.adamw import AdamW
from headrace.train.loop.loss_guard import LossGuard
from headrace.train.model.initialization import initialize
from headrace.train.model.transformer import Transformer
from headrace.train.objectives.causal import Causal
from headrace.train.training_config import TrainingConfig, ZeroConfig

SPIKES = TrainingConfig(steps=1, batch_rows=1, spike_sigma=6.0, spike_window_steps=8)
GUARD = LossGuard(SPIKES, prints=False)
START = State(step=0, rows_seen=0, tokens_seen=0, run_id="", data={})
MODEL = ModelConfig(layers=1, width=32, heads=4, kv_heads=4, context=64, mlp_width=64)


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
    assert state.left_out == [[9, 9]]


def test_a_spike_leads_back_to_a_step_that_depends_on_its_own_alone() -> None:
    guard = LossGuard(dataclasses.replace(SPIKES, spike_rollback_every=8), prints=False)
    steps = (1, 7, 8, 9, 16, 17, 24, 25)
    assert [guard.back_to(step) for step in steps] == [0, 0, 0, 8, 8, 16, 16, 24]
    assert [GUARD.back_to(step) for step in steps] == [0] * len(steps)
    spikes = {6: 9.0, 13: 9.0, 15: 30.0, 16: 90.0, 17: 300.0}
    state = after([spikes.get(step, 1.0 + step % 2 / 10) for step in range(1, 20)], guard)
    assert state.left_out == [[6, 6], [9, 15], [9, 16], [17, 17]]
    assert (state.step, state.rows_seen, state.steps_left_out) == (19, 19 * 8, 1 + 8 + 1)


def test_what_is_left_out_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    for every, kept_step in ((None, 10), (4, 8)):
        guard = LossGuard(dataclasses.replace(SPIKES, spike_rollback_every=every), prints=True)
        after([1.0, 1.1] * 5 + [7.25], guard)
        words = f"headrace: the loss of step 11 is 7.2500, usual is 1.0500: back to the weights of step {kept_step}\n"
        assert capsys.readouterr().err == words


def test_without_a_sigma_nothing_is_left_out_or_kept() -> None:
    guard = LossGuard(dataclasses.replace(SPIKES, spike_sigma=None), prints=False)
    state = after([1.0, 1.1] * 4 + [1e9], guard)
    assert (state.losses, state.left_out, guard.metrics(state)) == ([], [], {})
    assert state.step == 9


@pytest.mark.parametrize("loss", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("sigma", [None, 6.0])
def test_a_loss_that_is_not_finite_ends_training(loss: float, sigma: float | None) -> None:
    with pytest.raises(TaskError) as error:
        LossGuard(dataclasses.replace(SPIKES, spike_sigma=sigma), prints=False).is_spike(after([1.0] * 9), loss)
    assert str(error.value) == (
        f"weights: the loss of step 10 is {loss}; lower the learning rate, lengthen the warm-up or clip the gradient"
    )


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            {"spike_rollback_every": 8},
            "training.spike_rollback_every: is 8, and spike_sigma is null: no spikes; give a spike_sigma, or null",
        ),
    ],
)
def test_settings_that_make_no_sense_are_refused(settings: dict, message: str) -> None:
    with pytest.raises(ConfigError) as error:
        decode(TrainingConfig, {"steps": 1, "batch_rows": 1, **settings})
    assert str(error.value) == message


def batch(seed: int) -> dict[str, torch.Tensor]:
    """Two rows of one document each."""
    tokens = torch.randint(257, (2, 65), generator=torch.Generator().manual_seed(seed))
    positions = torch.arange(64).expand(2, -1)
    documents = torch.zeros_like(positions)
    return {"inputs": tokens[:, :-1], "targets": tokens[:, 1:], "positions": positions, "documents": documents}


@pytest.mark.parametrize(
    ("stage", "precision"),
    [(0, "fp32"), (1, "fp32"), (2, "fp32"), (3, "fp32"), (1, "bf16"), (2, "bf16"), (3, "bf16")],
)
def test_an_update_that_is_not_applied_changes_nothing(stage: int, precision: str) -> None:
    ranks = processes.start("cpu")
    training = TrainingConfig(steps=9, batch_rows=4, micro_batch_rows=2, precision=precision)
    weights = []
    for steps, left_out in (([0, 1, 2, 3], 2), ([0, 1, 3], None)):
        model = Transformer(MODEL, 257)
        initialize(model, seed=1)
        engine = Engine(model, AdamW(learning_rate=1e-2), training, ZeroConfig(stage=stage), ranks)
        for step in steps:
            engine.gradient(Causal(), [batch(2 * step), batch(2 * step + 1)], {"nll": 4 * 64})
            assert engine.step(1e-2, applied=step != left_out) > 0
        weights.append(dict(engine.weights()))
    for name, value in weights[0].items():
        assert torch.equal(value, weights[1][name]), name

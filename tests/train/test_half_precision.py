"""fp16 with a loss scale, and gradients that are added in fp32, compared with plain PyTorch that does the same."""

import copy
import math
import types

import numpy as np
import pytest
import torch
from deepspeed.runtime.fp16 import loss_scaler
from deepspeed.runtime.fp16.loss_scaler import DynamicLossScaler

from headrace.pipeline.core.errors import RetryableError, TaskError
from headrace.pipeline.core.metrics_file import read_metrics
from headrace.train.engine import engine
from headrace.train.engine.engine import Engine
from headrace.train.engine.zero import WINDOW_UPDATES, LossScale
from tests.train import plain, updates
from tests.train.equivalence import Distance, distance, launch
from tests.train.test_weights import same, stage
from tests.train.updates import CAUSAL, ROWS, Case, Curve, batch, first_model, select

pytestmark = pytest.mark.usefixtures("one_thread_in_torch")
CLIP = 0.25
OVERFLOWING = 2.0**20
"""A factor with which the first gradients of ``batch`` overflow, and those with half of it do not."""
SUMS = {
    1: [Case("llama-untied", 1, 4, "bf16", CLIP, gradient_sums="fp32")]
    + [
        Case("gpt2-tied", stage, 4, "bf16", CLIP, steps=1, gradient_sums="fp32", offload="optimizer")
        for stage in (1, 2)
    ],
    2: [
        Case(shape, stage, 4, "bf16", CLIP, steps=1, gradient_sums="fp32")
        for shape, stage in (("gpt2-tied", 1), ("gpt2-tied", 2), ("llama-untied", 3))
    ]
    + [
        Case("gpt2-tied", 1, 4, "bf16", CLIP, steps=1, optimizer=optimizer, gradient_sums="fp32")
        for optimizer in ("muon", "adafactor")
    ],
}
FP16 = {
    1: [
        Case("gpt2-tied", 1, 1, "fp16", CLIP, loss_scale=OVERFLOWING),
        Case("gpt2-tied", 2, 4, "fp16", CLIP, loss_scale=OVERFLOWING, offload="optimizer"),
    ],
    2: [
        Case("llama-untied", 1, 4, "fp16", CLIP),
        Case("gpt2-tied", 2, 4, "fp16", None, gradient_sums="fp32"),
        Case("llama-untied", 3, 4, "fp16", CLIP),
    ],
}
OLD = Case("gpt2-tied", 1, 4, "bf16", CLIP, steps=1)
EXACT = Distance(loss=1e-5, norm=1e-6, weights=1e-5)
"""As in fp32. Two ranks make one update: after it, a last bit may round a weight to another number of bf16."""
LIKE_FP16 = Distance(loss=5e-5, norm=5e-4, weights=2e-3)
"""fp16 has 11 significant bits and bf16 8, for which equivalence.py allows ten times as much."""


def learn(case: Case, world: int) -> Curve:
    """Plain PyTorch, one process: each micro-batch's gradient in half precision, and their sum in fp32. In fp16 the
    loss is cross-entropy over all logits, and DeepSpeed's scaler decides the factor."""
    master = first_model(case.shape)
    is_fp16 = case.precision == "fp16"
    model = copy.deepcopy(master).to(torch.float16 if is_fp16 else torch.bfloat16)
    parameters = list(master.parameters())
    optimizer = plain.OPTIMIZERS[case.optimizer](master, case)
    scaler = DynamicLossScaler(case.loss_scale or 2.0**16, WINDOW_UPDATES, 1, 2, consecutive_hysteresis=False)
    losses, norms, weights = [], [], [plain.snapshot(master)]
    for step in range(case.steps):
        whole = batch(step)
        model.load_state_dict(master.state_dict())
        factor = scaler.cur_scale if is_fp16 else 1.0
        targets, sums, loss = int((whole["targets"] >= 0).sum()), [torch.zeros_like(p) for p in parameters], 0.0
        for rows in torch.arange(ROWS).split(ROWS // world // case.accumulation):
            model.zero_grad()
            part = select(whole, rows)
            nll = plain.surprise(model, part) if is_fp16 else CAUSAL.losses(model, part)["nll"]
            (nll / targets * factor).backward()
            loss += nll.item() / targets
            for total, parameter in zip(sums, model.parameters(), strict=True):
                total += parameter.grad.float() / factor
        for parameter, total in zip(parameters, sums, strict=True):
            parameter.grad = total
        norm = float(torch.nn.utils.clip_grad_norm_(parameters, case.gradient_clip or math.inf))
        if math.isfinite(norm):
            plain.make_step(optimizer, step)
        if is_fp16:
            scaler.update_scale(not math.isfinite(norm))
        losses.append(loss)
        norms.append(norm if math.isfinite(norm) else None)
        weights.append(plain.snapshot(master))
    return updates.curve(losses, norms, weights)


def from_first_update(curve: Curve) -> Curve:
    """The curve without the steps before, whose gradients overflowed."""
    start = next(step for step, norm in enumerate(curve.norms) if norm is not None)
    weights = {name: values[start:] for name, values in curve.weights.items()}
    return Curve(curve.losses[start:], curve.norms[start:], curve.first, weights)


@pytest.fixture(autouse=True)
def _scaler_without_ranks(monkeypatch):
    """DeepSpeed's scaler prints on rank 0 of a process group, which this process need not have."""
    monkeypatch.setattr(loss_scaler, "dist", types.SimpleNamespace(get_rank=lambda: 1))


@pytest.fixture(scope="module")
def learnt(tmp_path_factory) -> dict[tuple[int, Case], Curve]:
    cases = {1: SUMS[1] + FP16[1], 2: [*SUMS[2], *FP16[2], OLD]}
    return launch(tmp_path_factory.mktemp("half"), cases)


def named(cases: dict[int, list[Case]]) -> pytest.MarkDecorator:
    pairs = [(world, case) for world, each in cases.items() for case in each]
    return pytest.mark.parametrize(("world", "case"), pairs, ids=[f"{world}-{case.name}" for world, case in pairs])


@pytest.mark.slow
@named(SUMS)
def test_gradients_are_added_in_fp32(world, case, learnt):
    apart = distance(learnt[world, case], learn(case, world))
    assert not apart.exceeded(EXACT), apart


@pytest.mark.slow
def test_gradients_are_added_in_bf16_otherwise(learnt):
    assert distance(learnt[2, OLD], learn(OLD, 2)).exceeded(EXACT) == {"norm", "weights"}


@pytest.mark.slow
@named(FP16)
def test_fp16_learns_what_plain_pytorch_learns(world, case, learnt):
    found, expected = learnt[world, case], learn(case, world)
    overflowed = [norm is None for norm in expected.norms]
    assert [norm is None for norm in found.norms] == overflowed
    assert any(overflowed) is (case.loss_scale is not None)
    assert not all(overflowed)
    apart = distance(from_first_update(found), from_first_update(expected))
    assert not apart.exceeded(LIKE_FP16), apart


def test_the_scale_is_that_of_deepspeed():
    generator = np.random.default_rng(0)
    ours, theirs = LossScale(2.0**5), DynamicLossScaler(2.0**5, WINDOW_UPDATES, 1, 2, consecutive_hysteresis=False)
    for _ in range(20_000):
        overflowed = bool(generator.random() < 1 / 1500) and theirs.cur_scale > 1
        ours = ours.after(overflowed)
        theirs.update_scale(overflowed)
        assert ours.factor == theirs.cur_scale
    assert ours.overflows > 5


def test_an_overflow_with_the_smallest_scale_ends_it():
    scale = LossScale(2.0).after(True).after(True)
    assert scale == LossScale(1.0, patience=1, overflows=2)
    with pytest.raises(TaskError) as error:
        scale.after(True)
    assert str(error.value) == (
        "weights: the gradient overflows in fp16 with the smallest loss scale, 1; "
        "lower the learning rate, or use training.precision=bf16 or fp32"
    )


@pytest.mark.slow
def test_a_resumed_training_scales_as_one_that_was_not_interrupted(tmp_path, inputs, run_stage, monkeypatch):
    """Updates are left out before and after the checkpoint of step 4; they are no loss spikes."""
    monkeypatch.setattr(engine, "LossScale", lambda: LossScale(2.0**24))
    fp16 = stage(precision="fp16", spike_sigma=3.0, spike_window_steps=4)
    whole = run_stage(fp16, inputs, tmp_path / "whole")
    gradient, calls = Engine.gradient, []

    def stopping(self, *arguments):
        calls.append(1)
        if len(calls) == 7:
            raise RetryableError("weights", "stopped", "run again")
        return gradient(self, *arguments)

    with monkeypatch.context() as patch:
        patch.setattr(Engine, "gradient", stopping)
        with pytest.raises(RetryableError):
            run_stage(fp16, inputs, tmp_path / "resumed")
    resumed = run_stage(fp16, inputs, tmp_path / "resumed")
    same(resumed.folder, whole.folder)
    rows = read_metrics(whole.path("metrics.jsonl"))
    left_out = [row["step"] for row in rows if "gradient_norm" not in row]
    assert [row["overflows"] for row in rows] == [sum(step <= row["step"] for step in left_out) for row in rows]
    assert {row["steps_left_out"] for row in rows} == {0}
    assert left_out[0] <= 4 < left_out[-1] < 12

"""The engine's messages, and its parts that work alone; test_equivalence.py compares its training."""

import datetime
import os

import pytest
import torch
from torch.distributed import distributed_c10d

from headrace.pipeline.core.errors import TaskError
from headrace.pipeline.core.settings import settings
from headrace.train.distributed import processes
from headrace.train.engine import partitions
from headrace.train.engine.engine import Engine
from headrace.train.engine.optimizers.adamw import AdamW
from headrace.train.objectives.causal import Causal
from headrace.train.training_config import TrainingConfig, ZeroConfig
from tests.train.updates import CAUSAL, ROWS, batch, first_model, update

COUNTS = {"nll": 100}


@settings
class Scaled(Causal):
    """The causal objective, its loss multiplied by ``factor``."""

    factor: float

    def losses(self, model, batch):
        return {name: loss * self.factor for name, loss in super().losses(model, batch).items()}


def engine(
    stage: int | str = 1, precision: str = "fp32", gradient_clip: float | None = 1.0, offload: str = "none"
) -> Engine:
    """An engine on this process alone, without a launcher."""
    ranks = processes.start("cpu")
    training = TrainingConfig(
        steps=1, batch_rows=ROWS, micro_batch_rows=ROWS, precision=precision, gradient_clip=gradient_clip
    )
    zero = ZeroConfig(stage=stage, offload=offload)
    return Engine(first_model("gpt2-tied"), AdamW(learning_rate=1e-3), training, zero, ranks)


@pytest.mark.parametrize("stage", [0, 1, 2, 3])
def test_a_process_alone_needs_no_launcher(stage, monkeypatch):
    for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK"):
        monkeypatch.delenv(name, raising=False)
    _, norm = update(engine(stage), CAUSAL, [batch(0)], COUNTS, 1e-3)
    assert norm > 0
    assert not {"RANK", "WORLD_SIZE"} & set(os.environ)


@pytest.mark.parametrize(
    ("stage", "precision", "offload"),
    [
        *((0, "fp32", "none"), (1, "fp32", "none"), (2, "bf16", "none"), (3, "fp32", "none")),
        *((2, "bf16", "optimizer"), (3, "fp32", "optimizer")),
    ],
)
@pytest.mark.parametrize("value", ["inf", "nan"])
def test_a_gradient_that_is_not_finite_ends_it(stage, precision, offload, value):
    with pytest.raises(TaskError) as error:
        update(engine(stage, precision, offload=offload), Scaled(factor=float(value)), [batch(0)], COUNTS, 1e-3)
    assert str(error.value).startswith("weights: the gradient's norm is ")
    assert str(error.value).endswith("; lower the learning rate or lengthen the warm-up")


@pytest.mark.parametrize(
    ("stage", "precision"), [(0, "fp32"), (1, "fp32"), (1, "bf16"), (2, "bf16"), (3, "fp32"), (3, "bf16")]
)
def test_a_gradient_of_nothing_is_a_gradient(stage, precision):
    trained = engine(stage, precision)
    _, norm = update(trained, Scaled(factor=0.0), [batch(0)], COUNTS, 0.0)
    assert norm == 0
    _, norm = update(trained, CAUSAL, [batch(0)], COUNTS, 1e-3)
    assert norm > 0


def test_what_trained_here_before_changes_no_bit():
    def losses(stage: int) -> list[float]:
        trained = engine(stage, "bf16")
        return [update(trained, CAUSAL, [batch(step)], COUNTS, 1e-2)[0]["nll"] for step in range(3)]

    first = losses(1)
    third_stage = losses(3)
    assert torch.nn.functional.linear is torch._C._nn.linear
    assert losses(1) == first
    assert losses(3) == third_stage


@pytest.mark.parametrize(("stage", "precision"), [(1, "bf16"), (2, "fp32"), (3, "bf16")])
def test_the_cpu_computes_the_same_bits_and_leaves_out_what_it_must(stage, precision):
    """Without clipping, whose norm is added up in another order."""
    found, expected = (engine(stage, precision, gradient_clip=None, offload=kind) for kind in ("optimizer", "none"))
    for trained in (found, expected):
        update(trained, CAUSAL, [batch(0)], COUNTS, 1e-3)
    before = dict(found.weights())
    found.gradient(CAUSAL, [batch(1)], COUNTS)
    found.step(1e-3, applied=False)
    assert all(torch.equal(values, before[name]) for name, values in found.weights())
    for trained in (found, expected):
        update(trained, CAUSAL, [batch(2)], COUNTS, 1e-3)
    after = dict(expected.weights())
    assert all(torch.equal(values, after[name]) for name, values in found.weights())


@pytest.mark.parametrize(("clip", "tolerance"), [(None, 0.0), (0.25, 1e-6)])
def test_alone_in_fp32_auto_learns_what_stage_1_learns(clip, tolerance):
    """Bit for bit, but for the norm that clipping divides by: it is summed in another order."""
    learnt = []
    for stage in ("auto", 1):
        trained = engine(stage, gradient_clip=clip)
        losses = [update(trained, CAUSAL, [batch(step)], COUNTS, 1e-3)[0]["nll"] for step in range(5)]
        learnt.append([torch.tensor(losses), *(values for _, values in trained.weights())])
    torch.testing.assert_close(learnt[0], learnt[1], rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("stage", [1, 2, 3])
def test_the_master_weights_begin_as_the_weights_that_were_given(stage):
    given = {name: values.detach().clone() for name, values in first_model("gpt2-tied").named_parameters()}
    trained = engine(stage, "bf16")
    assert any(not torch.equal(values, values.bfloat16().float()) for values in given.values())
    assert all(torch.equal(values, given[name]) for name, values in trained.weights())
    update(trained, CAUSAL, [batch(0)], COUNTS, 1e-3)
    assert {int(state["step"]) for state in partitions.torch_optimizer(trained._engine, stage).state.values()} == {1}


def test_every_group_of_ranks_waits_longer_than_the_watchdog():
    """The limits of a step and of a save are 30 minutes."""

    def timeouts() -> set[datetime.timedelta]:
        return {group._get_backend(torch.device("cpu")).options._timeout for group in groups}

    engine()
    groups = distributed_c10d._world.pg_map
    assert len(groups) > 1
    assert timeouts() == {datetime.timedelta(minutes=35)}
    processes.wait_longer_than(60)
    assert timeouts() == {processes.TIMEOUT}

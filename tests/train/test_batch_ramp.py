"""A batch that grows: the same bits as trainings with a fixed batch one after the other."""

import dataclasses

import pytest

from headrace.pipeline.core.errors import ConfigError, RetryableError
from headrace.pipeline.core.metrics_file import read_metrics
from headrace.train.engine.engine import Engine
from headrace.train.engine.zero import plan_batches
from headrace.train.training_config import TrainingConfig, ZeroConfig
from tests.train.loop.test_branch import TRUNK, same_training, stage

RAMP = {"batch_rows": 8, "ramp_first_rows": 4, "ramp_steps": 4, "steps": 8}


def config(first_rows: int, steps: int, batch_rows: int = 32) -> TrainingConfig:
    return TrainingConfig(steps=20, batch_rows=batch_rows, ramp_first_rows=first_rows, ramp_steps=steps)


def test_the_rows_of_each_update():
    assert [config(8, 6).rows_at(step) for step in range(8)] == [8, 8, 16, 16, 24, 24, 32, 32]
    assert [config(16, 5).rows_at(step) for step in range(6)] == [16] * 5 + [32]
    assert [config(32, 5).rows_at(step) for step in range(6)] == [32] * 6
    for first in range(20):
        for last in range(first, 20):
            rows = sum(config(8, 7).rows_at(step) for step in range(first, last))
            assert config(8, 7).rows_between(first, last) == rows


def test_sizes_that_do_not_fit():
    with pytest.raises(ConfigError) as error:
        config(12, 5)
    wrong = "training.ramp_first_rows: is 12, and batch_rows=32 is no multiple of it; give a divisor"
    assert str(error.value) == wrong
    with pytest.raises(ConfigError, match="ramp_first_rows: is null, and ramp_steps is 9; give both, or none"):
        TrainingConfig(steps=20, batch_rows=32, ramp_steps=9)
    with pytest.raises(ConfigError) as error:
        plan_batches(config(2, 5), 4)
    wrong = "training.ramp_first_rows: 2 rows cannot be dealt to 4 ranks; give a multiple of 4"
    assert str(error.value) == wrong


@pytest.mark.parametrize("zero_stage", [0, 1, 2, 3])
def test_it_is_a_branch_with_a_larger_batch(tmp_path, inputs, run_stage, zero_stage):
    def with_zero(**training):
        return dataclasses.replace(stage(**training), zero=ZeroConfig(stage=zero_stage))

    run_stage(with_zero(steps=4), inputs, tmp_path / TRUNK)
    branch = run_stage(with_zero(steps=8, batch_rows=8, branch_from=f"{TRUNK}@4"), inputs, tmp_path / "branch")
    ramp = run_stage(with_zero(**RAMP), inputs, tmp_path / "ramp")
    same_training(ramp, branch)
    assert (ramp.counts["rows"], ramp.counts["steps"]) == (4 * 4 + 4 * 8, 8)


def test_it_goes_on_after_a_stop_while_it_grows(tmp_path, inputs, run_stage, monkeypatch):
    whole = run_stage(stage(**RAMP, save_every=1), inputs, tmp_path / "whole")
    gradient, calls = Engine.gradient, []

    def stopping(self, *arguments):
        calls.append(1)
        if len(calls) in (3, 6):
            raise RetryableError("weights", "stopped", "run again")
        return gradient(self, *arguments)

    monkeypatch.setattr(Engine, "gradient", stopping)
    for _ in range(2):
        with pytest.raises(RetryableError):
            run_stage(stage(**RAMP, save_every=1), inputs, tmp_path / "alone" / "stopped")
    resumed = run_stage(stage(**RAMP, save_every=1), inputs, tmp_path / "alone" / "stopped")
    same_training(resumed, whole)
    assert [row["step"] for row in read_metrics(resumed.path("metrics.jsonl"))] == list(range(1, 9))

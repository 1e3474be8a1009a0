"""Training on some rows again and again: which rows, how often, and the loss on those that were seen."""

from collections import Counter

import numpy as np
import pytest

from headrace.pipeline.core.errors import ArtifactError, ConfigError, RetryableError
from headrace.pipeline.core.metrics_file import read_metrics
from headrace.train.data.mixture import Mix, training_data
from headrace.train.engine.engine import Engine
from tests.train.causal_rows import plain_loss
from tests.train.loop.test_branch import same_training, stage


def test_the_rows_are_the_first_of_the_training_and_come_equally_often(inputs):
    rows, order = training_data(3, inputs, Mix())
    first = order.batch(0, 40).tolist()
    for unique in (5, 20):
        some, own_order = training_data(3, inputs, Mix(), unique)
        assert len(some) == own_order.rows == unique
        read = [some.source(row) for row in own_order.batch(0, 2 * unique).tolist()]
        assert Counter(read) == {(0, row): 2 for row in first[:unique]}
        assert all((a == b).all() for a, b in zip(some.pieces(4), rows.pieces(first[4]), strict=True))
        assert own_order.epochs(3 * unique) == {"epoch": 3.0}
        spans = {tuple(span) for row in first[:unique] for span in rows.spans(row).tolist()}
        drawn = some.other_piece(0, 0, np.random.default_rng(0))
        assert any(len(drawn) == length + 1 for _, _, length in spans)


def test_too_many_rows(inputs):
    rows, _ = training_data(0, inputs, Mix())
    with pytest.raises(ConfigError) as caught:
        training_data(0, inputs, Mix(), len(rows) + 1)
    assert str(caught.value) == (
        f"training.unique_rows: is {len(rows) + 1}, and there are {len(rows)} rows to train on; "
        "give fewer, or null for all"
    )


def test_the_loss_on_seen_rows_is_that_of_the_exported_model(tmp_path, inputs, run_stage):
    artifact = run_stage(stage(steps=12, unique_rows=8, seen_rows=6), inputs, tmp_path / "weights")
    metrics = read_metrics(artifact.path("metrics.jsonl"))
    assert [row["step"] for row in metrics if "seen_loss" in row] == [4, 8, 12]
    assert metrics[-1]["epoch"] == 6.0
    rows, order = training_data(0, inputs, Mix(), 8)
    last = metrics[-1]
    assert last["seen_loss"] == pytest.approx(plain_loss(artifact, rows, order.batch(0, 6).tolist()), abs=1e-5)
    assert last["loss_gap"] == last["validation_loss"] - last["seen_loss"]
    plain = read_metrics(run_stage(stage(steps=12, unique_rows=8), inputs, tmp_path / "plain").path("metrics.jsonl"))
    assert not {"seen_loss", "loss_gap"} & plain[-1].keys()
    assert [row["loss"] for row in plain] == [row["loss"] for row in metrics]


def test_it_goes_on_after_a_stop_and_not_with_other_rows(tmp_path, inputs, run_stage, monkeypatch):
    whole = run_stage(stage(unique_rows=6, seen_rows=3, save_every=1), inputs, tmp_path / "whole")
    gradient, calls = Engine.gradient, []

    def stopping(self, *arguments):
        calls.append(1)
        if len(calls) == 4:
            raise RetryableError("weights", "stopped", "run again")
        return gradient(self, *arguments)

    monkeypatch.setattr(Engine, "gradient", stopping)
    with pytest.raises(RetryableError):
        run_stage(stage(unique_rows=6, seen_rows=3, save_every=1), inputs, tmp_path / "stopped")
    with pytest.raises(ArtifactError, match=r"trained on other data: training\.unique_rows changed"):
        run_stage(stage(unique_rows=7, seen_rows=3, save_every=1), inputs, tmp_path / "stopped")
    same_training(run_stage(stage(unique_rows=6, seen_rows=3, save_every=1), inputs, tmp_path / "stopped"), whole)

"""A slow rank is found by what it computes, not by how long its updates take, and its node is left out."""

import re
import socket
from pathlib import Path

import pytest
import torch

from headrace.pipeline.core import work_log
from headrace.pipeline.core.metrics_file import read_metrics
from headrace.train.distributed.processes import Ranks
from headrace.train.loop.speed import (
    SLOW_ROWS,
    BlockClock,
    Meter,
    Stragglers,
    peak_flops,
    report,
    slow_ranks,
)
from tests.train import fork_server, updates
from tests.train.test_weights import settings
from tests.train.training import specify


def test_a_rank_that_computes_slowly_is_named():
    times = [("n1", 1.0), ("n1", 1.15), ("n2", 2.6), ("n2", 1.0), ("n3", 1.1)]
    assert [slow.line() for slow in slow_ranks(times)] == [
        "weights: rank 2 (n2) takes 2.4 times as long as the median for its layers, and all ranks wait for it; "
        "cluster.train_options=['--exclude=n2'] leaves its node out"
    ]
    assert list(slow_ranks([("n1", 1.0)])) == []


def test_of_ranks_that_wait_for_each_other_a_group_is_named_and_a_node_only_if_it_is_that_of_all(tmp_path, capsys):
    """Rank 1 waits for rank 0 in each layer, and rank 3 for rank 2: each alone would look slow."""
    times = [("n1", 2.6), ("n1", 2.5), ("n2", 1.0), ("n2", 1.1), ("n3", 1.0), ("n4", 1.0), ("n5", 2.0), ("n6", 2.0)]
    (first, second) = slow_ranks([*times, ("n7", 1.0), ("n7", 1.0)], 2)
    for slow in (first, second):
        report(slow, tmp_path, torch.device("cuda"))
    waits = "times as long as the median for its layers, and all ranks wait for it"
    assert capsys.readouterr().err.splitlines() == [
        f"weights: one of ranks 0 to 1 (n1) takes 2.4 {waits}; cluster.train_options=['--exclude=n1'] leaves its node "
        "out",
        f"weights: one of ranks 6 to 7 (n5, n6) takes 1.8 {waits}; these ranks wait for each other, so its node is not "
        "known",
    ]
    assert work_log.bad_nodes(tmp_path) == ["n1"]


def test_the_node_of_a_slow_rank_on_a_cpu_is_not_left_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Another job on the same cores makes a healthy node slow."""
    (slow,) = slow_ranks([("n1", 2.0), ("n2", 1.0), ("n3", 1.0)])
    report(slow, tmp_path, torch.device("cpu"))
    assert capsys.readouterr().err.startswith("weights: rank 0 (n1) takes 2.0 times as long as the median")
    assert work_log.bad_nodes(tmp_path) == []


@pytest.mark.slow
@pytest.mark.parametrize("zero_stage", [0, 3])
def test_the_slow_one_of_two_real_ranks_is_named_once(tmp_path, inputs, zero_stage):
    """Its sleep is inside the layers; at stage 3 the other rank waits for it before each layer."""
    values = settings(steps=SLOW_ROWS + 1, save_every=100) | {"zero": {"stage": zero_stage}}
    spec = specify(tmp_path, inputs, values, [[str(tmp_path / "weights"), None]], 2)
    done = fork_server.run("tests.train.straggler_ranks", str(spec))
    assert done.returncode == 0, done.stderr
    rows = read_metrics(tmp_path / "weights/metrics.jsonl")
    assert [row["slowest_rank"] for row in rows] == [1] * len(rows)
    assert all(1.2 < row["slowest_rank_ratio"] < 2 for row in rows), "the median of two is their mean"
    assert all(row["rank_wait_seconds"] >= 0 for row in rows)
    node = socket.gethostname()
    named = re.findall(r"weights: rank (\d) \((\S+)\) takes [12]\.\d times as long as the median for", done.stderr)
    assert named == [("1", node)]
    assert work_log.bad_nodes(tmp_path / "weights") == [], "ranks on a CPU"


def test_evaluation_is_not_counted():
    model = updates.first_model("gpt2-tied")
    clock, whole = BlockClock(model, torch.device("cpu")), updates.batch(0)
    rows = whole["inputs"], whole["positions"], whole["documents"]
    model.eval()(*rows)
    assert clock.read() == 0
    model.train()(*rows)
    assert clock.read() > 0
    assert clock.read() == 0


def test_a_single_rank_is_compared_with_nothing(tmp_path):
    alone = Stragglers(updates.first_model("gpt2-tied"), Ranks(0, 1, 0, 1), tmp_path)
    alone.updated(1.0)
    assert alone.read() == {}
    assert not list(tmp_path.iterdir())


def test_a_node_that_has_all_ranks_is_not_to_be_left_out() -> None:
    (slow,) = slow_ranks([("n1", 1.0), ("n1", 2.0), ("n1", 1.0)])
    assert slow.line().endswith("all ranks wait for it; all of them are on this node")


def test_the_meter_counts_only_what_lies_between_start_and_stop(monkeypatch):
    clock = iter([0.0, 2.0, 50.0, 52.0])
    monkeypatch.setattr("headrace.train.loop.speed.time.perf_counter", lambda: next(clock))
    meter = Meter(flops_per_token=10.0, peak_flops=1000.0)
    for wait in (0.5, 0.25):
        meter.start()
        meter.stop(100, wait)
    assert meter.read() == {"tokens_per_second": 50.0, "data_wait_seconds": 0.375, "mfu": 0.5}
    assert meter.read() == {"tokens_per_second": 0.0, "data_wait_seconds": 0.0, "mfu": 0.0}


def test_a_cpu_has_no_peak():
    assert peak_flops(torch.device("cpu")) is None
    assert "mfu" not in Meter(1.0, None).read()


@pytest.mark.parametrize(
    ("name", "peak"),
    [("NVIDIA H100 80GB HBM3", 989e12), ("Tesla V100-SXM2-32GB", 125e12), ("Tesla T4", 65e12), ("NVIDIA T400", None)],
)
def test_the_peak_is_that_of_the_named_part(monkeypatch, name, peak):
    monkeypatch.setattr("torch.cuda.get_device_name", lambda device: name)
    assert peak_flops(torch.device("cuda")) == peak

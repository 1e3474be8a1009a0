"""Every value of the state goes through a checkpoint unchanged, from any ranks and ZeRO stage to any others."""

import itertools

import pytest

from tests.train.topologies import STAGES, Pair, Topology, resume, sample, table

TOLERANCES = {"fp32": 1e-5, "bf16": 2e-2}
"""Nats: sums over other ranks and stages are rounded in another order."""


def check(folder, pairs):
    for pair, resumption in resume(folder, pairs).items():
        assert resumption.is_restored, pair
        assert resumption.apart <= TOLERANCES[pair.precision], pair
        assert resumption.is_identical or not pair.same, pair


@pytest.mark.slow
def test_two_ranks_go_on_as_one_at_another_stage(tmp_path):
    """1 -> 3, which DeepSpeed's own converters do not do; tied weights; 3 -> 1."""
    check(tmp_path, [Pair("fp32", Topology(2, stage), Topology(1, 4 - stage)) for stage in (1, 3)])


@pytest.mark.slow
def test_the_moving_average_follows_the_weights_at_every_stage(tmp_path):
    averaged = (("fp32", 0, "adamw_ema"), ("bf16", 1, "muon_ema"), ("fp32", 3, "adamw_ema"))
    check(tmp_path, [Pair(precision, *2 * [Topology(2, stage)], name) for precision, stage, name in averaged])


@pytest.mark.slow
def test_state_on_the_cpu_goes_on_on_the_gpu_and_the_reverse(tmp_path):
    """``zero.offload`` on and off, with a moving average."""
    offloaded, on_the_gpu = Topology(2, 2, "optimizer"), Topology(1, 3)
    pairs = ((offloaded, on_the_gpu), (on_the_gpu, offloaded), (offloaded, offloaded))
    check(tmp_path, [Pair("bf16", *pair, "adamw_ema") for pair in pairs])


@pytest.mark.slow
def test_other_models_go_on_on_more_and_on_fewer_ranks(tmp_path):
    pairs = ((Topology(1, 1), Topology(2, 3)), (Topology(2, 3), Topology(1, 0)))
    models = ("encoder", "encoder-decoder", "albert", "shared-stacks", "bart")
    check(tmp_path, [Pair("fp32", *pair, model=model) for pair, model in itertools.product(pairs, models)])


@pytest.mark.slow
def test_any_stage_and_ranks_to_any_other(tmp_path):
    check(tmp_path, sample())


def test_the_sample_has_each_stage_and_number_of_ranks_to_each_other():
    pairs = sample()
    for precision, stages in STAGES.items():
        here = [pair for pair in pairs if pair.precision == precision]
        assert {(pair.saved.stage, pair.resumed.stage) for pair in here} == set(itertools.product(stages, stages))
        reached = {(pair.saved.ranks, pair.resumed.ranks) for pair in here}
        assert reached == {(pair.saved.ranks, pair.resumed.ranks) for pair in table() if pair.precision == precision}
        unchanged = {pair for pair in table() if pair.precision == precision and pair.same}
        assert unchanged <= set(here)

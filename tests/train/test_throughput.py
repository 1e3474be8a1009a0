import pytest
import torch
import yaml

from pipeline.core.settings import decode
from tests.train.model.test_transformer import PRESETS
from train.config import ModelConfig
from train.throughput import Meter, flops_per_token, peak_flops


def test_half_the_peak_of_an_h200_is_578_thousand_tokens_of_gpt2_small():
    """FLOP per token of GPT-2 small at T=1024 by PaLM's formula, against 50 % of 989 TFLOP/s."""
    config = decode(ModelConfig, yaml.safe_load((PRESETS / "gpt2_small.yaml").read_text()))
    assert 0.5 * 989e12 / flops_per_token(config, 50257, 1024) == pytest.approx(575_000, rel=0.01)


def test_the_meter_counts_only_what_lies_between_start_and_stop(monkeypatch):
    clock = iter([0.0, 2.0, 50.0, 52.0])
    monkeypatch.setattr("train.throughput.time.perf_counter", lambda: next(clock))
    meter = Meter(flops_per_token=10.0, peak_flops=1000.0)
    for wait in (0.5, 0.25):
        meter.start()
        meter.stop(100, wait)
    assert meter.read() == {"tokens_per_second": 50.0, "data_wait_seconds": 0.375, "mfu": 0.5}
    assert meter.read() == {"tokens_per_second": 0.0, "data_wait_seconds": 0.0, "mfu": 0.0}


def test_a_cpu_has_no_peak():
    assert peak_flops(torch.device("cpu")) is None
    assert "mfu" not in Meter(1.0, None).read()

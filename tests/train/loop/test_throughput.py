import pytest
import torch

from headrace.train.loop.stragglers import Meter, peak_flops


def test_the_meter_counts_only_what_lies_between_start_and_stop(monkeypatch):
    clock = iter([0.0, 2.0, 50.0, 52.0])
    monkeypatch.setattr("headrace.train.loop.stragglers.time.perf_counter", lambda: next(clock))
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

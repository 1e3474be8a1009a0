import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter
from transformers import get_linear_schedule_with_warmup

from headrace.pipeline.configuration.option_values import option_values
from headrace.pipeline.configuration.options import groups
from headrace.pipeline.core.errors import ConfigError
from headrace.train.loop.schedule import Constant, Cosine, InverseSquareRoot, Linear, Schedule, WarmupStableDecay


def test_cosine_is_torchs_behind_its_warmup():
    parameter = torch.nn.Parameter(torch.zeros(1))
    optimizer = torch.optim.SGD([parameter], lr=1.0)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=90, eta_min=0.1)
    schedule = Cosine(warmup_steps=10, final_fraction=0.1)
    assert [schedule.factor(step, 100) for step in range(10)] == pytest.approx([(i + 1) / 10 for i in range(10)])
    for step in range(10, 100):
        assert schedule.factor(step, 100) == pytest.approx(optimizer.param_groups[0]["lr"], abs=1e-9)
        optimizer.step()
        scheduler.step()


@pytest.mark.parametrize(("shape", "half"), [("linear", 0.5 * (1 + 0.2)), ("sqrt", 1 - 0.8 * 0.5**0.5)])
def test_wsd_rises_stays_and_falls(shape, half):
    schedule = WarmupStableDecay(warmup_steps=4, decay_fraction=0.2, final_fraction=0.2, shape=shape)
    assert [schedule.factor(step, 100) for step in (0, 3, 4, 50, 80)] == pytest.approx([0.25, 1, 1, 1, 1])
    assert schedule.factor(90, 100) == pytest.approx(half)
    assert schedule.factor(100, 100) == pytest.approx(0.2)


@pytest.mark.parametrize(
    ("shape", "expected"),
    [
        ("linear", lambda p, end: end + (1 - end) * (1 - p)),
        ("sqrt", lambda p, end: end + (1 - end) * (1 - math.sqrt(p))),
        ("square", lambda p, end: end + (1 - end) * (1 - p * p)),
        ("cosine", lambda p, end: end + (1 - end) * math.cos(math.pi * p / 2) ** 2),
        (
            "mirror_cosine",
            lambda p, end: 2 * (end + (1 - end) * (1 - p)) - end - (1 - end) * math.cos(p * math.pi / 2) ** 2,
        ),
        ("exponential", lambda p, end: math.exp(p * math.log(end))),
    ],
)
def test_each_decay_is_its_published_formula(shape, expected):
    schedule = WarmupStableDecay(warmup_steps=0, decay_fraction=0.5, final_fraction=0.1, shape=shape)
    found = [schedule.factor(step, 40) for step in range(20, 41)]
    assert found == pytest.approx([expected(step / 20, 0.1) for step in range(21)], abs=1e-12)
    assert found == sorted(found, reverse=True)


def test_an_exponential_decay_to_nothing_is_refused():
    with pytest.raises(ConfigError) as error:
        WarmupStableDecay(warmup_steps=0, shape="exponential")
    wrong = "schedule.final_fraction: is 0.0, which shape exponential never reaches"
    assert str(error.value) == f"{wrong}; give a share above 0, or another shape"


def test_linear_is_transformers_behind_its_warmup():
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=1.0)
    scheduler = get_linear_schedule_with_warmup(optimizer, num_warmup_steps=10, num_training_steps=100)
    schedule = Linear(warmup_steps=10)
    for step in range(100):
        if step >= 10:  # theirs begins at 0, ours at a tenth of the peak
            assert schedule.factor(step, 100) == pytest.approx(optimizer.param_groups[0]["lr"], abs=1e-12)
        optimizer.step()
        scheduler.step()
    assert [schedule.factor(step, 100) for step in (0, 9)] == [0.1, 1]
    assert Linear(warmup_steps=10, final_fraction=0.2).factor(55, 100) == pytest.approx(0.6)


def test_constant_stays():
    assert [Constant(warmup_steps=2).factor(step, 9) for step in range(4)] == [0.5, 1, 1, 1]
    assert Constant().factor(0, 1) == 1


def test_inverse_sqrt_is_the_formula_of_2017():
    width, warmup_steps, schedule = 512, 4000, InverseSquareRoot(warmup_steps=4000)
    peak = (width * warmup_steps) ** -0.5
    for number in (1, 2, 3999, 4000, 4001, 16_000, 100_000):
        expected = width**-0.5 * min(number**-0.5, number * warmup_steps**-1.5)
        assert peak * schedule.factor(number - 1, 100_000) == pytest.approx(expected, rel=1e-12)


def test_a_flat_inverse_sqrt_is_t5s():
    schedule = InverseSquareRoot(warmup_steps=10_000, warmup="flat")
    for number in (1, 9999, 10_000, 10_001, 40_000):
        assert 0.01 * schedule.factor(number - 1, 100_000) == pytest.approx(max(number, 10_000) ** -0.5, rel=1e-12)


@given(
    st.sampled_from([Cosine, Linear, WarmupStableDecay, Constant, InverseSquareRoot]),
    st.integers(0, 30),
    st.integers(1, 40),
    st.integers(0, 39),
)
def test_every_factor_is_a_share_of_the_peak(schedule, warmup_steps, steps, step):
    warmup_steps = max(warmup_steps, int(schedule is InverseSquareRoot))
    assert 0 <= schedule(warmup_steps=warmup_steps).factor(min(step, steps - 1), steps) <= 1


def test_yaml_chooses_by_type():
    kinds = {
        name: TypeAdapter(Schedule).validate_python(option_values("schedule", name)) for name in groups()["schedule"]
    }
    assert {name: type(kind) for name, kind in kinds.items()} == {
        "cosine": Cosine, "linear": Linear, "wsd": WarmupStableDecay, "wsd_exponential": WarmupStableDecay,
        "constant": Constant, "inverse_sqrt": InverseSquareRoot, "inverse_sqrt_flat": InverseSquareRoot,
    }  # fmt: skip

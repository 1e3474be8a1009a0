"""Spikes of the gradient norm, compared with a rule that looks at each whole window."""

import collections
import random

import numpy as np
import pytest

from headrace.train.loop import loss_guard, norm_watch
from headrace.train.loop.norm_watch import NormWatch
from tests.train.loop.test_loss_guard import GUARD, after


def watch(window: int, sigma: float | None = 3.0, prints: bool = True) -> NormWatch:
    return NormWatch(sigma, collections.deque(maxlen=window), prints)


@pytest.mark.parametrize("window", [4, 7, 16])
def test_it_equals_the_rule_on_each_window(window: int, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[tuple[str, str]] = []
    monkeypatch.setattr(norm_watch, "send", lambda event, stage, text: told.append((event, text)))
    numbers = random.Random(window)
    norms = [numbers.gauss(1, 0.1) * (20 if numbers.random() < 0.05 else 1) for _ in range(300)]
    expected = []
    for step, norm in enumerate(norms):
        before = np.array(norms[max(0, step - window) : step])
        known = len(before) >= max(2, window // 2)
        expected.append(known and norm > before.mean() + 3 * before.std(ddof=1))
    own = watch(window)
    assert [own.note(step, norm) for step, norm in enumerate(norms)] == expected
    assert any(expected)
    spikes = [step for step, is_spike in enumerate(expected) if is_spike]
    assert [text.split()[5] for _, text in told] == [str(step) for step in spikes]


def test_steps_without_an_update_and_other_ranks_tell_nothing() -> None:
    own = watch(4)
    for step, norm in enumerate([1.0, 1.1, None, float("inf"), float("nan"), 1.0, 1.1]):
        assert not own.note(step, norm)
    assert list(own.norms) == [1.0, 1.1, 1.0, 1.1]
    assert own.note(7, 99.0)
    for silent in (watch(4, prints=False), watch(4, sigma=None)):
        assert not any(silent.note(step, norm) for step, norm in enumerate([1.0, 1.1, 1.0, 1.1, 99.0]))


def test_a_spike_of_the_loss_is_told_by_the_rank_that_prints(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[tuple[str, ...]] = []
    monkeypatch.setattr(loss_guard, "send", lambda *order: told.append(order))
    losses = [1.0, 1.1, 1.0, 1.1, 9.0]
    after(losses)
    assert told == []
    after(losses, loss_guard.LossGuard(**vars(GUARD) | {"prints": True}))
    line = "the loss of step 5 is 9.0000, usual is 1.0500: back to the weights of step 4"
    assert told == [("spike", "weights", line)]

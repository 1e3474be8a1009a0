"""Calls in the background: they run in order, nobody waits for them, and they stop after the first failure."""

import threading

import pytest

from headrace.pipeline.tracking import wandb_run
from headrace.pipeline.tracking.wandb_run import Background


def test_calls_are_made_in_their_order() -> None:
    calls, made = Background("service", "the work goes on"), list[int]()
    for number in range(100):
        calls.call(lambda number=number: made.append(number))
    calls.close(60)
    assert made == list(range(100))


def test_the_first_failure_is_one_line_and_the_last_call(capfd: pytest.CaptureFixture[str]) -> None:
    calls, made = Background("service", "the work goes on"), list[int]()

    def fail() -> None:
        raise ZeroDivisionError("no server\nand a second line")

    for call in (lambda: made.append(1), fail, fail, lambda: made.append(2)):
        calls.call(call)
    calls.close(60)
    assert made == [1]
    assert capfd.readouterr().err == "service: ZeroDivisionError: no server; the work goes on\n"


def test_a_call_that_hangs_is_waited_for_no_longer_than_said(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wandb_run, "QUEUE_LIMIT", 10)
    answer, made = threading.Event(), list[int]()
    calls, busy = Background("service", "the work goes on"), Background("busy", "the work goes on")
    for _ in range(100):
        busy.call(answer.wait)
    for call in (answer.wait, lambda: made.append(1)):
        calls.call(call)
    calls.close(0.1)
    answer.set()
    busy.close(60)
    assert made == []
    lines = ["busy: has not answered for 10 calls; the work goes on"]
    lines += ["service: did not finish within 0.1 s; the work goes on"]
    assert capfd.readouterr().err.splitlines() == lines
